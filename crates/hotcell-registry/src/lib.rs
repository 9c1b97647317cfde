//! Images from registries.
//!
//! What is pulled becomes a layout of the Open Container Initiative on this machine, and is then taken
//! like any other. A registry is not trusted: content is what its digest says or refused, it is as
//! long as was said, and credentials go to the host that they are for and nowhere else.

mod blob;
mod challenge;
mod credentials;
mod docker_config;
#[cfg(test)]
mod docker_config_tests;
mod layout;
mod pull;
#[cfg(test)]
mod pull_tests;
mod session;

pub use credentials::Credentials;
pub use docker_config::DockerConfig;
pub use pull::{Registries, RegistrySettings};

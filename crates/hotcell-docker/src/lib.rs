//! Cells in containers of Docker engines.
//!
//! A container is only where a cell runs: its root is the image's and read-only, and all that a cell
//! keeps is in volumes. So a container that is gone is a cell that sleeps, and the next use makes
//! another one. Nothing is done by `docker exec`: pid 1 of the container is the supervisor.

mod birth;
mod carrier_id;
mod container;
#[cfg(test)]
mod container_tests;
mod diagnose;
mod disk;
mod docker_host;
mod driver;
mod engine_address;
#[cfg(test)]
mod engine_address_tests;
mod engine_dial;
#[cfg(test)]
mod engine_dial_tests;
mod engine_tls;
mod engines;
mod failure;
mod images;
mod isolation;
mod keeper;
mod keeping;
mod known_engine;
mod labels;
mod network;
mod paths;
mod placement;
mod podman;
mod preparing;
mod remains;
mod remote;
mod removal;
mod shown_files;
mod ssh_stream;
mod starting;
mod volumes;

pub use driver::{DockerDriver, DockerSettings};
pub use engine_address::{EngineAddress, EngineSettings, PlainTcp};
pub use hotcell_registry::DockerConfig;
pub use keeper::keep;
pub use remote::{connect, outpost, relay};

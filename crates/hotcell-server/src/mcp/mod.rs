//! The Model Context Protocol on top of a door.

mod calls;
mod client_profile;
mod elicited;
mod exec_call;
mod handler;
mod heartbeat;
mod held_call;
mod parameters;
mod passed;
mod passed_arguments;
mod progress_text;
mod resources;
mod search_call;
mod starting_call;
mod subscriptions;
mod talking;
mod tasks;
mod workspaces;

#[cfg(test)]
mod passed_arguments_tests;
#[cfg(test)]
mod workspaces_tests;

pub use client_profile::{ClientRules, ResultForm};

#[cfg(feature = "conformance")]
pub(crate) use crate::conformance::FixtureHandler as McpHandler;
#[cfg(not(feature = "conformance"))]
pub(crate) use handler::McpHandler;
#[cfg(feature = "conformance")]
pub(crate) use handler::McpHandler as RealHandler;

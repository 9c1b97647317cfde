//! The Model Context Protocol on top of a door.

mod calls;
mod exec_call;
mod handler;
mod parameters;
mod resources;
mod tasks;

#[cfg(feature = "conformance")]
pub(crate) use crate::conformance::FixtureHandler as McpHandler;
#[cfg(not(feature = "conformance"))]
pub(crate) use handler::McpHandler;
#[cfg(feature = "conformance")]
pub(crate) use handler::McpHandler as RealHandler;

//! The Model Context Protocol on top of a door.

mod calls;
mod exec_call;
mod handler;
mod parameters;
mod resources;
mod tasks;

pub(crate) use handler::McpHandler;

//! The server over HTTP: MCP at `/mcp`, a JSON API at `/v1`, and what watches over it.

mod access;
mod answer;
mod body;
mod body_room;
mod challenge;
mod connections;
mod default_cell;
mod endpoints;
mod held;
mod lease;
mod listener;
mod mcp_endpoint;
mod ports;
mod probes;
mod routes;
mod rpc_shape;
mod settings;
mod site;
mod stalling;
mod token;
mod v1;
mod visitors;

#[cfg(test)]
mod access_tests;
#[cfg(test)]
mod connections_tests;
#[cfg(test)]
mod listener_tests;
#[cfg(test)]
mod rpc_shape_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod visitors_tests;

pub use connections::serve;
pub use listener::{Listener, SocketListener, SocketMode};
pub use settings::{AccessSettings, HttpLimits, HttpSettings, Peer, Principal};
pub use token::Token;

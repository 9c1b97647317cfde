//! Servers of others, spoken to by MCP, whose tools code may call. They are started when they are
//! needed, watched, and ended when nobody needs them; nothing that they say is believed or unbounded.

mod http;
mod import;
mod lines;
mod link;
mod listing;
mod listing_file;
mod process;
mod server;
mod servers;
mod session;
mod spec;

#[cfg(test)]
mod import_tests;
#[cfg(test)]
mod lines_tests;
#[cfg(test)]
mod listing_file_tests;
#[cfg(test)]
mod spec_tests;

pub use import::{Imported, mcp_servers_json};
pub use servers::{McpServers, Surroundings, ValueOf};
pub use spec::{HttpLaunch, Launch, ServerName, ServerSpec, SpecText, StdioLaunch};

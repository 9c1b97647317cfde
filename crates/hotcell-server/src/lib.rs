//! The doors to Hotcell's engine for agents: MCP over standard input and output, and over HTTP.
//!
//! A server only translates: a call becomes a request of the engine, the reply becomes a result.
//! What a caller began goes on when the caller, its connection or the server ends.

mod call_id;
mod call_meter;
mod call_shares;
mod client_stream;
mod client_watch;
#[cfg(feature = "conformance")]
mod conformance;
mod dialects;
mod door;
mod encoded;
mod exec_parts;
mod file_asked;
mod file_shown;
pub mod http;
mod mcp;
mod metrics;
mod own_tools;
mod project_offer;
mod quoted;
mod screen_view;
mod starting_execs;
pub mod stdio;
mod terminal_args;
mod toolsets;
mod traces;
mod watches;

#[cfg(test)]
mod call_id_tests;

use std::io;
use std::pin::Pin;
use std::sync::Arc;

pub use client_watch::ClientWatch;
pub use dialects::hotcell::{Reach, ToolBounds};
pub use door::{Approvers, Door};
pub use hotcell_dialects::Dialect;
pub use mcp::{ClientRules, ResultForm};
pub use own_tools::DialectTools;
pub use project_offer::ProjectOffer;
pub use toolsets::{Toolset, Toolsets};
pub use traces::{Collector, Traces};

/// A server at work. A box, so that it is compiled here and not once more in each program that has one.
pub type Serving = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// The default dialect with these tools, and those for the user's projects.
#[must_use]
pub fn hotcell_dialect(
    toolsets: &Toolsets,
    bounds: ToolBounds,
    reach: Reach,
    project: &ProjectOffer,
) -> Arc<dyn Dialect> {
    let dialect = dialects::hotcell::HotcellDialect::new(toolsets, bounds, reach);
    Arc::new(dialect.with_project(project))
}

//! MCP over standard input and output, for a client that starts the server itself.

mod lines;
mod long_texts;
mod pipes;
mod request_id;

use std::io;

use hotcell_model::Caller;
use rmcp::ServiceExt;
use rmcp::model::ProtocolVersion;
use tokio::task::JoinSet;

use self::lines::{Begun, LineTransport};
use crate::Serving;
use crate::door::Door;
use crate::mcp::McpHandler;

/// Serves one client until its end of file.
///
/// # Errors
/// Standard input or output cannot be used.
#[inline(never)]
pub fn serve(door: Door, caller: Caller) -> Serving {
    Box::pin(converse(door, caller))
}

async fn converse(door: Door, caller: Caller) -> io::Result<()> {
    let (reader, writer) = pipes::open()?;
    let mut beside = JoinSet::new();
    beside.spawn(door.clone().adopt_cells(door.own_caller()));
    let begun = Begun::default();
    let (transport, written) =
        LineTransport::open(reader, writer, begun.clone(), door.closing.clone());
    let starting = door.starting.clone();
    let handler =
        McpHandler::new(door, caller, ProtocolVersion::KNOWN_VERSIONS).over_own_transport();
    match handler.serve(transport).await {
        Ok(running) => {
            begun.set();
            running.waiting().await.map_err(io::Error::other)?;
        }
        Err(error) => tracing::info!(%error, "the client left before it began"),
    }
    written.await;
    starting.finish().await;
    Ok(())
}

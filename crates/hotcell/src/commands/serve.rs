//! `hotcell serve`: the door for agents.

use std::sync::Arc;

use hotcell_server::{Door, hotcell_dialect, stdio};

use crate::args::Serve;
use crate::errors::Failure;
use crate::session::Session;

/// Serves until the client leaves.
pub(super) async fn serve(session: Session, args: Serve) -> Result<u8, Failure> {
    let (engine, mut caller) = session.into_parts();
    if let Some(alias) = args.cell {
        caller = caller.with_default_cell(alias);
    }
    let dialect = hotcell_dialect(&args.tools.unwrap_or_default());
    let door = Door::new(Arc::new(engine), dialect);
    stdio::serve(door, caller).await.map_err(Failure::Terminal)?;
    Ok(0)
}

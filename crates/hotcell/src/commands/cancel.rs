//! `hotcell cancel`: the end of an exec and everything it started.

use hotcell_model::{CancelStatus, ExecCancel};

use crate::args::Cancel;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{print, print_json};

/// Ends an exec.
pub(super) async fn cancel(session: &Session, args: Cancel) -> Result<u8, Failure> {
    let cancel =
        ExecCancel { exec: args.exec, signal: args.signal, grace_s: args.grace.as_secs_f64() };
    let cancelled = session.ask(cancel).await?;
    if args.json {
        print_json(&cancelled)?;
        return Ok(0);
    }
    let word = match cancelled.status {
        CancelStatus::Cancelled => "cancelled",
        CancelStatus::AlreadyEnded => "already ended",
    };
    print(format!("{} {word}\n", cancelled.exec))?;
    Ok(0)
}

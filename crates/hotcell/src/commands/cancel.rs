//! `hotcell cancel`: the end of an exec and everything it started.

use hotcell_model::{CancelStatus, ExecCancel, ExecGet};

use crate::args::Cancel;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{print, print_json};

/// Ends an exec.
pub(super) async fn cancel(session: &Session, args: Cancel) -> Result<u8, Failure> {
    let cancel =
        ExecCancel { exec: args.exec, signal: args.signal, grace_s: args.grace.as_secs_f64() };
    let cancelled = session.ask(cancel.clone()).await?;
    if cancelled.status == CancelStatus::NotFound {
        // Says what it says of every exec that does not exist.
        session.ask(ExecGet { exec: cancel.exec }).await?;
    }
    if args.json {
        print_json(&cancelled)?;
        return Ok(0);
    }
    let word = match cancelled.status {
        CancelStatus::Cancelled => "cancelled",
        CancelStatus::AlreadyEnded => "already ended",
        CancelStatus::NotFound => "not found",
    };
    print(format!("{} {word}\n", cancelled.exec))?;
    Ok(0)
}

//! `hotcell fork`: cells that begin with the files of another.

use hotcell_model::CellFork;

use crate::args::Fork;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{print, print_json};

/// Forks a cell and prints the new ids.
pub(super) async fn fork(session: &Session, args: Fork) -> Result<u8, Failure> {
    let Fork { cell, checkpoint, name, count, json } = args;
    let (alias, keep, ttl_s, idempotency_key) = (name, None, None, None);
    let fork = CellFork { cell, checkpoint, alias, count, keep, ttl_s, idempotency_key };
    let forks = session.ask(fork).await?;
    if json {
        print_json(&forks)?;
    } else {
        for cell in forks.cells {
            print(format!("{}\n", cell.id))?;
        }
    }
    Ok(0)
}

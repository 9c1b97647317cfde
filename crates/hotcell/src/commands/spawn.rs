//! `hotcell spawn`: a cell that lasts.

use hotcell_model::{CellSpawn, Keep};

use super::place::asked_for;
use crate::args::Spawn;
use crate::errors::Failure;
use crate::session::Session;
use crate::show::{print, print_json};

/// Makes a cell.
pub(super) async fn spawn(session: &Session, args: Spawn) -> Result<u8, Failure> {
    let spawn = CellSpawn {
        alias: args.name,
        keep: match args.persistent {
            true => Keep::Always,
            false => Keep::Ttl,
        },
        ttl_s: args.ttl,
        idle_ttl_s: args.idle_ttl,
        env: args.env.into_iter().collect(),
        checkpoint_before: args.checkpoint_before,
        idempotency_key: args.idempotency_key,
        ..asked_for(&args.shape)
    };
    let cell = session.ask(spawn).await?;
    match args.json {
        true => print_json(&cell)?,
        false => print(format!("{}\n", cell.id))?,
    }
    Ok(0)
}

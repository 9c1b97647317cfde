//! Tells whether two requests that carry one idempotency key ask for the same thing.

use hotcell_model::{CellFork, CellSpawn, ExecRun, stable_hash};
use serde::Serialize;

/// The fingerprint of what a spawn asks for.
pub(crate) fn of_spawn(request: &CellSpawn) -> u64 {
    of(&CellSpawn { idempotency_key: None, ..request.clone() })
}

/// The fingerprint of what a fork asks for.
pub(crate) fn of_fork(request: &CellFork) -> u64 {
    of(&("fork", CellFork { idempotency_key: None, ..request.clone() }))
}

/// The fingerprint of what a run asks for. How long its caller waits is no part of that, and
/// neither is the name by which it calls the cell: the key's scope has the cell.
pub(crate) fn of_run(request: &ExecRun) -> u64 {
    of(&(
        &request.command,
        &request.cwd,
        &request.env,
        &request.stdin,
        request.pty,
        request.timeout_s,
        request.priority,
        request.as_root,
    ))
}

fn of<T: Serialize>(value: &T) -> u64 {
    // Our own types with string keys: serialising cannot fail.
    stable_hash(&serde_json::to_vec(value).unwrap_or_default())
}

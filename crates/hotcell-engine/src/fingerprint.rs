//! Tells whether two requests that carry one idempotency key ask for the same thing.

use hotcell_model::{CellSpawn, ExecRun};
use serde::Serialize;

/// The fingerprint of what a spawn asks for.
pub(crate) fn of_spawn(request: &CellSpawn) -> u64 {
    fnv1a(&CellSpawn { idempotency_key: None, ..request.clone() })
}

/// The fingerprint of what a run asks for. How long its caller waits is no part of that, and
/// neither is the name by which it calls the cell: the key's scope has the cell.
pub(crate) fn of_run(request: &ExecRun) -> u64 {
    fnv1a(&(
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

/// FNV-1a: the same in every build, because fingerprints outlive upgrades.
fn fnv1a<T: Serialize>(value: &T) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    // Our own types with string keys: serialising cannot fail.
    let text = serde_json::to_vec(value).unwrap_or_default();
    text.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

//! Fresh ids from the kernel's randomness.

use hotcell_model::{CellId, CheckpointId, Error, ExecId, HeldId, Result};

/// An id that no cell has had.
pub(crate) fn new_cell_id() -> Result<CellId> {
    random_bits().map(CellId::from_random)
}

/// An id that no exec has had.
pub(crate) fn new_exec_id() -> Result<ExecId> {
    random_bits().map(ExecId::from_random)
}

/// An id that no checkpoint has had.
pub(crate) fn new_checkpoint_id() -> Result<CheckpointId> {
    random_bits().map(CheckpointId::from_random)
}

/// An id that no held call has had.
pub(crate) fn new_held_id() -> Result<HeldId> {
    random_bits().map(HeldId::from_random)
}

fn random_bits() -> Result<u64> {
    getrandom::u64()
        .map_err(|error| Error::unavailable(format!("the kernel gave no random bytes: {error}")))
}

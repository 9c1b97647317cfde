//! Turns the faults of files and journals into the one public error.

use std::fmt::Display;
use std::io;

use hotcell_journal::JournalError;
use hotcell_model::{CellId, Error, Result};

/// `what` was tried on the state directory, and the system said no.
pub(crate) fn io(what: impl Display, error: &io::Error) -> Error {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let kind = error.kind();
    let hint = if matches!(kind, StorageFull | QuotaExceeded) {
        "free some space on the file system of the state directory"
    } else if matches!(kind, PermissionDenied | ReadOnlyFilesystem) {
        "check who owns the state directory, or choose another one"
    } else {
        "check the state directory with `hotcell doctor`"
    };
    Error::unavailable(format!("cannot {what}: {error}")).hint(hint)
}

/// A cell's journal could not be read.
pub(crate) fn journal(cell: &CellId, error: &JournalError) -> Error {
    use std::error::Error as _;
    let because = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    Error::unavailable(format!("cannot read the journal of cell {cell}: {error}{because}"))
        .hint("check the state directory, or use the hotcell version that made the cell")
}

/// Runs work that touches files where it holds nobody up.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::internal(format!("work on files did not finish: {error}"))),
    }
}

//! Why a journal cannot be used, by the step that failed.

use std::io;

/// Why a journal could not be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It could not be opened or made.
    #[error("cannot open the journal")]
    Open(#[source] io::Error),
    /// Its bytes could not be read.
    #[error("cannot read the journal at byte {at}")]
    Read {
        /// How far it was read.
        at: u64,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// An entry that a dying supervisor left half-written could not be cut off.
    #[error("cannot cut the journal at byte {at}, where a torn entry begins")]
    Cut {
        /// Where the torn entry begins.
        at: u64,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It was written by a newer Hotcell.
    #[error(
        "the journal has format version {found}, this hotcell reads versions up to {known}: use the newer hotcell that wrote it"
    )]
    NewerVersion {
        /// The journal's version.
        found: u32,
        /// The newest version known here.
        known: u32,
    },
}

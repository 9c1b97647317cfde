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
    /// A line is longer than any that a supervisor writes.
    #[error("the line at byte {at} is longer than {max_bytes} bytes")]
    LongLine {
        /// Where the line begins.
        at: u64,
        /// The longest line that is read.
        max_bytes: usize,
    },
    /// The end of the journal has no entry.
    #[error("no entry in the last {bytes} bytes")]
    NoEntry {
        /// How much was searched.
        bytes: u64,
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

impl JournalError {
    /// Whether the file is not a journal that a supervisor writes, so that trying again is no use.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Open(source) => source.kind() == io::ErrorKind::InvalidData,
            Self::LongLine { .. } | Self::NoEntry { .. } => true,
            Self::Read { .. } | Self::Cut { .. } | Self::NewerVersion { .. } => false,
        }
    }
}

//! What an exec prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Where bytes came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// The exec's standard output.
    Stdout,
    /// The exec's standard error.
    Stderr,
    /// The exec's terminal, where both are one.
    Pty,
}

impl Stream {
    /// The stream as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Pty => "pty",
        }
    }
}

/// One read of output, raw. `seq` starts at 1 and never repeats within an exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its place among all output of the exec.
    pub seq: u64,
    /// When it was read.
    pub ts: Timestamp,
    /// Where it came from.
    pub stream: Stream,
    /// The bytes, at most [`Record::MAX_BYTES`].
    pub bytes: Vec<u8>,
}

impl Record {
    /// The most bytes in one record.
    pub const MAX_BYTES: usize = 16 * 1024;
}

/// One record as text: valid UTF-8, a character split between records whole in the later one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Its place among all output of the exec.
    pub seq: u64,
    /// Where it came from.
    pub stream: Stream,
    /// The text.
    pub data: String,
    /// When it was read.
    pub ts: Timestamp,
}

/// Output that was not kept: more came than the exec's bound, or the disk was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dropped {
    /// How many bytes are missing.
    pub dropped_bytes: u64,
    /// The first seq that is missing.
    pub from_seq: u64,
    /// The last seq that is missing.
    pub to_seq: u64,
}

//! One line of the journal: what it says and how it is written.

use hotcell_model::{
    Approval, ApprovalAnswer, CheckpointId, CloseReason, Command, ExecEnd, ExecId, Timestamp,
};
use serde::{Deserialize, Serialize};

/// The version that this build writes, and the newest it reads.
pub(crate) const VERSION: u32 = 1;

/// Hexadecimal digits of the checksum and the space after them.
const CRC_BYTES: usize = 9;

/// Something that happened in a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A supervisor began; whatever an earlier one had not ended is lost.
    Opened {
        /// When.
        at: Timestamp,
        /// The kernel's boot id.
        boot: String,
        /// Which program the supervisor is.
        software: String,
    },
    /// An exec was asked for.
    Queued {
        /// Its id.
        exec: ExecId,
        /// What to run.
        command: Command,
        /// Whether it has a terminal.
        pty: bool,
        /// Whether it runs as uid 0 of the cell.
        as_root: bool,
        /// Seconds that its output is kept after its end, where that is less than usual.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep_s: Option<u64>,
        /// When.
        at: Timestamp,
    },
    /// An exec that was asked for starts only once it is approved.
    Awaited {
        /// Which exec.
        exec: ExecId,
        /// By what, and until when.
        approval: Approval,
        /// When.
        at: Timestamp,
    },
    /// Somebody answered, or nobody did in time.
    Answered {
        /// Which exec.
        exec: ExecId,
        /// What.
        answer: ApprovalAnswer,
    },
    /// A checkpoint was made before an exec.
    Kept {
        /// Which exec.
        exec: ExecId,
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// When.
        at: Timestamp,
    },
    /// An exec's process was started.
    Started {
        /// Which exec.
        exec: ExecId,
        /// Its main process, as the cell sees it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// When.
        at: Timestamp,
    },
    /// An exec and all its descendants are gone and its output is complete.
    Ended {
        /// Which exec.
        exec: ExecId,
        /// How.
        end: ExecEnd,
    },
    /// The supervisor ended by itself.
    Closed {
        /// Why.
        reason: CloseReason,
        /// When.
        at: Timestamp,
    },
}

impl Entry {
    /// The exec that the entry is about, if it is about one.
    #[must_use]
    pub fn exec(&self) -> Option<&ExecId> {
        match self {
            Self::Queued { exec, .. }
            | Self::Awaited { exec, .. }
            | Self::Answered { exec, .. }
            | Self::Kept { exec, .. }
            | Self::Started { exec, .. }
            | Self::Ended { exec, .. } => Some(exec),
            Self::Opened { .. } | Self::Closed { .. } => None,
        }
    }
}

/// The first line of a journal.
#[derive(Serialize, Deserialize)]
struct Header {
    hotcell_journal: u32,
}

/// What a line turned out to be.
pub(crate) enum Line {
    /// The header, with this version.
    Header(u32),
    /// An entry.
    Entry(Entry),
    /// Torn, damaged, or of a kind that this build does not know.
    Unreadable,
}

/// Adds the header line to `out`.
pub(crate) fn encode_header(out: &mut Vec<u8>) {
    encode_line(&Header { hotcell_journal: VERSION }, out);
}

/// Adds an entry's line to `out`.
pub(crate) fn encode_entry(entry: &Entry, out: &mut Vec<u8>) {
    encode_line(entry, out);
}

fn encode_line<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let start = out.len();
    out.extend_from_slice(b"00000000 ");
    if serde_json::to_writer(&mut *out, value).is_err() {
        // Only a map with keys that are no strings could do this, and no entry has one.
        out.truncate(start);
        return;
    }
    let (head, json) = out[start..].split_at_mut(CRC_BYTES);
    let crc = crc32fast::hash(json);
    for (place, digit) in head[..8].iter_mut().enumerate() {
        *digit = HEX[(crc >> (28 - 4 * place)) as usize & 15];
    }
    out.push(b'\n');
}

/// Reads a line, given without its newline.
pub(crate) fn decode(line: &[u8]) -> Line {
    let Some((head, json)) = line.split_at_checked(CRC_BYTES) else { return Line::Unreadable };
    let crc =
        std::str::from_utf8(&head[..8]).ok().and_then(|hex| u32::from_str_radix(hex, 16).ok());
    if head[8] != b' ' || crc != Some(crc32fast::hash(json)) {
        return Line::Unreadable;
    }
    if let Ok(entry) = serde_json::from_slice(json) {
        return Line::Entry(entry);
    }
    match serde_json::from_slice::<Header>(json) {
        Ok(header) => Line::Header(header.hotcell_journal),
        Err(_) => Line::Unreadable,
    }
}

//! The files with the entries: how they are named, how each begins, and which there are.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use hotcell_model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::chain::{Keys, LedgerId, Mac, hex, line, take_apart, unhex};

/// No entry is longer.
pub(crate) const LINE_BYTES: usize = 16 << 10;
const VERSION: u32 = 1;
const SUFFIX: &str = ".jsonl";

/// The first line of a segment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Opening {
    /// The version of the format.
    pub(crate) ledger: u32,
    /// The number of the first entry.
    pub(crate) segment: u64,
    /// When it was begun.
    pub(crate) time: Timestamp,
    /// The ledger that it is a part of.
    pub(crate) id: String,
    /// The mac of the entry before.
    pub(crate) before: String,
    /// Names the key.
    pub(crate) key: String,
}

impl Opening {
    /// The first line of the segment that begins with entry `first` after the one with the mac
    /// `before`.
    pub(crate) fn line(keys: &Keys, ledger: &LedgerId, first: u64, before: &Mac) -> Vec<u8> {
        let opening = Self {
            ledger: VERSION,
            id: hex(ledger),
            segment: first,
            time: Timestamp::now(),
            before: hex(before),
            key: hex(&keys.id),
        };
        // Our own type of numbers and texts: it has a form in JSON.
        let body = serde_json::to_vec(&opening).unwrap_or_default();
        let mac = keys.segment(&body);
        line(body, &mac)
    }

    /// Reads it, if it is as it was written.
    pub(crate) fn read(keys: &Keys, text: &[u8]) -> Result<(Self, Mac), BadOpening> {
        let parts = take_apart(text).ok_or(BadOpening::Changed)?;
        let opening: Self = serde_json::from_slice(&parts.body).map_err(|_| BadOpening::Changed)?;
        if keys.segment(&parts.body) != parts.mac {
            return Err(match opening.key == hex(&keys.id) {
                true => BadOpening::Changed,
                false => BadOpening::OtherKey,
            });
        }
        let before = unhex(opening.before.as_bytes()).ok_or(BadOpening::Changed)?;
        Ok((opening, before))
    }

    /// When a segment was begun, as it says itself.
    pub(crate) fn time(text: &[u8]) -> Option<Timestamp> {
        let parts = take_apart(text)?;
        serde_json::from_slice::<Self>(&parts.body).ok().map(|opening| opening.time)
    }

    /// The ledger that it is a part of.
    pub(crate) fn ledger(&self) -> Option<LedgerId> {
        unhex(self.id.as_bytes())
    }
}

/// The first line of a file, without its newline.
pub(crate) fn first_line(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(LINE_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes.split(|byte| *byte == b'\n').next().unwrap_or_default().to_vec())
}

/// Whether a segment has more than its first line.
pub(crate) fn has_entries(path: &Path) -> io::Result<bool> {
    let mut begun = 0;
    let mut bytes = BufReader::new(fs::File::open(path)?);
    while begun < 2 {
        match bytes.skip_until(b'\n')? {
            0 => break,
            _ => begun += 1,
        }
    }
    Ok(begun == 2)
}

/// Why the first line of a segment is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadOpening {
    Changed,
    OtherKey,
}

/// What the segment that begins with an entry is called.
pub(crate) fn name(first: u64) -> String {
    format!("{first:016}{SUFFIX}")
}

/// Where it is.
pub(crate) fn path(directory: &Path, first: u64) -> PathBuf {
    directory.join(name(first))
}

/// The segments that are there, by the number of their first entry, the oldest first.
pub(crate) fn list(directory: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let file = entry?.file_name();
        let first = file.to_str().and_then(|file| {
            let first = file.strip_suffix(SUFFIX)?.parse().ok()?;
            (name(first) == file).then_some(first)
        });
        found.extend(first);
    }
    found.sort_unstable();
    Ok(found)
}

/// The lines of a segment, the first one included, without their newlines; what comes after the
/// last newline apart.
pub(crate) fn lines(bytes: &[u8]) -> (impl Iterator<Item = &[u8]>, &[u8]) {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (whole, rest) = bytes.split_at(end);
    let whole = whole.strip_suffix(b"\n");
    (whole.into_iter().flat_map(|whole| whole.split(|byte| *byte == b'\n')), rest)
}

//! Reading the journal, piece by piece from where an earlier reading ended.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use crate::entry::{Entry, Line, VERSION, decode};
use crate::error::JournalError;
use crate::log_place::size_of;
use crate::record_file::{open_record, open_records, record_size};

/// The journal's name in the records directory.
pub(crate) const FILE_NAME: &str = "journal";

/// The longest journal that is read.
pub(crate) const MAX_JOURNAL_BYTES: u64 = 4 << 30;
/// The longest line that is read. A command has at most 1 MiB, each byte of which may be escaped as
/// six, and the loss of a newline joins two lines.
pub(crate) const MAX_LINE_BYTES: usize = 16 << 20;

const CHUNK_BYTES: usize = 64 * 1024;
/// So many bytes of whole lines are read at once; one line may be longer.
const PIECE_BYTES: u64 = 4 << 20;
/// How much of the end is first searched for the last entry.
const LOOK_BACK_BYTES: u64 = 16 * 1024;

/// Entries from some point of a journal on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JournalTail {
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// The byte offset to go on from.
    pub end: u64,
    /// Lines that could not be read: damaged, or of a kind that only a newer Hotcell knows.
    pub skipped: u64,
    /// Whether there was no whole line after `end`; otherwise read on from there.
    pub at_end: bool,
}

/// Reads whole entries from byte offset `from` on, some MiB at most; 0 is the start. Without a journal
/// there are none. If the journal is shorter than `from` (a power failure took its tail) it is read
/// again from its start.
///
/// # Errors
/// The journal cannot be read, is not a file that a supervisor writes, or a newer Hotcell wrote it.
pub fn read_journal(records: &Path, from: u64) -> Result<JournalTail, JournalError> {
    let Some(file) = open_journal(records)? else {
        return Ok(JournalTail { end: from, at_end: true, ..JournalTail::default() });
    };
    let size = size_of(&file).map_err(JournalError::Open)?;
    let from = if size < from { 0 } else { from };
    let mut entries = Vec::new();
    let seen = scan(file.as_fd(), from, Extent::Piece, |entry| entries.push(entry))?;
    Ok(JournalTail { entries, end: seen.end, skipped: seen.skipped, at_end: seen.at_end })
}

/// The length of a cell's journal in bytes; zero when there is none.
///
/// # Errors
/// The journal cannot be looked at, or is not a file that a supervisor writes.
pub fn journal_length(records: &Path) -> Result<u64, JournalError> {
    let size = record_size(records, FILE_NAME, MAX_JOURNAL_BYTES);
    Ok(size.map_err(|error| JournalError::Open(error.into()))?.unwrap_or(0))
}

/// The first entry of a journal, if there is one.
///
/// # Errors
/// As for [`read_journal`].
pub fn first_entry(records: &Path) -> Result<Option<Entry>, JournalError> {
    let mut from = 0;
    loop {
        let tail = read_journal(records, from)?;
        from = tail.end;
        if tail.at_end || !tail.entries.is_empty() {
            return Ok(tail.entries.into_iter().next());
        }
    }
}

/// The last entry of a journal, if there is one; only its end is read.
///
/// # Errors
/// As for [`read_journal`], and if a long end of the journal has no entry.
pub fn last_entry(records: &Path) -> Result<Option<Entry>, JournalError> {
    let Some(file) = open_journal(records)? else { return Ok(None) };
    let size = size_of(&file).map_err(JournalError::Open)?;
    let mut look_back = LOOK_BACK_BYTES;
    loop {
        // If this is in the middle of a line, its rest is skipped as unreadable.
        let from = size.saturating_sub(look_back);
        let mut last = None;
        scan(file.as_fd(), from, Extent::Upto(size), |entry| last = Some(entry))?;
        if last.is_some() || from == 0 {
            return Ok(last);
        }
        if look_back > 2 * MAX_LINE_BYTES as u64 {
            return Err(JournalError::NoEntry { bytes: look_back });
        }
        look_back = look_back.saturating_mul(8);
    }
}

fn open_journal(records: &Path) -> Result<Option<OwnedFd>, JournalError> {
    let records = match open_records(records) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(JournalError::Open)?,
    };
    open_record(records, FILE_NAME, MAX_JOURNAL_BYTES)
        .map_err(|error| JournalError::Open(error.into()))
}

/// How much of a journal is scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Some MiB.
    Piece,
    /// All of it.
    All,
    /// Up to this byte offset, where the file ended a moment ago.
    Upto(u64),
}

/// How far a scan came.
pub(crate) struct Seen {
    /// After the last whole line.
    pub(crate) end: u64,
    /// How far the file was read.
    pub(crate) size: u64,
    /// Lines that could not be read.
    pub(crate) skipped: u64,
    /// Whether the end of the file was seen.
    pub(crate) at_end: bool,
}

/// Hands every entry from `from` on to `take`.
pub(crate) fn scan(
    file: BorrowedFd<'_>,
    from: u64,
    extent: Extent,
    mut take: impl FnMut(Entry),
) -> Result<Seen, JournalError> {
    let limit = match extent {
        Extent::Piece | Extent::All => MAX_JOURNAL_BYTES,
        Extent::Upto(end) => end.min(MAX_JOURNAL_BYTES),
    };
    let mut seen = Seen { end: from, size: from, skipped: 0, at_end: false };
    // The start of a line whose end is not read yet.
    let mut line: Vec<u8> = Vec::new();
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    loop {
        if extent == Extent::Piece && seen.end - from >= PIECE_BYTES {
            return Ok(seen);
        }
        chunk.clear();
        if seen.size >= limit {
            seen.at_end = true;
            return Ok(seen);
        }
        match rustix::io::pread(file, spare_capacity(&mut chunk), seen.size) {
            Ok(0) => {
                seen.at_end = true;
                return Ok(seen);
            }
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => {
                return Err(JournalError::Read { at: seen.size, source: errno.into() });
            }
        }
        let mut rest = chunk.as_slice();
        while let Some(at) = memchr::memchr(b'\n', rest) {
            let (head, tail) = rest.split_at(at);
            let whole = if line.is_empty() {
                head
            } else {
                line.extend_from_slice(head);
                &line
            };
            match decode(whole) {
                Line::Entry(entry) => take(entry),
                Line::Header(found) if found > VERSION => {
                    return Err(JournalError::NewerVersion { found, known: VERSION });
                }
                Line::Header(_) => {}
                Line::Unreadable => seen.skipped += 1,
            }
            line.clear();
            rest = &tail[1..];
            seen.end = seen.size + (chunk.len() - rest.len()) as u64;
        }
        if line.len() + rest.len() > MAX_LINE_BYTES {
            return Err(JournalError::LongLine { at: seen.end, max_bytes: MAX_LINE_BYTES });
        }
        line.extend_from_slice(rest);
        seen.size += chunk.len() as u64;
    }
}

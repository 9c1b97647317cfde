//! Reading the journal, whole or from where an earlier reading ended.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::entry::{Entry, Line, VERSION, decode};
use crate::error::JournalError;

/// The journal's name in the records directory.
pub(crate) const FILE_NAME: &str = "journal";

const CHUNK_BYTES: usize = 64 * 1024;
/// The longest line that is taken for one: the largest request of the link with every byte escaped.
const MAX_LINE_BYTES: usize = 128 << 20;

/// Entries from some point of a journal on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JournalTail {
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// The byte offset to go on from.
    pub end: u64,
    /// Lines that could not be read: damaged, or of a kind that only a newer Hotcell knows.
    pub skipped: u64,
}

/// Reads the whole entries from byte offset `from` on; 0 is the start. Without a journal there are
/// none. If the journal is shorter than `from` (a power failure took its tail) all of it is read
/// again.
///
/// # Errors
/// The journal cannot be read, or a newer Hotcell wrote it.
pub fn read_journal(records: &Path, from: u64) -> Result<JournalTail, JournalError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = match rustix::fs::openat(CWD, records.join(FILE_NAME), flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(JournalTail { end: from, ..JournalTail::default() }),
        Err(errno) => return Err(JournalError::Open(errno.into())),
    };
    let stat = rustix::fs::fstat(&file).map_err(|errno| JournalError::Open(errno.into()))?;
    let from = if u64::try_from(stat.st_size).unwrap_or(0) < from { 0 } else { from };
    let mut entries = Vec::new();
    let seen = scan(file.as_fd(), from, |entry| entries.push(entry))?;
    Ok(JournalTail { entries, end: seen.end, skipped: seen.skipped })
}

/// How far a scan came.
pub(crate) struct Seen {
    /// After the last whole line.
    pub(crate) end: u64,
    /// The end of the file.
    pub(crate) size: u64,
    /// Lines that could not be read.
    pub(crate) skipped: u64,
}

/// Hands every entry from `from` on to `take`.
pub(crate) fn scan(
    file: BorrowedFd<'_>,
    from: u64,
    mut take: impl FnMut(Entry),
) -> Result<Seen, JournalError> {
    let mut seen = Seen { end: from, size: from, skipped: 0 };
    // The start of a line whose end is not read yet.
    let mut line: Vec<u8> = Vec::new();
    let mut overlong = false;
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    loop {
        chunk.clear();
        match rustix::io::pread(file, spare_capacity(&mut chunk), seen.size) {
            Ok(0) => return Ok(seen),
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
                Line::Entry(entry) if !overlong => take(entry),
                Line::Header(found) if found > VERSION => {
                    return Err(JournalError::NewerVersion { found, known: VERSION });
                }
                Line::Header(_) => {}
                Line::Entry(_) | Line::Unreadable => seen.skipped += 1,
            }
            line.clear();
            overlong = false;
            rest = &tail[1..];
            seen.end = seen.size + (chunk.len() - rest.len()) as u64;
        }
        if line.len() + rest.len() > MAX_LINE_BYTES {
            overlong = true;
            line.clear();
        }
        line.extend_from_slice(rest);
        seen.size += chunk.len() as u64;
    }
}

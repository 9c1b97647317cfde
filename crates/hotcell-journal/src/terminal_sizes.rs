//! The sizes that an exec's terminal has had: one file per exec, beside its log. Without one the size
//! was always the usual one.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use hotcell_model::{ExecId, TerminalSize};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::log_place::{DIRECTORY, read_whole, size_of};
use crate::record_file::{open_record, open_records};

/// Past this only the newest size is kept.
const MOST_BYTES: u64 = 64 * 1024;

/// A size and the output from which on a terminal had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeChange {
    /// The last seq that was printed before.
    pub after_seq: u64,
    /// The size.
    pub size: TerminalSize,
}

fn path(exec: &ExecId) -> String {
    format!("{DIRECTORY}/{exec}.sizes")
}

/// Records that an exec's terminal has this size from now on.
///
/// # Errors
/// It could not be written.
pub fn write_terminal_size(
    records: BorrowedFd<'_>,
    exec: &ExecId,
    change: SizeChange,
) -> io::Result<()> {
    match rustix::fs::mkdirat(records, DIRECTORY, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(records, path(exec), flags, Mode::RUSR | Mode::WUSR)?;
    if size_of(&file)? >= MOST_BYTES {
        rustix::fs::ftruncate(&file, 0)?;
    }
    let SizeChange { after_seq, size: TerminalSize { rows, cols } } = change;
    // A line is short enough to be written at once; one that is torn is not read.
    rustix::io::write(&file, format!("{after_seq} {rows} {cols}\n").as_bytes())?;
    Ok(())
}

/// The sizes that an exec's terminal has had, oldest first.
///
/// # Errors
/// They were recorded and cannot be read.
pub fn read_terminal_sizes(records: &Path, exec: &ExecId) -> io::Result<Vec<SizeChange>> {
    let file = match open_records(records) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => open_record(opened?, &path(exec), 2 * MOST_BYTES)?,
    };
    let Some(file) = file else { return Ok(Vec::new()) };
    let most = usize::try_from(2 * MOST_BYTES).unwrap_or(usize::MAX);
    let bytes = read_whole(&file, most)?.unwrap_or_default();
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let text = String::from_utf8_lossy(&bytes[..whole]);
    Ok(text.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<SizeChange> {
    let mut words = line.split(' ');
    let after_seq = words.next()?.parse().ok()?;
    let rows = words.next()?.parse().ok()?;
    let cols = words.next()?.parse().ok()?;
    Some(SizeChange { after_seq, size: TerminalSize { rows, cols } })
}

//! What code tells of itself when it ends: one file per exec, beside its log.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use hotcell_model::ExecId;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::log_place::{DIRECTORY, read_whole};
use crate::record_file::{open_record, open_records};

/// The most that a report may be; what is longer is none.
pub const MAX_REPORT_BYTES: usize = 512 * 1024;

fn path(exec: &ExecId) -> String {
    format!("{DIRECTORY}/{exec}.report")
}

/// Writes down what an exec reported. The directory of logs is there by then.
///
/// # Errors
/// It could not be written; then there is no report.
pub fn write_report(records: BorrowedFd<'_>, exec: &ExecId, report: &[u8]) -> io::Result<()> {
    match rustix::fs::mkdirat(records, DIRECTORY, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(records, path(exec), flags, Mode::RUSR | Mode::WUSR)?;
    let mut rest = report;
    while !rest.is_empty() {
        match rustix::io::write(&file, rest) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            Err(errno) => {
                // Half of a report is none.
                let _ = rustix::fs::ftruncate(&file, 0);
                return Err(errno.into());
            }
        }
    }
    Ok(())
}

/// What an exec reported, if it did.
///
/// # Errors
/// It is there and cannot be read.
pub fn read_report(records: &Path, exec: &ExecId) -> io::Result<Option<Vec<u8>>> {
    let file = match open_records(records) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => open_record(opened?, &path(exec), MAX_REPORT_BYTES as u64)?,
    };
    let Some(file) = file else { return Ok(None) };
    Ok(read_whole(&file, MAX_REPORT_BYTES)?.filter(|bytes| !bytes.is_empty()))
}

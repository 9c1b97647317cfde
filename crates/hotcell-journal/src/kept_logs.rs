//! The output logs that a cell keeps, and letting go of them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use hotcell_model::ExecId;
use rustix::fs::{CWD, Mode, OFlags};

use crate::log_place::{DIRECTORY, GapNote, LogPlace};
use crate::log_reader::Ended;
use crate::scan::{Scanner, Step};
use crate::seek::{Reach, seek};

/// The output of an exec on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptLog {
    /// Whose it is.
    pub exec: ExecId,
    /// What it takes.
    pub bytes: u64,
    /// When it was last written to.
    pub written_at: SystemTime,
}

/// Every exec whose output is kept in a records directory.
///
/// # Errors
/// The directory cannot be read.
pub fn list_logs(records: &Path) -> io::Result<Vec<KeptLog>> {
    let entries = match fs::read_dir(records.join(DIRECTORY)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut logs: BTreeMap<String, KeptLog> = BTreeMap::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let exec = name.to_str().and_then(|name| name.split_once('.')).map(|(exec, _)| exec);
        let Some(Ok(exec)) = exec.map(str::parse::<ExecId>) else { continue };
        // What is gone by now takes nothing; a statement of a gap is a link.
        let Some(found) = entry.metadata().ok().filter(fs::Metadata::is_file) else { continue };
        let written_at = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let log =
            logs.entry(exec.as_str().to_owned()).or_insert(KeptLog { exec, bytes: 0, written_at });
        log.bytes += found.len();
        log.written_at = log.written_at.max(written_at);
    }
    Ok(logs.into_values().collect())
}

/// Removes the output of an exec that has ended, and what its code reported. How much there was stays
/// stated: readers are told that it was not kept. Idempotent.
///
/// # Errors
/// It cannot be read, or not removed.
pub fn forget_output(records: &Path, exec: &ExecId) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let place = LogPlace::new(rustix::fs::openat(CWD, records, flags, Mode::empty())?, exec);
    let end = find_end(&place)?;
    if end.to_seq > 0 {
        place.write_note(end)?;
    }
    let prefix = format!("{exec}.");
    for entry in fs::read_dir(records.join(DIRECTORY))? {
        let entry = entry?;
        let is_its = entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes());
        if is_its && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            match fs::remove_file(entry.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
    }
    Ok(())
}

/// How much output there was in all.
fn find_end(place: &LogPlace) -> io::Result<GapNote> {
    let mut scanner: Scanner = seek(place, u64::MAX - 1, Reach::Record)?;
    loop {
        match scanner.peek(place, Ended::Yes)? {
            Step::End => {
                return Ok(GapNote { to_seq: scanner.last(), total_bytes: scanner.total() });
            }
            Step::Record(_) | Step::Gap(_) => scanner.advance(),
        }
    }
}

//! The output logs that a cell keeps, and letting go of them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hotcell_model::ExecId;
use rustix::fs::{AtFlags, Dir, FileType, Stat, statat, unlinkat};
use rustix::io::Errno;

use crate::log_place::{GapNote, LogPlace};
use crate::log_reader::Ended;
use crate::record_file::{open_logs, open_records};
use crate::scan::{Scanner, Step};
use crate::seek::{Reach, seek};

/// Of so many execs at most, so that a directory full of names does not fill the memory.
const MAX_LOGS: usize = 100_000;

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

/// Every exec whose output is kept in a records directory, or as many as are looked at.
///
/// # Errors
/// The directory cannot be read.
pub fn list_logs(records: &Path) -> io::Result<Vec<KeptLog>> {
    let records = match open_records(records) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let Some(directory) = open_logs(&records)? else { return Ok(Vec::new()) };
    let mut logs: BTreeMap<String, KeptLog> = BTreeMap::new();
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let exec = name.to_str().ok().and_then(|name| name.split_once('.')).map(|(exec, _)| exec);
        let Some(Ok(exec)) = exec.map(str::parse::<ExecId>) else { continue };
        // A file may be gone by now; the statement of a gap is a link.
        let Ok(found) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            continue;
        }
        if logs.len() >= MAX_LOGS && !logs.contains_key(exec.as_str()) {
            continue;
        }
        let written_at = modified_at(&found);
        let log =
            logs.entry(exec.as_str().to_owned()).or_insert(KeptLog { exec, bytes: 0, written_at });
        let bytes = u64::try_from(found.st_size).unwrap_or(0);
        log.bytes = log.bytes.saturating_add(bytes);
        log.written_at = log.written_at.max(written_at);
    }
    Ok(logs.into_values().collect())
}

fn modified_at(found: &Stat) -> SystemTime {
    let seconds = u64::try_from(found.st_mtime).unwrap_or(0);
    SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_secs(seconds))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Removes the output of an exec that has ended, and what its code reported. How much there was stays
/// stated: readers are told that it was not kept. Idempotent.
///
/// # Errors
/// It cannot be read, or not removed.
pub fn forget_output(records: &Path, exec: &ExecId) -> io::Result<()> {
    let records = open_records(records)?;
    let Some(logs) = open_logs(&records)? else { return Ok(()) };
    let place = LogPlace::new(records, exec);
    match find_end(&place) {
        Ok(end) if end.to_seq > 0 => place.write_note(end)?,
        Ok(_) => {}
        // What is no log has no end to state, and is removed all the same.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
        Err(error) => return Err(error),
    }
    let prefix = format!("{exec}.");
    for entry in Dir::read_from(&logs)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let is_its = name.starts_with(prefix.as_bytes()) && !name.ends_with(b".gap");
        if !is_its || entry.file_type() == FileType::Directory {
            continue;
        }
        match unlinkat(&logs, entry.file_name(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
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

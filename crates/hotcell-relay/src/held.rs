//! What there is of the records, told to whoever has the original.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use hotcell_journal::{RecordError, open_record};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::file_name::{FileName, LOGS};
use crate::frame::{Held, HeldFile};
use crate::tail_sum::tail_sum;

/// Every file of the records below a directory, by what it is.
pub(crate) fn list(records: impl AsFd) -> io::Result<Vec<(FileName, FileType)>> {
    let mut found = Vec::new();
    let directory = rustix::fs::openat(&records, ".", directory_flags(), Mode::empty())?;
    for entry in Dir::new(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_str().ok().and_then(FileName::in_records);
        found.extend(name.map(|name| (name, entry.file_type())));
    }
    match rustix::fs::openat(&records, LOGS, directory_flags(), Mode::empty()) {
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
        Ok(logs) => {
            for entry in Dir::new(logs)? {
                let entry = entry?;
                let name = entry.file_name().to_str().ok().and_then(FileName::in_logs);
                found.extend(name.map(|name| (name, entry.file_type())));
            }
        }
    }
    Ok(found)
}

/// What there is of each.
pub(crate) fn describe(records: &Path) -> io::Result<Vec<HeldFile>> {
    let records = rustix::fs::openat(CWD, records, directory_flags(), Mode::empty())?;
    let mut held = Vec::new();
    for (file, _) in list(&records)? {
        let found = match open_file(&records, &file)? {
            Opened::File(opened) => {
                let length = size_of(&opened)?;
                tail_sum(opened.as_fd(), length)?.map(|sum| Held::Bytes { length, sum })
            }
            Opened::Link(target) => Some(Held::Link { target }),
            Opened::Nothing => None,
        };
        held.extend(found.map(|held| HeldFile { file, held }));
    }
    Ok(held)
}

/// Those of logs of which there is nothing but a link that says how much there was.
pub(crate) fn bare_links(records: &Path) -> io::Result<Vec<HeldFile>> {
    let records = rustix::fs::openat(CWD, records, directory_flags(), Mode::empty())?;
    let (mut links, mut with_bytes) = (Vec::new(), BTreeSet::new());
    for (file, _) in list(&records)? {
        match open_file(&records, &file)? {
            Opened::Link(target) => links.push(HeldFile { file, held: Held::Link { target } }),
            Opened::File(_) => with_bytes.extend(file.exec_prefix().map(str::to_owned)),
            Opened::Nothing => {}
        }
    }
    links.retain(|link| link.file.exec_prefix().is_none_or(|exec| !with_bytes.contains(exec)));
    Ok(links)
}

/// What is at a name.
#[derive(Debug)]
pub(crate) enum Opened {
    File(rustix::fd::OwnedFd),
    Link(String),
    /// Nothing, or nothing that records are made of.
    Nothing,
}

/// The largest file that is copied.
const MAX_BYTES: u64 = 4 << 30;

/// Opens a file of the records to read it.
pub(crate) fn open_file(records: impl AsFd, file: &FileName) -> io::Result<Opened> {
    match open_record(&records, file.as_str(), MAX_BYTES) {
        Ok(opened) => Ok(opened.map_or(Opened::Nothing, Opened::File)),
        Err(RecordError::SymbolicLink { .. }) => {
            match rustix::fs::readlinkat(&records, file.as_str(), Vec::new()) {
                Ok(target) => Ok(target.into_string().map_or(Opened::Nothing, Opened::Link)),
                Err(Errno::NOENT | Errno::INVAL) => Ok(Opened::Nothing),
                Err(errno) => Err(errno.into()),
            }
        }
        Err(
            RecordError::NotRegular { .. }
            | RecordError::NotInDirectory { .. }
            | RecordError::NotDirectory { .. }
            | RecordError::Outside { .. }
            | RecordError::HardLinks { .. }
            | RecordError::TooLarge { .. }
            | RecordError::Leased { .. },
        ) => Ok(Opened::Nothing),
        Err(error @ RecordError::Open { .. }) => Err(error.into()),
    }
}

pub(crate) fn size_of(file: impl AsFd) -> io::Result<u64> {
    Ok(u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0))
}

pub(crate) fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

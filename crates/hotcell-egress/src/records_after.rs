//! Reads records from where somebody stopped, also after the file was put aside for a newer one.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use hotcell_model::{NetCursor, NetRecord, NetTail, stable_hash};
use rustix::fs::{Mode, OFlags};

use crate::plain_file::open_plain;
use crate::records::{FILE_BYTES, LINE_BYTES, NEWEST, OLDER};

/// How much before a place tells that the file is the one that was read.
const BEFORE: u64 = 64;

/// Whether there is any record in a directory.
#[must_use]
pub fn has_records(directory: &Path) -> bool {
    // Whatever it is, it is looked at when it is opened.
    directory.join(NEWEST).symlink_metadata().is_ok()
}

/// What came since a place. A line that is not whole yet is left for the next time, and one that is
/// none of ours is left out.
///
/// # Errors
/// A file could not be read.
pub fn read_after(directory: &Path, cursor: &NetCursor) -> io::Result<NetTail> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::open(directory, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => {
            return Ok(NetTail { records: Vec::new(), cursor: *cursor, missed: false });
        }
        opened => opened?,
    };
    // The newest first: if it is put aside in between, it is read twice rather than never, and the
    // second time nothing of it is new.
    let newest = find(&directory, NEWEST)?;
    let older = find(&directory, OLDER)?.filter(|older| match &newest {
        Some(newest) => number(newest).ok() != number(older).ok(),
        None => true,
    });
    let mut tail = NetTail { records: Vec::new(), cursor: *cursor, missed: false };
    let begun = *cursor != NetCursor::default();
    match (&newest, &older) {
        (Some(newest), _) if begun && is_at(newest, cursor)? => {
            read_file(newest, cursor.offset, &mut tail)?;
        }
        (newest, Some(older)) if begun && is_at(older, cursor)? => {
            read_file(older, cursor.offset, &mut tail)?;
            if let Some(newest) = newest {
                read_file(newest, 0, &mut tail)?;
            }
        }
        (newest, older) => {
            // One that was never read, or thrown away since.
            tail.missed = begun && newest.is_some();
            for file in [older, newest].into_iter().flatten() {
                read_file(file, 0, &mut tail)?;
            }
        }
    }
    Ok(tail)
}

fn find(directory: &OwnedFd, name: &str) -> io::Result<Option<File>> {
    match open_plain(directory, name, OFlags::RDONLY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

fn number(file: &File) -> io::Result<u64> {
    file.metadata().map(|found| found.ino())
}

/// Whether a file is the one that was read up to a place.
fn is_at(file: &File, cursor: &NetCursor) -> io::Result<bool> {
    Ok(number(file)? == cursor.file
        && file.metadata()?.len() >= cursor.offset
        && before(file, cursor.offset)? == cursor.before)
}

fn before(file: &File, offset: u64) -> io::Result<u64> {
    let from = offset.saturating_sub(BEFORE);
    let mut bytes = vec![0; usize::try_from(offset - from).unwrap_or_default()];
    file.read_exact_at(&mut bytes, from)?;
    Ok(stable_hash(&bytes))
}

/// Reads a file from a place on, and notes how far.
fn read_file(mut file: &File, from: u64, tail: &mut NetTail) -> io::Result<()> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    // Whatever somebody put there, no more is read than would be written.
    file.take((FILE_BYTES + LINE_BYTES).saturating_sub(from)).read_to_end(&mut bytes)?;
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    for line in bytes[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        if line.len() as u64 <= LINE_BYTES
            && let Ok(record) = serde_json::from_slice::<NetRecord>(line)
        {
            tail.records.push(record);
        }
    }
    let offset = from + end as u64;
    tail.cursor = NetCursor { file: number(file)?, offset, before: before(file, offset)? };
    Ok(())
}

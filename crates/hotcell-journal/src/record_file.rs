//! Opens the files of a records directory for reading, on the assumption that a hostile supervisor
//! may have put anything there.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, statat};
use rustix::io::Errno;

use crate::log_place::DIRECTORY;

/// Why a file of a records directory is not read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The name belongs to something else than a regular file.
    #[error("{name} is {found} instead of a regular file")]
    NotRegular {
        /// The name in the records directory.
        name: String,
        /// What it is.
        found: &'static str,
    },
    /// A directory on the way is missing or is something else.
    #[error("{name} is not in a directory")]
    NotInDirectory {
        /// The name in the records directory.
        name: String,
    },
    /// The directory of the logs is something else.
    #[error("{name} is not a directory")]
    NotDirectory {
        /// The name in the records directory.
        name: String,
    },
    /// The name, or a directory on the way, is a symbolic link.
    #[error("{name} is reached through a symbolic link")]
    SymbolicLink {
        /// The name in the records directory.
        name: String,
    },
    /// The name leads out of the records directory.
    #[error("{name} leads out of the records directory")]
    Outside {
        /// The name in the records directory.
        name: String,
    },
    /// The file has other names, which may be in directories of others.
    #[error("{name} has more than one hard link")]
    HardLinks {
        /// The name in the records directory.
        name: String,
    },
    /// The file is larger than any that Hotcell writes.
    #[error("{name} is {bytes} bytes long, more than the limit of {max_bytes}")]
    TooLarge {
        /// The name in the records directory.
        name: String,
        /// Its size.
        bytes: u64,
        /// The largest size that is read.
        max_bytes: u64,
    },
    /// A process holds a lease on the file, which would delay its reader.
    #[error("{name} is blocked by a file lease")]
    Leased {
        /// The name in the records directory.
        name: String,
    },
    /// The system refused.
    #[error("cannot open {name}: {source}")]
    Open {
        /// The name in the records directory.
        name: String,
        /// Why.
        source: io::Error,
    },
}

impl RecordError {
    fn from_errno(name: &str, errno: Errno) -> Self {
        let name = name.to_owned();
        match errno {
            Errno::LOOP => Self::SymbolicLink { name },
            Errno::XDEV => Self::Outside { name },
            Errno::NOTDIR => Self::NotInDirectory { name },
            Errno::NXIO => Self::NotRegular { name, found: "a socket or device" },
            Errno::AGAIN => Self::Leased { name },
            errno => Self::Open { name, source: errno.into() },
        }
    }
}

impl From<RecordError> for io::Error {
    fn from(error: RecordError) -> Self {
        let kind = match &error {
            RecordError::Open { source, .. } => source.kind(),
            RecordError::NotRegular { .. }
            | RecordError::NotInDirectory { .. }
            | RecordError::NotDirectory { .. }
            | RecordError::SymbolicLink { .. }
            | RecordError::Outside { .. }
            | RecordError::HardLinks { .. }
            | RecordError::TooLarge { .. }
            | RecordError::Leased { .. } => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

/// Opens a records directory, as far as names in it are looked up.
///
/// # Errors
/// It is missing, is a symbolic link, or is not a directory.
pub fn open_records(records: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, records, flags, Mode::empty())?)
}

/// Opens a file of a records directory for reading; `None` if there is none. It never waits, follows
/// no symbolic link, and opens only regular files of at most `max_bytes` with a single name. The file
/// may grow afterwards: its reader stops at `max_bytes`.
///
/// # Errors
/// There is something else at this name, or it cannot be opened.
pub fn open_record(
    records: impl AsFd,
    name: &str,
    max_bytes: u64,
) -> Result<Option<OwnedFd>, RecordError> {
    let file = match open_beneath(records.as_fd(), name) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened.map_err(|errno| RecordError::from_errno(name, errno))?,
    };
    let stat = fstat(&file).map_err(|errno| RecordError::from_errno(name, errno))?;
    check(name, &stat, max_bytes)?;
    Ok(Some(file))
}

/// The size of a file of a records directory; `None` if there is none.
///
/// # Errors
/// There is something else at this name, or it cannot be looked at.
pub(crate) fn record_size(
    records: &Path,
    name: &str,
    max_bytes: u64,
) -> Result<Option<u64>, RecordError> {
    match statat(CWD, records.join(name), rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(RecordError::from_errno(name, errno)),
        Ok(stat) => check(name, &stat, max_bytes).map(Some),
    }
}

/// Opens the directory of the logs; `None` if there is none.
pub(crate) fn open_logs(records: impl AsFd) -> Result<Option<OwnedFd>, RecordError> {
    let name = || DIRECTORY.to_owned();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(records, DIRECTORY, flags, Mode::empty()) {
        Ok(directory) => Ok(Some(directory)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR) => Err(RecordError::NotDirectory { name: name() }),
        Err(errno) => Err(RecordError::Open { name: name(), source: errno.into() }),
    }
}

fn check(name: &str, stat: &rustix::fs::Stat, max_bytes: u64) -> Result<u64, RecordError> {
    let name = || name.to_owned();
    let found = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let bytes = u64::try_from(stat.st_size).unwrap_or(0);
            return if stat.st_nlink > 1 {
                Err(RecordError::HardLinks { name: name() })
            } else if bytes > max_bytes {
                Err(RecordError::TooLarge { name: name(), bytes, max_bytes })
            } else {
                Ok(bytes)
            };
        }
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of unknown type",
    };
    Err(RecordError::NotRegular { name: name(), found })
}

/// The flags under which opening a file neither waits nor follows a link.
const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

fn open_beneath(records: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(records, name, FLAGS, Mode::empty(), resolve) {
        // Linux before 5.6, and filters of system calls that do not know it.
        Err(Errno::NOSYS | Errno::PERM) => open_step_by_step(records, name),
        opened => opened,
    }
}

/// The same without `openat2`: one directory after the other.
pub(crate) fn open_step_by_step(records: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (mut directory, mut rest) = (None, name);
    while let Some((first, tail)) = rest.split_once('/') {
        let from = directory.as_ref().map_or(records, AsFd::as_fd);
        directory = Some(openat(from, first, flags, Mode::empty())?);
        rest = tail;
    }
    openat(directory.as_ref().map_or(records, AsFd::as_fd), rest, FLAGS, Mode::empty())
}

//! Files of the ledger: private, told apart by what they are and not by their names.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hotcell_model::{Error, Result};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// Where everything is.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The segments.
    pub(crate) directory: PathBuf,
    /// The head.
    pub(crate) head: PathBuf,
    /// The key.
    pub(crate) key: PathBuf,
}

/// What a file is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: (u32, u32),
    inode: u64,
}

/// What is looked at before each entry. Times are left out: where somebody saw a file's time, the
/// next write has to change it, which costs more than the write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) identity: Identity,
    pub(crate) size: u64,
    /// How many names it has.
    pub(crate) names: u32,
}

impl Look {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Self::from_kernel(file.as_fd(), Path::new(""), AtFlags::EMPTY_PATH)
    }

    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        Self::from_kernel(CWD, path, AtFlags::empty())
    }

    fn from_kernel(directory: BorrowedFd<'_>, path: &Path, flags: AtFlags) -> io::Result<Self> {
        let wanted = StatxFlags::INO | StatxFlags::SIZE | StatxFlags::NLINK;
        let found = statx(directory, path, flags, wanted)?;
        let device = (found.stx_dev_major, found.stx_dev_minor);
        let identity = Identity { device, inode: found.stx_ino };
        Ok(Self { identity, size: found.stx_size, names: found.stx_nlink })
    }
}

/// Makes the directories that are not there.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens a file to read and write; one that is not there is made.
pub(crate) fn open_or_make(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Opens a file to read and write that has to be there.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Makes a file that is not there yet.
pub(crate) fn make(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Adds to a file; one that is not there is made.
pub(crate) fn add_to(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).open(path)?.write_all(bytes)
}

/// What a file holds from a place on, as far as `length`.
pub(crate) fn read_at(file: &File, from: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut had = 0;
    while had < length {
        match file.read_at(&mut bytes[had..], from + had as u64) {
            Ok(0) => break,
            Ok(more) => had += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(had);
    Ok(bytes)
}

/// What could not be done with the ledger, and what to do about it.
pub(crate) fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    use ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let kind = error.kind();
    let hint = if matches!(kind, StorageFull | QuotaExceeded) {
        "free some space on the file system of the ledger"
    } else if matches!(kind, PermissionDenied | ReadOnlyFilesystem) {
        "check who owns the state directory, ledger.key_file and ledger.head_file"
    } else {
        "check the state directory with `hotcell doctor`"
    };
    Error::unavailable(format!("cannot {what} {}: {error}", path.display())).hint(hint)
}

/// The same for results.
pub(crate) trait OrFailed<T> {
    fn or_failed(self, what: &str, path: &Path) -> Result<T>;
}

impl<T> OrFailed<T> for io::Result<T> {
    fn or_failed(self, what: &str, path: &Path) -> Result<T> {
        self.map_err(|error| failed(what, path, &error))
    }
}

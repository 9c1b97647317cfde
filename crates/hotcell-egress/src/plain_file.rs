//! Files in a directory that belongs to a cell: whatever lies there under a name, nothing but a
//! plain file of its own is read or written, and nobody waits for it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};

/// Opens a plain file with one name. A link is not followed, and a pipe not waited for.
pub(crate) fn open_plain(directory: impl AsFd, name: &str, how: OFlags) -> io::Result<File> {
    let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::from_raw_mode(0o600))?;
    let status = fstat(&file)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile || status.st_nlink > 1 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{name} is not a plain file with one name"),
        ));
    }
    Ok(File::from(file))
}

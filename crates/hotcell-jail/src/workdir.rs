//! Where an exec starts: a directory of the cell, opened without leaving it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

/// Opens a directory below this process's root.
///
/// # Errors
/// It is not there, or is no directory.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?)
}

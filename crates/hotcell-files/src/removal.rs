//! Removing and moving directories with all that is in them, by descriptors.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use hotcell_model::Result;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;

use crate::fault::Tried;
use crate::tree::Slot;

/// Directories within directories; a path could not name what is deeper.
const MOST_DEEP: usize = 2048;

/// Removes whatever is there; how many files and directories that were.
pub(crate) fn remove_tree(slot: &Slot) -> Result<u64> {
    let what = || format!("delete {}", slot.path);
    remove(&slot.directory, &slot.name, 0).tried(what)
}

fn remove(directory: &OwnedFd, name: &OsStr, depth: usize) -> rustix::io::Result<u64> {
    within(depth)?;
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) => return Ok(1),
        Err(Errno::NOENT) => return Ok(0),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    let inside = open_directory(directory, name)?;
    let mut removed = 1;
    // What is added while this goes on is removed in another round.
    loop {
        for (name, _) in names(&inside)? {
            removed += remove(&inside, &name, depth + 1)?;
        }
        match unlinkat(directory, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(removed),
            Err(Errno::NOTEMPTY) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Moves a directory that cannot be renamed, entry by entry.
pub(crate) fn move_tree(from: &Slot, to: &Slot) -> Result<()> {
    move_inside(&from.directory, &from.name, &to.directory, &to.name, 0)
        .tried(|| format!("move {} to {}", from.path, to.path))
}

fn move_inside(
    from: &OwnedFd,
    from_name: &OsStr,
    to: &OwnedFd,
    to_name: &OsStr,
    depth: usize,
) -> rustix::io::Result<()> {
    within(depth)?;
    let source = open_directory(from, from_name)?;
    let mode = Mode::from_raw_mode(fstat(&source)?.st_mode & 0o7777);
    mkdirat(to, to_name, Mode::from_raw_mode(0o700))?;
    let target = open_directory(to, to_name)?;
    for (name, _) in names(&source)? {
        match renameat(&source, &name, &target, &name) {
            Err(Errno::XDEV) => move_inside(&source, &name, &target, &name, depth + 1)?,
            other => other?,
        }
    }
    fchmod(&target, mode)?;
    unlinkat(from, from_name, AtFlags::REMOVEDIR)
}

/// Whether a directory is not nested deeper than this process can follow.
pub(crate) fn within(depth: usize) -> rustix::io::Result<()> {
    if depth < MOST_DEEP { Ok(()) } else { Err(Errno::NAMETOOLONG) }
}

/// Opens a directory itself, never where a link in its place leads.
pub(crate) fn open_directory(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty())
}

/// What is in a directory, without `.` and `..`.
pub(crate) fn names(
    directory: &OwnedFd,
) -> rustix::io::Result<Vec<(std::ffi::OsString, FileType)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            found.push((OsStr::from_bytes(name).to_owned(), entry.file_type()));
        }
    }
    Ok(found)
}

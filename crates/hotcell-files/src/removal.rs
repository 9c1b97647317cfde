//! Removing and moving directories with all that is in them, by descriptors.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hotcell_model::Result;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fchmod, fstat, mkdirat, openat,
    openat2, renameat, unlinkat,
};
use rustix::io::Errno;

use crate::fault::Tried;
use crate::tree::Slot;

/// Directories within directories; a path could not name what is deeper.
const MOST_DEEP: usize = 2048;
const MOST_ROUNDS: usize = 100;

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
    let inside = match open_directory(directory, name) {
        // It is a file after all, and must not be removed.
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(Errno::PERM),
        other => other?,
    };
    let mut removed = 1;
    // What is added while this goes on is removed in another round.
    for _ in 0..MOST_ROUNDS {
        for (name, _) in names(&inside)? {
            removed += match remove(&inside, &name, depth + 1) {
                // Its owner may take write protection off, which is what is wanted.
                Err(Errno::ACCESS) if unprotect(&inside) => remove(&inside, &name, depth + 1)?,
                other => other?,
            };
        }
        match unlinkat(directory, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(removed),
            Err(Errno::NOTEMPTY) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::NOTEMPTY)
}

/// Lets a directory's owner change what is in it; whether that was not so before.
pub(crate) fn unprotect(directory: &OwnedFd) -> bool {
    fstat(directory).is_ok_and(|stat| {
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777 | 0o700);
        stat.st_mode & 0o700 != 0o700 && fchmod(directory, mode).is_ok()
    })
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

/// Opens a directory below another, never through a link.
pub(crate) fn open_inside(top: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    openat2(top, path, flags, Mode::empty(), resolve)
}

/// Opens a regular file in a directory, and nothing else: a pipe could keep the caller waiting.
pub(crate) fn open_file(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<(File, Stat)> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::empty())?;
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::AGAIN);
    }
    Ok((File::from(file), stat))
}

/// Whether a directory in another is the beginning of a file system that the kernel makes up, like
/// `/proc`: reading there may wait forever.
pub(crate) fn is_made_by_kernel(directory: &OwnedFd, above: &OwnedFd) -> bool {
    let device = |directory| fstat(directory).map(|stat| stat.st_dev).ok();
    device(directory) != device(above) && is_of_kernel(directory)
}

/// Whether a directory lies in a file system that the kernel makes up.
pub(crate) fn is_of_kernel(directory: &OwnedFd) -> bool {
    const PROC: u64 = 0x9fa0;
    const SYS: u64 = 0x6265_6572;
    const CGROUP: u64 = 0x0027_e0eb;
    const CGROUP2: u64 = 0x6367_7270;
    const DEBUG: u64 = 0x6462_6720;
    const TRACE: u64 = 0x7472_6163;
    const TERMINALS: u64 = 0x1cd1;
    const QUEUES: u64 = 0x1980_0202;
    let Ok(stat) = rustix::fs::fstatfs(directory) else { return true };
    let magic = u64::try_from(stat.f_type).unwrap_or_default();
    [PROC, SYS, CGROUP, CGROUP2, DEBUG, TRACE, TERMINALS, QUEUES].contains(&magic)
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

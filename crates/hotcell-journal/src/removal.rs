//! Removing a records directory, however deep a hostile supervisor nested directories in it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, openat, renameat_with, unlinkat};
use rustix::io::Errno;

/// Removes a records directory and everything in it. Nested directories are moved up before they are
/// emptied, so that neither the stack nor the number of open files limits their depth. Idempotent.
///
/// # Errors
/// Something cannot be removed.
pub fn remove_records(records: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = match openat(CWD, records, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let mut moved = 0_u64;
    loop {
        let directories = remove_files(&top)?;
        if directories.is_empty() {
            break;
        }
        for name in directories {
            let directory = openat(&top, &name, flags, Mode::empty())?;
            for inner in remove_files(&directory)? {
                move_up(directory.as_fd(), &inner, top.as_fd(), &mut moved)?;
            }
            unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
    }
    match unlinkat(CWD, records, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes everything but directories, which are returned.
fn remove_files(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut directories = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            // What the kernel says of a directory differs between file systems.
            Err(Errno::ISDIR | Errno::PERM) => directories.push(name.to_owned()),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(directories)
}

fn move_up(
    from: BorrowedFd<'_>,
    name: &CString,
    top: BorrowedFd<'_>,
    moved: &mut u64,
) -> Result<(), Errno> {
    loop {
        *moved += 1;
        let new = format!("removed-{moved}");
        match renameat_with(from, name, top, new, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            outcome => return outcome,
        }
    }
}

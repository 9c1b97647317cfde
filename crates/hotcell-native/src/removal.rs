//! Removing a cell's files, whoever owns them.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use hotcell_jail::ids::IdLayout;
use hotcell_jail::namespace_work::{Namespace, work_in};
use hotcell_jail::{Step as _, StepError};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, chmodat, openat, renameat_with,
};
use rustix::io::Errno;

/// What lies deeper in a tree that cannot be removed is moved up first.
const DEEP: usize = 128;
/// How often a directory is removed that others put something into.
const TRIES: u32 = 100;

/// Removes a directory tree; what is not there is removed already.
pub(crate) fn remove_files(directory: &Path, ids: &IdLayout) -> Result<(), StepError> {
    let in_namespace = |namespace| work_in(namespace, || remove_tree(directory).map(|()| 0_u64));
    match ids {
        IdLayout::Private { .. } => in_namespace(Namespace::Own).map(drop),
        // A cell that never started left nothing that is not the user's own, and may have been
        // kept from starting by the want of a namespace.
        IdLayout::Host { .. } => {
            remove_stubborn(directory).step(|| format!("remove {}", directory.display()))
        }
        IdLayout::Subordinate { .. } | IdLayout::Single { .. } => {
            in_namespace(Namespace::Own).or_else(|_| in_namespace(Namespace::New(ids))).map(drop)
        }
    }
}

/// Removes the directory of a cell that is gone. A process that has just come to look for the cell
/// may put its lock there meanwhile.
pub(crate) fn remove_directory(directory: &Path) -> io::Result<()> {
    for _ in 1..TRIES {
        match remove_tree(directory) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            removed => return removed,
        }
    }
    remove_tree(directory)
}

/// Removes a directory tree of this user, in which the user may not be allowed to look.
pub(crate) fn remove_stubborn(directory: &Path) -> io::Result<()> {
    match remove_tree(directory) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(CWD, directory)?;
            remove_tree(directory)
        }
        removed => removed,
    }
}

/// Lets the user into a directory and into every one below it, without following a link.
pub(crate) fn open_up(parent: BorrowedFd<'_>, name: impl rustix::path::Arg) -> io::Result<()> {
    let held = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match openat(parent, name, held, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
    chmodat(CWD, link, Mode::RWXU, AtFlags::empty())?;
    let open = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(&directory, ".", open, Mode::empty())?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let is_itself = entry.file_name() == c"." || entry.file_name() == c"..";
        if !is_itself && matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
            open_up(directory.as_fd(), entry.file_name())?;
        }
    }
    Ok(())
}

/// Removes a directory tree, however deep; what is not there is removed already.
pub(crate) fn remove_tree(directory: &Path) -> io::Result<()> {
    let remove = || match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    match remove() {
        // Each directory on the way down is held open.
        Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
            while shorten(directory)? {}
            remove()
        }
        removed => removed,
    }
}

/// Moves what lies deep in a tree that nobody uses any more up to its top; whether there was any.
fn shorten(top: &Path) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, top, flags, Mode::empty())?;
    let mut way = vec![Dir::read_from(&root)?];
    let mut moved: u64 = 0;
    loop {
        let depth = way.len();
        let Some(directory) = way.last_mut() else { break };
        let Some(entry) = directory.read() else {
            way.pop();
            continue;
        };
        let entry = entry?;
        let name = entry.file_name();
        let may_lead_on = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
        if name == c"." || name == c".." || !may_lead_on {
            continue;
        }
        if depth > DEEP {
            let place = directory.fd()?;
            loop {
                let above = format!(".deep-{moved}");
                moved += 1;
                match renameat_with(place, name, &root, above, RenameFlags::NOREPLACE) {
                    Err(Errno::EXIST) => {}
                    renamed => break renamed?,
                }
            }
            continue;
        }
        match openat(directory.fd()?, name, flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => {}
            inside => way.push(Dir::new(inside?)?),
        }
    }
    Ok(moved > 0)
}

#[cfg(test)]
#[path = "removal_tests.rs"]
mod removal_tests;

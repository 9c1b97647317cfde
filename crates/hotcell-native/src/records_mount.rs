//! The records directory as a cell's pid 1 gets it: the root of a mount, so that no `..` leads from it
//! to the host's files.

use std::os::fd::OwnedFd;
use std::path::Path;

use hotcell_jail::{Step, StepError};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{OpenTreeFlags, open_tree};

/// Opens a records directory as a mount that is attached nowhere.
///
/// # Errors
/// The directory is missing, or this process may not mount.
pub(crate) fn open_contained(records: &Path) -> Result<OwnedFd, StepError> {
    let name = || format!("open {} as a mount", records.display());
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let mount = open_tree(CWD, records, flags).step(name)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(&mount, ".", flags, Mode::empty()).step(name)
}

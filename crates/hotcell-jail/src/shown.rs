//! A directory of the host that everybody in a cell sees and nobody in it can write to. The host
//! goes on changing what lies in it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, statat};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, move_mount};

use crate::mounts::{copy_tree, forbid_programs};
use crate::{Step, StepError};

/// Where it is seen, below the root.
const NAME: &str = "tools";

/// The directory as a mount that is not attached yet.
pub(crate) fn make(directory: &Path) -> Result<OwnedFd, StepError> {
    let mount = copy_tree(directory)?;
    forbid_programs(mount.as_fd()).step(|| format!("make {} read-only", directory.display()))?;
    Ok(mount)
}

/// Puts it into a root. The cell's own root may have put something else in its place while it was
/// not there; then it is left out.
pub(crate) fn put(mount: &OwnedFd, root: impl AsFd) -> Result<(), StepError> {
    let name = || format!("put /{NAME} in place");
    match rustix::fs::mkdirat(&root, NAME, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno).step(name),
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let place = match rustix::fs::openat2(root, NAME, flags, Mode::empty(), resolve) {
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        opened => opened.step(name)?,
    };
    let both_empty =
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", &place, "", both_empty).step(name)
}

/// What is mounted there in the root that this process sees, if anything is.
pub(crate) fn find() -> Result<Option<OwnedFd>, StepError> {
    let name = || format!("look at /{NAME}");
    let place = Path::new("/").join(NAME);
    let found = match statat(CWD, &place, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        found => found.step(name)?,
    };
    // A directory of the root itself has the root's device.
    if found.st_dev == statat(CWD, "/", AtFlags::empty()).step(name)?.st_dev {
        return Ok(None);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(&place, flags, Mode::empty()).map(Some).step(name)
}

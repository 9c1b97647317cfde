//! A directory of the host that everybody in a cell sees and nobody in it can write to. The host
//! goes on changing what lies in it, and the cell is made to look anew.
//!
//! It is the lower part of an overlay: the cell reads of what is mounted, and from which path.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, statat};
use rustix::io::Errno;
use rustix::mount::{FsPickFlags, MoveMountFlags, fsconfig_reconfigure, fspick, move_mount};

use crate::mounts::{Below, OverlayMaker, forbid_programs, overlay};
use crate::{Step, StepError};

/// Where it is seen, below the root.
const NAME: &str = "tools";

/// What is shown.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// The directory of the host.
    pub directory: &'a Path,
    /// An empty one elsewhere: an overlay that nobody writes to is one of two directories at least.
    pub empty: &'a Path,
}

/// The directory as a mount that is not attached yet.
pub(crate) fn make(shown: Shown<'_>, maker: OverlayMaker) -> Result<OwnedFd, StepError> {
    let Shown { directory, empty } = shown;
    let lowers = [directory.to_owned(), empty.to_owned()];
    let mount = overlay(&lowers, None, maker, Below::Changing)?;
    forbid_programs(mount.as_fd()).step(|| format!("make {} read-only", directory.display()))?;
    Ok(mount)
}

/// Lets the cell whose root this process sees forget what it knows of the directory, but for what is
/// in use just now.
pub(crate) fn look_anew() -> Result<(), StepError> {
    let name = || format!("look at /{NAME} anew");
    let Some(place) = find()? else { return Ok(()) };
    let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH;
    let context = fspick(&place, "", flags).step(name)?;
    // With every option as it is: all that happens is that what is not in use is forgotten.
    fsconfig_reconfigure(&context).step(name)
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

/// What is shown in the root that this process sees, if anything is.
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
    let place = rustix::fs::open(&place, flags, Mode::empty()).step(name)?;
    let kind = rustix::fs::fstatfs(&place).step(name)?.f_type;
    Ok((kind == libc::OVERLAYFS_SUPER_MAGIC).then_some(place))
}

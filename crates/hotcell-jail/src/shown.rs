//! What of the host a cell has for tools of others: a directory that everybody in it sees and nobody
//! in it can write to, while the host goes on changing what lies in it; and the program by which
//! shells call them, with the socket that it connects to.
//!
//! Both are the lower part of an overlay: the cell reads of what is mounted, and from which path.

use std::fs::Permissions;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, statat};
use rustix::io::Errno;
use rustix::mount::{
    FsPickFlags, MoveMountFlags, fsconfig_reconfigure, fsconfig_set_flag, fspick, move_mount,
};

use crate::mounts::{Below, Depth, OverlayMaker, attach, forbid_programs, make_read_only, overlay};
use crate::{Step, StepError};

/// Where the directory is seen, below the root.
const NAME: &str = "tools";
/// The same as a path of the cell.
pub const SHOWN_TOOLS: &str = "/tools";
/// The directory of both that follow.
pub const CALLS_PLACE: &str = "/dev/tools";
/// Where programs of a cell reach whoever carries their calls.
pub const CALLS_SOCKET: &str = "/dev/tools/socket";
/// Where the program lies that does so.
pub const CALLS_PROGRAMS: &str = "/dev/tools/bin";
/// What it is called as.
pub const CALLS_PROGRAM: &str = "hotcell-tool";

/// What of the host a cell has for tools of others.
#[derive(Debug, Clone, Copy)]
pub struct Tools<'a> {
    /// The directory that is seen at `/tools`.
    pub directory: &'a Path,
    /// A directory with the program by which shells call them, and nothing else.
    pub programs: &'a Path,
    /// An empty one elsewhere: an overlay that nobody writes to is one of two directories at least.
    pub empty: &'a Path,
}

/// The directory and the one of the program, as mounts that are not attached yet.
pub(crate) fn make(tools: Tools<'_>, maker: OverlayMaker) -> Result<[OwnedFd; 2], StepError> {
    let name = |path: &Path| format!("make {} read-only", path.display());
    let below = |path: &Path| {
        overlay(&[path.to_owned(), tools.empty.to_owned()], None, maker, Below::Changing)
    };
    let directory = below(tools.directory)?;
    forbid_programs(directory.as_fd()).step(|| name(tools.directory))?;
    let programs = below(tools.programs)?;
    make_read_only(programs.as_fd(), Depth::This).step(|| name(tools.programs))?;
    Ok([directory, programs])
}

/// Puts the program into `/dev` of the new root, which is the current directory, and listens for
/// those who run it.
pub(crate) fn put_program(programs: &OwnedFd) -> Result<UnixListener, StepError> {
    let name = || format!("make {CALLS_SOCKET}");
    let below = |path: &str| Path::new(path.trim_start_matches('/')).to_owned();
    let (socket, place) = (below(CALLS_SOCKET), below(CALLS_PROGRAMS));
    for directory in [place.parent(), Some(&place)].into_iter().flatten() {
        std::fs::create_dir(directory).step(name)?;
        std::fs::set_permissions(directory, Permissions::from_mode(0o755)).step(name)?;
    }
    attach(programs.as_fd(), &place)?;
    let listener = UnixListener::bind(&socket).step(name)?;
    // Whoever connects, as whichever user: the kernel says who it is.
    std::fs::set_permissions(&socket, Permissions::from_mode(0o666)).step(name)?;
    Ok(listener)
}

/// Lets the cell whose root this process sees forget what it knows of the directory, but for what is
/// in use just now.
pub(crate) fn look_anew() -> Result<(), StepError> {
    let name = || format!("look at /{NAME} anew");
    let Some(place) = find()? else { return Ok(()) };
    let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH;
    let context = fspick(&place, "", flags).step(name)?;
    // With every option as it is: all that happens is that what is not in use is forgotten. The
    // kernel wants to hear that it stays read-only.
    fsconfig_set_flag(&context, "ro").step(name)?;
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

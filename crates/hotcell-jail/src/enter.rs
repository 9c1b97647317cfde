//! The way into a cell: what a process does that is to become pid 1.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountAttrFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags, mount_change, move_mount,
    unmount,
};
use rustix::process::{Gid, Uid, chdir, pivot_root};
use rustix::thread::UnshareFlags;

use crate::host::move_up;
use crate::lists::{
    DEVICE_LINKS, DEVICES, PROC_HIDDEN_DIRECTORIES, PROC_HIDDEN_FILES, PROC_READ_ONLY, SYS_VISIBLE,
};
use crate::mounts::{
    Depth, Layer, OverlayMaker, Shared, attach, copy_tree, fresh, make_read_only,
    make_read_only_devices,
};
use crate::overlay::layers_from_inside;
use crate::process::Groups;
use crate::shown::{self, Tools};
use crate::trusted::{self, Trusted};
use crate::{Step, StepError, loopback};

/// Where a cell's layers come from.
#[expect(missing_debug_implementations, reason = "a function has nothing to show")]
pub enum Layers<'a> {
    /// From the host's side, where they are being made; this waits for them. What it has for tools
    /// comes after the layers.
    Coming(Box<dyn FnOnce() -> Result<Vec<OwnedFd>, StepError> + 'a>),
    /// To be made from inside.
    ToMake,
}

/// What the inside of a cell is to be.
#[derive(Debug, Clone)]
pub struct Inside<'a> {
    /// Its parts, `/` first.
    pub layers: &'a [Layer],
    /// The ids of the supervisor, as the cell sees them.
    pub id: u32,
    /// Whether inherited groups can be dropped.
    pub groups: Groups,
    /// The ids of ordinary execs, as the cell sees them.
    pub exec_id: u32,
    /// Directories that belong to ordinary execs.
    pub exec_directories: &'a [&'a str],
    /// The bound of `/tmp`.
    pub tmp: MemoryFiles,
    /// The bound of `/dev/shm`.
    pub shm: MemoryFiles,
    /// The most that shared memory segments of System V may hold.
    pub segments_bytes: u64,
    /// What it has for tools of others.
    pub tools: Option<Tools<'a>>,
    /// What its programs are to trust besides.
    pub trusted: Option<Trusted<'a>>,
}

/// The bound of a file system in memory.
#[derive(Debug, Clone, Copy)]
pub struct MemoryFiles {
    /// What its files hold.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
}

impl MemoryFiles {
    fn options(self) -> [(&'static str, String); 3] {
        let (bytes, files) = (self.bytes.to_string(), self.files.to_string());
        [("size", bytes), ("nr_inodes", files), ("mode", "1777".to_owned())]
    }
}

/// Where the new root is put together, on any machine one of these.
const STAGES: [&str; 4] = ["/tmp", "/run", "/mnt", "/home"];

/// Makes the inside of a cell and moves this process into it. This process was forked into new
/// namespaces and its id maps are written. What comes back is where programs of the cell call tools,
/// if it has any.
///
/// # Errors
/// The step that failed.
pub fn enter(inside: &Inside<'_>, layers: Layers<'_>) -> Result<Option<UnixListener>, StepError> {
    become_supervisor(inside)?;
    // Only now: the groups this process is in become the root of what it sees of them.
    // SAFETY: nothing in this process depends on how its cgroups are named.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWCGROUP) }
        .step(|| "unshare the cgroup namespace".to_owned())?;
    rustix::system::sethostname(b"cell").step(|| "set the host name".to_owned())?;
    loopback::bring_up().step(|| "bring up lo".to_owned())?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .step(|| "make mounts private".to_owned())?;

    // Everything of the host that goes in is taken before the new root covers a part of the old.
    let devices = DEVICES
        .iter()
        .map(|name| copy_tree(&Path::new("/dev").join(name)))
        .collect::<Result<Vec<_>, _>>()?;
    let cpus = copy_tree(&Path::new("/sys").join(SYS_VISIBLE)).ok();

    let mounts = match layers {
        Layers::Coming(receive) => receive()?,
        Layers::ToMake => {
            let mut mounts = layers_from_inside(inside.layers)?;
            let make_shown = |tools| shown::make(tools, OverlayMaker::Inside);
            mounts.extend(inside.tools.map(make_shown).transpose()?.into_iter().flatten());
            mounts
        }
    };
    let stage = STAGES.into_iter().find(|stage| Path::new(stage).is_dir());
    let stage = stage.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
    let stage = stage.step(|| format!("find one of {STAGES:?}"))?;
    for (layer, mount) in inside.layers.iter().zip(&mounts) {
        let relative = layer.target.strip_prefix("/").unwrap_or(&layer.target);
        if relative.as_os_str().is_empty() {
            attach(mount.as_fd(), Path::new(stage))?;
            chdir(stage).step(|| format!("enter {stage}"))?;
        } else {
            attach(mount.as_fd(), relative)?;
        }
        if let Some(shared) = &layer.shared {
            keep_as_they_are(relative, shared)?;
        }
    }
    give_directories(inside)?;
    let programs = match mounts.get(inside.layers.len()..) {
        Some([tools, programs]) => {
            shown::put(tools, CWD)?;
            Some(programs)
        }
        Some(_) | None => None,
    };
    let calls = mount_dev(&devices, inside.shm, inside.trusted.as_ref(), programs)?;
    mount_sys(cpus)?;
    mount_tmpfs("tmp", &inside.tmp.options(), no_programs_gain())?;
    mount_proc(&devices, inside.segments_bytes)?;

    pivot_root(".", ".").step(|| "pivot_root".to_owned())?;
    unmount(".", UnmountFlags::DETACH).step(|| "detach the old root".to_owned())?;
    chdir("/").step(|| "enter the new root".to_owned())?;
    Ok(calls)
}

fn become_supervisor(inside: &Inside<'_>) -> Result<(), StepError> {
    if inside.groups == Groups::Cleared {
        rustix::thread::set_thread_groups(&[]).step(|| "setgroups".to_owned())?;
    }
    let (uid, gid) = (Uid::from_raw(inside.id), Gid::from_raw(inside.id));
    rustix::thread::set_thread_res_gid(gid, gid, gid).step(|| "setresgid".to_owned())?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).step(|| "setresuid".to_owned())
}

/// Makes parts of a shared directory read-only. What they are in becomes a mount of its own: the
/// kernel does not rename what something is mounted on, so nothing else can take their place.
fn keep_as_they_are(directory: &Path, shared: &Shared) -> Result<(), StepError> {
    let mut done = std::collections::BTreeSet::new();
    for path in &shared.read_only {
        let mut within: Vec<&Path> =
            path.ancestors().filter(|it| !it.as_os_str().is_empty()).collect();
        within.reverse();
        for part in within {
            if !done.insert(part.to_owned()) {
                continue;
            }
            let name = || format!("keep {} as it is", directory.join(part).display());
            let place = match open_beneath(directory, part) {
                // What is not there cannot be kept.
                Err(Errno::NOENT | Errno::NOTDIR) => break,
                opened => opened.step(name)?,
            };
            let copy = copy_of(place.as_fd())?;
            if part == path {
                make_read_only(copy.as_fd(), Depth::This).step(name)?;
            }
            let both_empty =
                MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            move_mount(&copy, "", &place, "", both_empty).step(name)?;
        }
    }
    Ok(())
}

fn open_beneath(directory: &Path, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, flags | OFlags::DIRECTORY, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve)
}

/// Hands directories of the new root over to ordinary execs, where they are not theirs yet. One that
/// is the host's own keeps its owner.
fn give_directories(inside: &Inside<'_>) -> Result<(), StepError> {
    let is_the_hosts = |directory: &str| {
        let of_host =
            |layer: &&Layer| layer.upper.is_none() && layer.target == Path::new(directory);
        inside.layers.iter().find(of_host).is_some()
    };
    for directory in inside.exec_directories.iter().filter(|it| !is_the_hosts(it)) {
        let name = || format!("give {directory} to the exec's user");
        let Some(place) = make_beneath(Path::new(directory)).step(name)? else { continue };
        if rustix::fs::fstat(&place).step(name)?.st_uid != inside.exec_id {
            let (uid, gid) = (Uid::from_raw(inside.exec_id), Gid::from_raw(inside.exec_id));
            let this = rustix::fs::AtFlags::EMPTY_PATH;
            rustix::fs::chownat(&place, "", Some(uid), Some(gid), this).step(name)?;
        }
    }
    Ok(())
}

/// A directory of the new root, which is the current directory; made where it is missing. `None` where
/// the cell has put something else in its place: a link would lead out of the cell as long as the
/// host's root is this process's, so none is followed.
fn make_beneath(directory: &Path) -> rustix::io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut place = rustix::fs::open(".", flags, Mode::empty())?;
    for name in directory.iter().filter(|name| *name != "/") {
        match rustix::fs::mkdirat(&place, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        place = match rustix::fs::openat(&place, name, flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            opened => opened?,
        };
    }
    Ok(Some(place))
}

fn no_programs_gain() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV
}

fn mount_tmpfs(
    target: &str,
    options: &[(&str, String)],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, StepError> {
    let options: Vec<(&str, &str)> = options.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let mount = fresh("tmpfs", &options, attributes)?;
    attach(mount.as_fd(), Path::new(target))?;
    Ok(mount)
}

fn mount_dev(
    devices: &[OwnedFd],
    shm: MemoryFiles,
    trusted: Option<&Trusted<'_>>,
    programs: Option<&OwnedFd>,
) -> Result<Option<UnixListener>, StepError> {
    let options =
        [("size", "65536".to_owned()), ("nr_inodes", "64".to_owned()), ("mode", "755".to_owned())];
    let dev = mount_tmpfs("dev", &options, MountAttrFlags::MOUNT_ATTR_NOSUID)?;
    for (name, device) in DEVICES.iter().zip(devices) {
        let target = Path::new("dev").join(name);
        touch(&target)?;
        let copy = copy_of(device.as_fd())?;
        attach(copy.as_fd(), &target)?;
    }
    for (name, target) in DEVICE_LINKS {
        let path = Path::new("dev").join(name);
        rustix::fs::symlink(target, &path).step(|| format!("link {}", path.display()))?;
    }
    for directory in ["dev/pts", "dev/shm"] {
        make_directory(directory)?;
    }
    let pts = fresh(
        "devpts",
        &[("ptmxmode", "0666"), ("mode", "620"), ("newinstance", "")],
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
    )?;
    attach(pts.as_fd(), Path::new("dev/pts"))?;
    mount_tmpfs("dev/shm", &shm.options(), no_programs_gain())?;
    if let Some(trusted) = trusted {
        trusted::put(trusted)?;
    }
    let calls = programs.map(shown::put_program).transpose()?;
    make_read_only_devices(dev.as_fd()).step(|| "make /dev read-only".to_owned())?;
    Ok(calls)
}

fn mount_sys(cpus: Option<OwnedFd>) -> Result<(), StepError> {
    let options =
        [("size", "65536".to_owned()), ("nr_inodes", "16".to_owned()), ("mode", "755".to_owned())];
    let sys = mount_tmpfs("sys", &options, no_programs_gain())?;
    if let Some(cpus) = cpus {
        let target = Path::new("sys").join(SYS_VISIBLE);
        std::fs::create_dir_all(&target).step(|| format!("make {}", target.display()))?;
        make_read_only(cpus.as_fd(), Depth::Tree).step(|| "make /sys read-only".to_owned())?;
        attach(cpus.as_fd(), &target)?;
    }
    make_read_only(sys.as_fd(), Depth::This).step(|| "make /sys read-only".to_owned())
}

fn mount_proc(devices: &[OwnedFd], segments_bytes: u64) -> Result<(), StepError> {
    let attributes = no_programs_gain() | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let proc = fresh("proc", &[], attributes)?;
    attach(proc.as_fd(), Path::new("proc"))?;
    forbid_user_namespaces()?;
    // Segments stay when whoever made them is gone. A cell without an id 0 may not say so, and
    // there only its memory limit holds them.
    let pages = segments_bytes / rustix::param::page_size() as u64;
    let _ = std::fs::write("proc/sys/kernel/shmall", pages.to_string());
    for name in PROC_READ_ONLY {
        let path = Path::new("proc").join(name);
        if path.exists() {
            let copy = copy_tree(&path)?;
            make_read_only(copy.as_fd(), Depth::Tree)
                .step(|| format!("make {} read-only", path.display()))?;
            attach(copy.as_fd(), &path)?;
        }
    }
    for name in PROC_HIDDEN_FILES {
        let path = Path::new("proc").join(name);
        if path.exists() {
            // The first device is /dev/null.
            let null = copy_of(devices[0].as_fd())?;
            attach(null.as_fd(), &path)?;
        }
    }
    for name in PROC_HIDDEN_DIRECTORIES {
        let path = Path::new("proc").join(name);
        if path.exists() {
            let empty = fresh("tmpfs", &NOTHING, attributes)?;
            make_read_only(empty.as_fd(), Depth::This)
                .step(|| format!("hide {}", path.display()))?;
            attach(empty.as_fd(), &path)?;
        }
    }
    Ok(())
}

/// Nobody in the cell makes a user namespace, in which it would have every capability, whatever the
/// filter of system calls lets through.
fn forbid_user_namespaces() -> Result<(), StepError> {
    let path = "proc/sys/user/max_user_namespaces";
    match std::fs::write(path, "0") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written.step(|| format!("write 0 to /{path}")),
    }
}

/// A directory in which nothing is.
const NOTHING: [(&str, &str); 3] = [("size", "4096"), ("nr_inodes", "2"), ("mode", "755")];

fn copy_of(mount: BorrowedFd<'_>) -> Result<OwnedFd, StepError> {
    use rustix::mount::{OpenTreeFlags, open_tree};
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(mount, "", flags).step(|| "copy a mount".to_owned())
}

fn touch(path: &Path) -> Result<(), StepError> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(0o666))
        .map(drop)
        .step(|| format!("make {}", path.display()))
}

fn make_directory(path: &str) -> Result<(), StepError> {
    rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)).step(|| format!("make {path}"))
}

/// Goes on as something else: with `fds` open as 3, 4, 5, …, with the standard streams, and with
/// nothing else of what this process has open. Ends the process with what `next` comes to; nothing
/// of the caller runs again, not even on a panic, so no owner of a closed descriptor is used.
///
/// # Errors
/// There are too many open descriptors; nothing has changed.
pub fn go_on_with(
    fds: &[BorrowedFd<'_>],
    next: impl FnOnce() -> io::Result<()>,
) -> Result<std::convert::Infallible, StepError> {
    // First out of the way of the places they go to, then into them.
    let above = 3 + i32::try_from(fds.len()).unwrap_or(i32::MAX - 3);
    let copies = fds.iter().map(|fd| move_up(fd.as_fd(), above)).collect::<Result<Vec<_>, _>>()?;
    // Whatever fails from here on can be told to nobody: the way to the keeper is closed as well.
    let placed = (3..).zip(&copies).all(|(place, copy)| {
        // SAFETY: `place` is below every copy that is still needed, and what it held before
        // belongs to a caller that never runs again.
        unsafe { libc::dup2(copy.as_raw_fd(), place) == place }
    });
    // SAFETY: closes by number what belongs to a caller that never runs again, and the copies.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, above, u32::MAX, 0_u32) == 0 };
    std::mem::forget(copies);
    if !(placed && closed) {
        std::process::exit(1);
    }
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(next));
    std::process::exit(match outcome {
        Ok(Ok(())) => 0,
        Ok(Err(_)) => 1,
        Err(_) => 101,
    })
}

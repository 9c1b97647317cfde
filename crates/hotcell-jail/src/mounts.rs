//! Mounts as descriptors: made in one place, attached in another.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};
use serde::{Deserialize, Serialize};

use crate::{Step, StepError};

/// One part of a cell's root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Where it appears in the cell, `/` first.
    pub target: PathBuf,
    /// What is below, the topmost first; never written to.
    #[serde(alias = "lower", deserialize_with = "one_or_many")]
    pub lowers: Vec<Lower>,
    /// Where writes go; none for a part that nobody in the cell can write to anyway.
    pub upper: Option<Upper>,
    /// Set for a part whose only directory is written to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<Shared>,
}

/// A directory of the host that a cell writes to itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// What in it stays as it is, by paths that lead nowhere else. What these are in can not be
    /// renamed.
    pub read_only: Vec<PathBuf>,
}

/// A directory that is shown and never written to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lower {
    /// Where it lies.
    pub path: PathBuf,
    /// Whose ids its files have.
    pub ids: LowerIds,
}

/// Whose ids the files of a lower directory have, where each cell has ids of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LowerIds {
    /// Those of an image, from 0 on.
    Image,
    /// Those of the cell that shows it.
    Own,
    /// Those of another cell, from this one on.
    Other(u32),
    /// Those of the host; this user and group are the ones of ordinary execs.
    Host {
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
    },
}

impl LowerIds {
    /// Whether a cell wrote the directory.
    #[must_use]
    pub fn are_of_a_cell(self) -> bool {
        match self {
            Self::Own | Self::Other(_) => true,
            Self::Image | Self::Host { .. } => false,
        }
    }
}

/// Cells of the first format had one directory below, of an image.
fn one_or_many<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Vec<Lower>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(PathBuf),
        Many(Vec<Lower>),
    }
    Ok(match OneOrMany::deserialize(input)? {
        OneOrMany::One(path) => vec![Lower { path, ids: LowerIds::Image }],
        OneOrMany::Many(lowers) => lowers,
    })
}

/// Where the writes to a layer go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upper {
    /// What was written.
    pub data: PathBuf,
    /// A directory for the kernel's own use on the same file system.
    pub work: PathBuf,
}

/// Who makes an overlay, which decides what it can do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OverlayMaker {
    /// Root of the host: directories of the layer below can be renamed.
    Host,
    /// Root of a user namespace.
    Inside,
}

/// What happens to the directories below an overlay while it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Below {
    /// Nothing.
    Still,
    /// Somebody else changes them. The kernel allows for that if an overlay does without whatever
    /// refers to them; so directories of theirs cannot be renamed.
    Changing,
}

impl Layer {
    pub(crate) fn below(&self) -> Below {
        let of_host = |lower: &Lower| matches!(lower.ids, LowerIds::Host { .. });
        if self.lowers.iter().any(of_host) { Below::Changing } else { Below::Still }
    }
}

const SAFE: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// Makes an overlay of some directories, the topmost first, and the upper, without attaching it
/// anywhere. Without an upper it cannot be written to.
pub(crate) fn overlay(
    lowers: &[PathBuf],
    upper: Option<&Upper>,
    maker: OverlayMaker,
    below: Below,
) -> Result<OwnedFd, StepError> {
    let name = || {
        let written = upper.map(|upper| format!(" and {}", upper.data.display()));
        let lowers: Vec<String> = lowers.iter().map(|path| path.display().to_string()).collect();
        format!("overlay of {}{}", lowers.join(", "), written.unwrap_or_default())
    };
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).step(name)?;
    let make = || -> rustix::io::Result<OwnedFd> {
        // By descriptor: the paths that are given here can be read in the cell's /proc/mounts.
        let by_number = |path: &Path| -> rustix::io::Result<(OwnedFd, String)> {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = rustix::fs::open(path, flags, Mode::empty())?;
            let number = format!("/proc/self/fd/{}", directory.as_raw_fd());
            Ok((directory, number))
        };
        let lowers = lowers.iter().map(|path| by_number(path));
        let lowers = lowers.collect::<rustix::io::Result<Vec<_>>>()?;
        let numbers: Vec<&str> = lowers.iter().map(|(_, number)| number.as_str()).collect();
        set_lowers(context.as_fd(), &numbers)?;
        if let Some(upper) = upper {
            for (key, path) in [("upperdir", &upper.data), ("workdir", &upper.work)] {
                let (_directory, number) = by_number(path)?;
                fsconfig_set_string(&context, key, number.as_str())?;
            }
        }
        match (maker, below) {
            (OverlayMaker::Host, Below::Still) => {
                fsconfig_set_string(&context, "redirect_dir", "on")?;
                // A layer has its files whole, whatever this kernel does by default.
                fsconfig_set_string(&context, "metacopy", "off")?;
            }
            (OverlayMaker::Host, Below::Changing) => {
                for feature in ["redirect_dir", "index", "metacopy", "xino"] {
                    fsconfig_set_string(&context, feature, "off")?;
                }
            }
            // Has none of these features.
            (OverlayMaker::Inside, _) => fsconfig_set_flag(&context, "userxattr")?,
        }
        fsconfig_create(&context)?;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, SAFE)
    };
    make()
        .map_err(|errno| {
            let said = kernel_message(context.as_fd());
            let error = io::Error::from(errno);
            if said.is_empty() {
                error
            } else {
                io::Error::new(error.kind(), format!("{error} ({said})"))
            }
        })
        .step(name)
}

/// Names the directories below, the topmost first.
fn set_lowers(context: BorrowedFd<'_>, lowers: &[&str]) -> rustix::io::Result<()> {
    if lowers.len() > 1 {
        // One by one, since Linux 6.5; a list of them all may have 255 letters only.
        let mut one_by_one =
            lowers.iter().map(|lower| fsconfig_set_string(context, "lowerdir+", *lower));
        match one_by_one.next() {
            Some(Ok(())) => return one_by_one.collect(),
            Some(Err(rustix::io::Errno::INVAL)) | None => {}
            Some(Err(errno)) => return Err(errno),
        }
    }
    fsconfig_set_string(context, "lowerdir", lowers.join(":").as_str())
}

/// What the kernel had to say about a mount that failed.
fn kernel_message(context: BorrowedFd<'_>) -> String {
    let mut said = Vec::new();
    let mut buffer = [0; 512];
    while let Ok(length) = rustix::io::read(context, &mut buffer) {
        if length == 0 || said.len() > 1024 {
            break;
        }
        said.push(String::from_utf8_lossy(&buffer[..length]).trim().to_owned());
    }
    said.join("; ")
}

/// Makes a file system that is new and empty, without attaching it.
pub(crate) fn fresh(
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, StepError> {
    let make = || -> rustix::io::Result<OwnedFd> {
        let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (key, value) in options {
            if value.is_empty() {
                fsconfig_set_flag(&context, *key)?;
            } else {
                fsconfig_set_string(&context, *key, *value)?;
            }
        }
        fsconfig_create(&context)?;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    make().step(|| format!("new {kind}"))
}

/// A copy of what is mounted at `path` and below, without attaching it.
pub(crate) fn copy_tree(path: &Path) -> Result<OwnedFd, StepError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let name = || format!("open_tree {}", path.display());
    let tree = open_tree(CWD, path, flags).step(name)?;
    // What the host mounts there later is no part of it.
    let private = MountAttr { propagation: libc::MS_PRIVATE, ..MountAttr::default() };
    set_attributes(tree.as_fd(), Depth::Tree, &private).step(name)?;
    Ok(tree)
}

/// A directory by its one true name: no part of the path is a link, whoever can write there.
///
/// # Errors
/// It is not there, or the path leads over a link.
pub fn open_true(path: &Path) -> Result<OwnedFd, StepError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .step(|| format!("open {}", path.display()))
}

/// A path to what a descriptor is open for, as long as it is open.
#[must_use]
pub fn path_of(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

impl Lower {
    /// The directory, held fast where others can put something else in its place.
    pub(crate) fn hold(&self) -> Result<HeldLower, StepError> {
        match self.ids {
            LowerIds::Host { .. } => {
                let held = open_true(&self.path)?;
                Ok(HeldLower { path: path_of(&held), _held: Some(held) })
            }
            LowerIds::Image | LowerIds::Own | LowerIds::Other(_) => {
                Ok(HeldLower { path: self.path.clone(), _held: None })
            }
        }
    }
}

/// A directory that stays what it is.
#[derive(Debug)]
pub(crate) struct HeldLower {
    pub(crate) path: PathBuf,
    _held: Option<OwnedFd>,
}

/// Attaches a mount to a path of this mount namespace.
pub(crate) fn attach(mount: BorrowedFd<'_>, target: &Path) -> Result<(), StepError> {
    move_mount(mount, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .step(|| format!("attach a mount to {}", target.display()))
}

#[repr(C)]
#[derive(Default)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

fn set_attributes(mount: BorrowedFd<'_>, depth: Depth, attributes: &MountAttr) -> io::Result<()> {
    let flags = match depth {
        Depth::Tree => libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
        Depth::This => libc::AT_EMPTY_PATH,
    };
    // SAFETY: the path is empty and the structure has the size that is given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(attributes),
            std::mem::size_of::<MountAttr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How far a change of attributes reaches.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Depth {
    /// This mount alone.
    This,
    /// This mount and those below it.
    Tree,
}

/// Makes a mount read-only and free of devices and set-user-id programs.
pub(crate) fn make_read_only(mount: BorrowedFd<'_>, depth: Depth) -> io::Result<()> {
    let attr_set = MountAttrFlags::MOUNT_ATTR_RDONLY.union(SAFE).bits();
    set_attributes(mount, depth, &MountAttr { attr_set: attr_set.into(), ..MountAttr::default() })
}

/// Makes a mount and those below it read-only, and lets no program in them be run.
pub(crate) fn forbid_programs(mount: BorrowedFd<'_>) -> io::Result<()> {
    let attr_set = MountAttrFlags::MOUNT_ATTR_RDONLY
        .union(MountAttrFlags::MOUNT_ATTR_NOEXEC)
        .union(SAFE)
        .bits();
    let attributes = MountAttr { attr_set: attr_set.into(), ..MountAttr::default() };
    set_attributes(mount, Depth::Tree, &attributes)
}

/// Makes a mount free of devices and set-user-id programs.
pub(crate) fn make_safe(mount: BorrowedFd<'_>, depth: Depth) -> io::Result<()> {
    set_attributes(
        mount,
        depth,
        &MountAttr { attr_set: SAFE.bits().into(), ..MountAttr::default() },
    )
}

/// Makes a mount read-only and leaves devices usable.
pub(crate) fn make_read_only_devices(mount: BorrowedFd<'_>) -> io::Result<()> {
    let attr_set = MountAttrFlags::MOUNT_ATTR_RDONLY.bits();
    set_attributes(
        mount,
        Depth::This,
        &MountAttr { attr_set: attr_set.into(), ..MountAttr::default() },
    )
}

/// Shows a mount's ids through the map of a user namespace.
pub(crate) fn map_ids(mount: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>) -> io::Result<()> {
    let attributes = MountAttr {
        attr_set: MOUNT_ATTR_IDMAP,
        userns_fd: user_namespace.as_raw_fd() as u64,
        ..MountAttr::default()
    };
    set_attributes(mount, Depth::This, &attributes)
}

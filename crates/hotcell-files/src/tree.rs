//! The files of a cell, reached only by descriptors and never outside what is allowed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use hotcell_model::{Error, Result};
use rustix::fs::{
    AtFlags, CWD, FileType, MemfdFlags, Mode, OFlags, ResolveFlags, Stat, memfd_create, openat2,
};
use rustix::io::Errno;

use crate::fault::{Tried, fault};
use crate::path::CellPath;

/// Links in place of a file that are followed before one gives up.
const MOST_LINKS: usize = 40;
/// A path that is being renamed meanwhile is looked up again this many times.
const MOST_LOOKUPS: usize = 64;

/// Directories below which files may be changed, and, if it is narrowed, read.
#[derive(Debug, Clone)]
pub struct Roots {
    /// Where files may be made and changed.
    pub writable: Vec<PathBuf>,
    /// Where files may be read; everywhere when none is named.
    pub readable: Vec<PathBuf>,
}

impl Default for Roots {
    fn default() -> Self {
        Self { writable: vec!["/workspace".into(), "/tmp".into()], readable: Vec::new() }
    }
}

impl Roots {
    /// `/workspace` and nothing else.
    pub(crate) fn workspace() -> Self {
        let workspace = PathBuf::from("/workspace");
        Self { writable: vec![workspace.clone()], readable: vec![workspace] }
    }
}

/// The view of one process: its root and what it may touch there.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    roots: Roots,
}

/// A name in a directory that may be written to.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) path: CellPath,
    pub(crate) directory: OwnedFd,
    pub(crate) name: OsString,
}

/// Whether directories on the way are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parents {
    Made,
    Expected,
}

/// Whether a link in the place of the file itself is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    Followed,
    Kept,
}

impl Tree {
    /// The files below a directory, `/` but for tests.
    pub(crate) fn open(root: &Path, roots: Roots) -> rustix::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(root, flags, Mode::empty())?, roots })
    }

    /// Opens something without touching it: its kind and size can be seen, nothing more.
    pub(crate) fn look(&self, path: &CellPath, links: Links) -> Result<OwnedFd> {
        let follow = match links {
            Links::Followed => OFlags::empty(),
            Links::Kept => OFlags::NOFOLLOW,
        };
        self.open_to_read(path, OFlags::PATH | follow).tried(|| format!("look at {path}"))
    }

    /// Opens a regular file for reading. Nothing else is ever opened: a pipe could keep the caller
    /// waiting or take what is meant for another, a device could do anything.
    pub(crate) fn read(&self, path: &CellPath) -> Result<(File, Stat)> {
        let what = || format!("read {path}");
        let seen = self.open_to_read(path, OFlags::PATH).tried(what)?;
        let seen = rustix::fs::fstat(&seen).tried(what)?;
        require_file(path, &seen)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.open_to_read(path, flags).tried(what)?;
        let stat = rustix::fs::fstat(&file).tried(what)?;
        require_file(path, &stat)?;
        Ok((File::from(file), stat))
    }

    /// Opens a directory for listing.
    pub(crate) fn directory(&self, path: &CellPath) -> Result<OwnedFd> {
        self.open_to_read(path, OFlags::RDONLY | OFlags::DIRECTORY)
            .tried(|| format!("open the directory {path}"))
    }

    /// Whether something can be seen there.
    pub(crate) fn is_there(&self, path: &CellPath) -> bool {
        self.open_to_read(path, OFlags::PATH | OFlags::NOFOLLOW).is_ok()
    }

    fn open_to_read(&self, path: &CellPath, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        if self.roots.readable.is_empty() {
            let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            return open_below(&self.root, path.below_root(), flags, resolve);
        }
        match self.open_readable(path, flags) {
            // An absolute link may lead back to where one may read.
            Err(Errno::XDEV) => {
                let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
                let look = OFlags::PATH | (flags & OFlags::NOFOLLOW);
                let found = open_below(&self.root, path.below_root(), look, resolve)?;
                let real = self.path_of(&found)?;
                self.open_readable(&real, flags).map_err(|errno| match errno {
                    Errno::ACCESS => Errno::XDEV,
                    other => other,
                })
            }
            other => other,
        }
    }

    fn open_readable(&self, path: &CellPath, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let readable = self.roots.readable.iter().chain(&self.roots.writable);
        let (root, below) = readable
            .filter_map(|root| path.below(root).map(|below| (root, below)))
            .max_by_key(|(root, _)| root.as_os_str().len())
            .ok_or(Errno::ACCESS)?;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        open_below(&self.open_root(root)?, below, flags, resolve)
    }

    /// The directory that a root is; it is opened each time, for the cell's root may replace it.
    fn open_root(&self, root: &Path) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        open_below(&self.root, CellPath::lexical(root).below_root(), flags, resolve)
    }

    /// Finds the place of a file that is to be changed. Links in its place are followed, so that
    /// what they lead to is changed and not they.
    pub(crate) fn slot(&self, path: &CellPath, parents: Parents, links: Links) -> Result<Slot> {
        let mut path = path.clone();
        for _ in 0..MOST_LINKS {
            let slot = self.slot_of_name(&path, parents)?;
            if links == Links::Kept {
                return Ok(slot);
            }
            match rustix::fs::readlinkat(&slot.directory, &slot.name, Vec::new()) {
                Ok(target) => {
                    use std::os::unix::ffi::OsStrExt;
                    // The link counts from where it really lies.
                    let real = self.path_of(&slot.directory).tried(|| format!("look at {path}"))?;
                    let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                    path = real.join(&slot.name).follow(target);
                }
                Err(Errno::INVAL | Errno::NOENT) => return Ok(slot),
                Err(errno) => return Err(fault(&format!("look at {path}"), errno)),
            }
        }
        Err(fault(&format!("open {path}"), Errno::LOOP))
    }

    fn slot_of_name(&self, path: &CellPath, parents: Parents) -> Result<Slot> {
        self.require_writable(path)?;
        self.refuse_root(path, "replaced")?;
        let Some((directory, name)) = path.split() else { return Err(self.not_writable(path)) };
        let opened = match self.writable_directory(&directory) {
            Err(Errno::NOENT) if parents == Parents::Made => {
                self.make_directories(&directory)?;
                self.writable_directory(&directory)
            }
            other => other,
        };
        let directory = opened.tried(|| format!("open the directory {directory}"))?;
        Ok(Slot { path: path.clone(), directory, name: name.to_owned() })
    }

    /// A directory below which something may be changed.
    pub(crate) fn writable_directory(&self, path: &CellPath) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match self.open_beneath(path, flags) {
            // An absolute link may lead back to where one may write.
            Err(Errno::XDEV) => {
                let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
                let found = open_below(&self.root, path.below_root(), OFlags::PATH, resolve)?;
                let real = self.path_of(&found)?;
                self.open_beneath(&real, flags)
            }
            other => other,
        }
    }

    fn open_beneath(&self, path: &CellPath, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let (root, below) = self.writable_root(path).ok_or(Errno::XDEV)?;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        open_below(&self.open_root(root)?, below, flags, resolve)
    }

    /// Where something that is open lies.
    pub(crate) fn path_of(&self, fd: &OwnedFd) -> rustix::io::Result<CellPath> {
        let read = |fd: &OwnedFd| {
            let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
            rustix::fs::readlinkat(CWD, link, Vec::new())
        };
        use std::os::unix::ffi::OsStrExt;
        let (path, root) = (read(fd)?, read(&self.root)?);
        let (path, root) = (OsStr::from_bytes(path.as_bytes()), OsStr::from_bytes(root.as_bytes()));
        let below = Path::new(path).strip_prefix(root).map_err(|_| Errno::XDEV)?;
        Ok(CellPath::lexical(&Path::new("/").join(below)))
    }

    /// Makes a directory and those above it, where they are missing.
    pub(crate) fn make_directories(&self, path: &CellPath) -> Result<()> {
        self.require_writable(path)?;
        let what = |path: &CellPath| format!("make the directory {path}");
        let mut missing = Vec::new();
        let mut at = path.clone();
        let mut directory = loop {
            match self.writable_directory(&at) {
                Ok(directory) => break directory,
                Err(Errno::NOENT) => {
                    let parent = at.split().map(|(parent, name)| (parent, name.to_owned()));
                    let (parent, name) = parent.ok_or_else(|| self.not_writable(path))?;
                    missing.push(name);
                    at = parent;
                }
                Err(errno) => return Err(fault(&what(&at), errno)),
            }
        };
        for name in missing.into_iter().rev() {
            at = at.join(&name);
            match rustix::fs::mkdirat(&directory, &name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(fault(&what(&at), errno)),
            }
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            directory =
                open_below(&directory, Path::new(&name), flags, resolve).tried(|| what(&at))?;
        }
        Ok(())
    }

    fn writable_root<'a>(&'a self, path: &'a CellPath) -> Option<(&'a Path, &'a Path)> {
        let roots = self.roots.writable.iter();
        roots.filter_map(|root| path.below(root).map(|below| (root.as_path(), below))).next()
    }

    /// Refuses a path that lies where nothing may be changed.
    fn require_writable(&self, path: &CellPath) -> Result<()> {
        match self.writable_root(path) {
            Some(_) => Ok(()),
            None => Err(self.not_writable(path)),
        }
    }

    fn not_writable(&self, path: &CellPath) -> Error {
        let roots: Vec<String> =
            self.roots.writable.iter().map(|root| root.display().to_string()).collect();
        Error::denied(format!("{path} lies outside of where files may be changed"))
            .hint(format!("write below {}", roots.join(" or ")))
    }

    /// The directories below which files may be changed, as far as they are there.
    pub(crate) fn writable_roots(&self) -> impl Iterator<Item = (CellPath, OwnedFd)> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        self.roots.writable.iter().filter_map(move |root| {
            let path = CellPath::lexical(root);
            let directory = self.open_beneath(&path, flags).ok()?;
            Some((path, directory))
        })
    }

    /// A file of no name, for what must be kept for a while.
    pub(crate) fn nameless(&self) -> Result<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let made = |(_, root)| rustix::fs::openat(root, ".", flags, mode).ok();
        if let Some(file) = self.writable_roots().find_map(made) {
            return Ok(File::from(file));
        }
        let file = memfd_create("hotcell-files", MemfdFlags::CLOEXEC);
        file.map(File::from).tried(|| "keep content for a while".to_owned())
    }

    /// A directory from which something can be moved to below a path: the root that it lies in,
    /// or, where another file system begins on the way, the first directory above it that is there.
    pub(crate) fn aside(&self, path: &CellPath) -> Result<(CellPath, OwnedFd)> {
        let what = || format!("open the directory {path}");
        self.require_writable(path)?;
        let mut at = path.clone();
        let nearest = loop {
            match self.writable_directory(&at) {
                Ok(directory) => break directory,
                Err(Errno::NOENT) => {
                    let (parent, _) = at.split().ok_or_else(|| self.not_writable(path))?;
                    at = parent;
                }
                Err(errno) => return Err(fault(&what(), errno)),
            }
        };
        let real = self.path_of(&nearest).tried(what)?;
        let (root, _) = self.writable_root(&real).ok_or_else(|| self.not_writable(path))?;
        let root = CellPath::lexical(root);
        let top = self.open_beneath(&root, OFlags::RDONLY | OFlags::DIRECTORY).tried(what)?;
        let device = |directory| rustix::fs::fstat(directory).map(|stat| stat.st_dev);
        if device(&top).tried(what)? == device(&nearest).tried(what)? {
            Ok((root, top))
        } else {
            Ok((real, nearest))
        }
    }

    /// Refuses to do something with a root itself.
    pub(crate) fn refuse_root(&self, path: &CellPath, done: &str) -> Result<()> {
        match self.is_root(path) {
            true => Err(Error::denied(format!("{path} itself cannot be {done}"))
                .hint("it is a directory: name something in it")),
            false => Ok(()),
        }
    }

    /// Whether a path is one of the roots, which can be neither replaced nor removed.
    pub(crate) fn is_root(&self, path: &CellPath) -> bool {
        self.roots.writable.iter().any(|root| root == path.as_path())
    }
}

/// Only a regular file has content that can be read at leisure.
fn require_file(path: &CellPath, stat: &Stat) -> Result<()> {
    let hint = "pipes, sockets and devices can only be used by commands";
    require_regular(&format!("read {path}"), stat, hint)
}

/// Refuses to do something with what is no regular file.
pub(crate) fn require_regular(what: &str, stat: &Stat, hint: &str) -> Result<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(fault(what, Errno::ISDIR)),
        FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => {
            Err(Error::conflict(format!("cannot {what}: it is no regular file")).hint(hint))
        }
    }
}

/// Opens what lies below a directory, as often as it takes when something on the way is renamed.
fn open_below(
    directory: &OwnedFd,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    for _ in 0..MOST_LOOKUPS {
        match openat2(directory, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

impl Slot {
    /// What is there, a link as itself; `None` when nothing is.
    pub(crate) fn stat(&self) -> Result<Option<Stat>> {
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(fault(&format!("look at {}", self.path), errno)),
        }
    }
}

//! Unpacking an archive: all of it aside first, then into place.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use hotcell_model::{Error, FileImport, FilesPacked, Result};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, fchmod, futimens, linkat, mkdirat,
    openat, statat, symlinkat,
};
use rustix::io::Errno;

use crate::conversation::Conversation;
use crate::fault::{Tried, cancelled, fault};
use crate::packing::unpacker;
use crate::path::CellPath;
use crate::pattern::Choice;
use crate::removal::{open_directory, open_inside, remove_tree};
use crate::staged::{hidden_name, is_unfinished};
use crate::tree::{Slot, Tree};
use crate::unpacked::{Bounds, Entry, Kind, Packed, Unpacked, refused, shown};

/// An archive that was unpacked aside. Dropped, it is gone.
#[derive(Debug)]
pub(crate) struct Imported {
    /// The directory to unpack into.
    pub(crate) target: CellPath,
    /// Where everything lies meanwhile.
    pub(crate) staging: Staging,
    pub(crate) packed: FilesPacked,
}

/// A directory that nobody asked for; removed with all that is in it when it is no longer needed.
#[derive(Debug)]
pub(crate) struct Staging {
    pub(crate) slot: Slot,
    pub(crate) inside: OwnedFd,
}

impl Staging {
    /// An empty one, from which things can be moved to below a path.
    fn new(tree: &Tree, target: &CellPath) -> Result<Self> {
        let what = || format!("unpack into {target}");
        let (path, directory) = tree.aside(target)?;
        let name = hidden_name("import");
        mkdirat(&directory, &name, Mode::from_raw_mode(0o700)).tried(what)?;
        let slot = Slot { path: path.join(&name), directory, name };
        match open_directory(&slot.directory, &slot.name).tried(what) {
            Ok(inside) => Ok(Self { slot, inside }),
            Err(error) => {
                let _ = remove_tree(&slot);
                Err(error)
            }
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        #[cfg(test)]
        if crate::crash::Crash::is_gone() {
            return;
        }
        // What cannot be removed now is removed when the next process starts.
        let _ = remove_tree(&self.slot);
    }
}

/// Removes what a process that died left aside.
pub(crate) fn sweep(tree: &Tree) {
    for (path, directory) in tree.writable_roots() {
        let Ok(found) = crate::removal::names(&directory) else { continue };
        for (name, _) in found {
            // What was kept may be all that is left of a file.
            if is_unfinished(&name)
                && let Ok(directory) = directory.try_clone()
            {
                let _ = remove_tree(&Slot { path: path.join(&name), directory, name });
            }
        }
    }
}

/// Takes an archive in and unpacks it aside; nothing that is there is touched.
pub(crate) fn unpack(
    tree: &Tree,
    request: &FileImport,
    conversation: &Conversation,
    bounds: Bounds,
) -> Result<Imported> {
    let target = CellPath::parse(&request.path)?;
    let choice = Choice::parse(&request.include, &request.exclude)?;
    let staging = Staging::new(tree, &target)?;
    let packed_bytes = Cell::new(0);
    let packed = Packed { reader: conversation.content(), bytes: &packed_bytes };
    let mut archive = Unpacked::new(unpacker(packed)?, &packed_bytes, bounds);
    let mut unpacking = Unpacking {
        target: &target,
        top: &staging.inside,
        directories: HashMap::new(),
        last: None,
        packed: FilesPacked::default(),
    };
    while let Some(entry) = archive.next_entry()? {
        if conversation.is_over() {
            return Err(cancelled());
        }
        if choice.takes(&entry.path) {
            unpacking.entry(&entry, &mut archive)?;
        }
    }
    archive.finish()?;
    unpacking.finish_directories()?;
    let packed = FilesPacked { archive_bytes: packed_bytes.get(), ..unpacking.packed };
    Ok(Imported { target, staging, packed })
}

/// An archive that is being unpacked.
struct Unpacking<'a> {
    target: &'a CellPath,
    top: &'a OwnedFd,
    /// Directories that are entries of their own: their permission bits and times.
    directories: HashMap<PathBuf, (u32, i64)>,
    /// The directory of the last entry; most often the next one is in it too.
    last: Option<(PathBuf, OwnedFd)>,
    packed: FilesPacked,
}

impl Unpacking<'_> {
    fn entry(&mut self, entry: &Entry, content: &mut dyn io::Read) -> Result<()> {
        let name = shown(entry.path.as_os_str().as_bytes());
        let what = || format!("unpack `{name}`");
        if let Kind::Other(reason) = &entry.kind {
            return Err(refused(&name, reason));
        }
        let Some(file_name) = entry.path.file_name().map(OsStr::to_owned) else {
            return match entry.kind {
                // The directory that is unpacked into stays as it is.
                Kind::Directory => Ok(()),
                Kind::File { .. } | Kind::Symlink(_) | Kind::Link(_) | Kind::Other(_) => {
                    Err(refused(&name, "it has no name"))
                }
            };
        };
        let whole = self.target.join(&entry.path);
        if whole.as_path().as_os_str().len() > MOST_PATH_BYTES {
            return Err(refused(&name, "its path is too long"));
        }
        let twice = |errno: Errno| match errno {
            Errno::EXIST => refused(&name, "it is in the archive twice"),
            errno => fault(&what(), errno),
        };
        if entry.kind == Kind::Directory {
            self.directory(&entry.path).map_err(|errno| self.way_refused(&name, errno))?;
            let seen = self.directories.insert(entry.path.clone(), (entry.mode, entry.modified));
            self.packed.directories += 1;
            return if seen.is_some() { Err(twice(Errno::EXIST)) } else { Ok(()) };
        }
        let parent = entry.path.parent().unwrap_or(Path::new(""));
        self.directory(parent).map_err(|errno| self.way_refused(&name, errno))?;
        let directory = self.last.as_ref().map_or(self.top, |(_, directory)| directory);
        match &entry.kind {
            Kind::File { size } => {
                let file = make_file(directory, &file_name).map_err(twice)?;
                let mut file = File::from(file);
                io::copy(content, &mut file).tried(what)?;
                finish(&file, entry.mode & 0o777, entry.modified).tried(what)?;
                self.packed.files += 1;
                self.packed.bytes += size;
            }
            Kind::Symlink(target) => {
                self.require_inside(entry, target).map_err(|reason| refused(&name, reason))?;
                symlinkat(OsStr::from_bytes(target), directory, &file_name).map_err(twice)?;
                self.packed.links += 1;
            }
            Kind::Link(target) => {
                self.link(target, directory, &file_name, &name)?;
                self.packed.links += 1;
            }
            Kind::Directory | Kind::Other(_) => {}
        }
        Ok(())
    }

    /// Opens a directory aside, which is made if it is missing, and keeps it.
    fn directory(&mut self, path: &Path) -> rustix::io::Result<()> {
        if self.last.as_ref().is_some_and(|(last, _)| last == path) {
            return Ok(());
        }
        let opened = match open_inside(self.top, path) {
            Err(Errno::NOENT) => {
                let mut at = open_inside(self.top, Path::new(""))?;
                for name in path {
                    match mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(errno),
                    }
                    at = open_directory(&at, name)?;
                }
                at
            }
            other => other?,
        };
        self.last = Some((path.to_owned(), opened));
        Ok(())
    }

    fn way_refused(&self, name: &str, errno: Errno) -> Error {
        match errno {
            Errno::LOOP | Errno::NOTDIR | Errno::XDEV => {
                refused(name, "its path leads through an entry that is no directory")
            }
            errno => fault(&format!("unpack `{name}`"), errno),
        }
    }

    fn link(
        &self,
        target: &Path,
        directory: &OwnedFd,
        file_name: &OsStr,
        name: &str,
    ) -> Result<()> {
        let missing = || refused(name, "it is a hard link to a file that does not come before it");
        let (Some(parent), Some(target_name)) = (target.parent(), target.file_name()) else {
            return Err(missing());
        };
        let from = open_inside(self.top, parent).map_err(|_| missing())?;
        let found = statat(&from, target_name, AtFlags::SYMLINK_NOFOLLOW).map_err(|_| missing())?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(missing());
        }
        match linkat(&from, target_name, directory, file_name, AtFlags::empty()) {
            Err(Errno::EXIST) => Err(refused(name, "it is in the archive twice")),
            other => other.tried(|| format!("unpack `{name}`")),
        }
    }

    /// Refuses a link that could lead to outside of the directory that is unpacked into. No entry's
    /// path leads through a link, so that `..` at the beginning leads to where it seems to.
    fn require_inside(&self, entry: &Entry, target: &[u8]) -> Result<(), &'static str> {
        const OUTSIDE: &str = "it is a link that leads outside of where the archive is unpacked";
        if target.is_empty() || target.contains(&0) {
            return Err("it is a link that leads nowhere");
        }
        let target = Path::new(OsStr::from_bytes(target));
        let above = entry.path.components().count() - 1;
        let (mut ups, mut is_down) = (0, false);
        for component in target.components() {
            match component {
                Component::Normal(_) => is_down = true,
                Component::ParentDir if is_down => {
                    return Err("it is a link whose target has `..` after a name");
                }
                Component::ParentDir => ups += 1,
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        let is_inside = if target.is_absolute() {
            ups == 0 && target.starts_with(self.target.as_path())
        } else {
            ups <= above
        };
        if is_inside { Ok(()) } else { Err(OUTSIDE) }
    }

    /// Sets the permission bits and times of directories, now that nothing is added to them.
    fn finish_directories(&self) -> Result<()> {
        for (path, (mode, modified)) in &self.directories {
            let what = || format!("unpack `{}`", shown(path.as_os_str().as_bytes()));
            let directory = open_inside(self.top, path).tried(what)?;
            // What is in a directory must remain removable by its owner.
            finish(&directory, (mode & 0o777) | 0o700, *modified).tried(what)?;
        }
        Ok(())
    }
}

const MOST_PATH_BYTES: usize = 4095;

fn make_file(directory: &OwnedFd, name: &OsString) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::from_raw_mode(0o600))
}

fn finish(file: impl std::os::fd::AsFd, mode: u32, modified: i64) -> rustix::io::Result<()> {
    fchmod(&file, Mode::from_raw_mode(mode))?;
    let time = Timespec { tv_sec: modified, tv_nsec: 0 };
    futimens(&file, &Timestamps { last_access: time, last_modification: time })
}

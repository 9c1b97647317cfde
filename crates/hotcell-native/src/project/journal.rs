//! How changes of real files are undone that were not all made.
//!
//! Everything new is first put into a staging directory of the project, and what it replaces ends up
//! there. The journal says what is to be done with it; it is written before anything is. Whether a
//! step was done is seen from the files, so undoing can itself be interrupted.
//!
//! While the staging directory may hold the only copy of a user's file it has a marker. A marked
//! directory is never removed without its journal, and a journal is kept for as long as the project
//! may only be out of reach, such as on a disk that is not mounted.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use hotcell_jail::mounts::{open_true, path_of};
use hotcell_model::CellId;
use hotcell_place::{read_json, remove_if_there};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, chownat, fchmod, fstat, fsync,
    mkdirat, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::place::Moment;
use super::stamps::{Stamp, Stamps};
use crate::paths::CellPaths;
use crate::tree;

/// A path as bytes: not every name is text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Bytes(Vec<u8>);

impl Bytes {
    pub(super) fn of(path: &Path) -> Self {
        Self(path.as_os_str().as_bytes().to_vec())
    }

    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.0.clone()))
    }
}

/// One step of bringing changes to real files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Move {
    /// What is at the path goes to the slot.
    Take {
        path: Bytes,
        slot: usize,
        #[serde(default)]
        was: Option<Content>,
    },
    /// What is in the slot, an inode of this number, goes to the path, where nothing is.
    Put {
        slot: usize,
        inode: u64,
        path: Bytes,
        #[serde(default)]
        new: Option<Content>,
    },
    /// What is in the slot, an inode of this number, and what is at the path change places.
    Swap {
        slot: usize,
        inode: u64,
        path: Bytes,
        #[serde(default)]
        new: Option<Content>,
        #[serde(default)]
        was: Option<Content>,
    },
    /// A directory is made.
    Make { path: Bytes, mode: u32, uid: u32, gid: u32 },
    /// An empty directory is removed.
    Remove { path: Bytes, mode: u32, uid: u32, gid: u32 },
    /// A directory gets another mode.
    Mode { path: Bytes, from: u32, to: u32 },
}

/// By what it is seen that nobody else has written to a file: renames do not change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Content {
    inode: u64,
    bytes: i64,
    mode: u32,
    modified: Moment,
}

impl Content {
    pub(super) fn of(stat: &Stat) -> Self {
        let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or(i64::MAX);
        let modified = Moment::new(stat.st_mtime, nanoseconds);
        Self { inode: stat.st_ino, bytes: stat.st_size, mode: stat.st_mode, modified }
    }

    #[cfg(test)]
    pub(super) fn inode(self) -> u64 {
        self.inode
    }

    /// That of a file which was there and is gone again.
    fn stamp(self) -> Stamp {
        Stamp::new(self.inode, self.modified)
    }
}

/// What is being done to a project.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    pub(super) moves: Vec<Move>,
    /// Whether all of it was done, and only the staging directory is left.
    pub(super) done: bool,
    /// What is the cell's own doing once all is done.
    pub(super) touched: Vec<Bytes>,
    /// What had not drifted before, and has not once all is undone.
    pub(super) sound: Vec<Bytes>,
    /// The inode of the project's directory; older journals have none.
    #[serde(default)]
    pub(super) root: Option<u64>,
}

impl Journal {
    /// Whether a project without a staging directory shows that all was done or undone.
    fn is_over_in(&self, root: &OwnedFd) -> bool {
        let is_same = |inode| fstat(root).is_ok_and(|it| it.st_ino == inode);
        self.done || self.root.is_none_or(is_same)
    }

    /// What the real files have if nobody else wrote to them; `None` for a file that is removed.
    fn expected(&self) -> BTreeMap<PathBuf, Option<Content>> {
        let expected = |step: &Move| match (step, self.done) {
            (Move::Put { path, new, .. } | Move::Swap { path, new, .. }, true) => {
                new.map(|new| (path.path(), Some(new)))
            }
            (Move::Take { path, .. }, true) => Some((path.path(), None)),
            (Move::Swap { path, was, .. } | Move::Take { path, was, .. }, false) => {
                was.map(|was| (path.path(), Some(was)))
            }
            (Move::Remove { path, .. }, true) => Some((path.path(), None)),
            (Move::Put { .. } | Move::Remove { .. }, false)
            | (Move::Make { .. } | Move::Mode { .. }, _) => None,
        };
        self.moves.iter().filter_map(expected).collect()
    }

    /// The directories that are made.
    fn made(&self) -> impl Iterator<Item = &Bytes> {
        self.moves.iter().filter_map(|step| match step {
            Move::Make { path, .. } => Some(path),
            Move::Take { .. }
            | Move::Put { .. }
            | Move::Swap { .. }
            | Move::Remove { .. }
            | Move::Mode { .. } => None,
        })
    }

    /// Writes it down, so that it is there even if the machine stops right after.
    pub(super) fn save(&self, paths: &CellPaths) -> io::Result<()> {
        let path = paths.apply_journal();
        let temporary = path.with_extension("new");
        let mut file = File::create(&temporary)?;
        io::Write::write_all(&mut file, &serde_json::to_vec(self)?)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)?;
        File::open(paths.root())?.sync_all()
    }
}

/// Names that are tried for a file whose path is taken.
const MOST_BESIDE: u32 = 100;

const STAGING: &str = ".hotcell-apply-";

/// The name of the marker in a staging directory that may hold the only copy of a file.
const MARKER: &str = "UNFINISHED";

/// What a person finds in it.
const ABOUT_MARKER: &str = "An apply of Hotcell was interrupted. This directory holds the files it \
    replaced. `hotcell diff` in the project puts them back. Do not remove it before.\n";

/// The staging directory of a cell in its project.
fn staging_name(cell: &CellId) -> OsString {
    OsString::from(format!("{STAGING}{cell}"))
}

/// Whether a name at the top of a project is that of a staging directory.
pub(super) fn is_staging_name(name: &OsStr) -> bool {
    name.as_bytes().starts_with(STAGING.as_bytes())
}

/// What became of a file that was put into the project.
enum Staged {
    /// It is there as it was put.
    Unchanged,
    /// It is there, and was written to.
    Changed,
    /// It was not put there, or something else has its path.
    Elsewhere,
}

/// A file that the user wrote to in the moment of an apply that is undone.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// It has the cell's version with the user's change.
    Changed(PathBuf),
    /// The user made it anew, and what it was before lies beside it.
    Beside { path: PathBuf, before: PathBuf },
}

/// A project that is being changed.
#[derive(Debug)]
pub(super) struct Site<'a> {
    pub(super) root: &'a OwnedFd,
    pub(super) staging: OwnedFd,
    name: OsString,
}

impl<'a> Site<'a> {
    /// Makes the staging directory.
    pub(super) fn make(root: &'a OwnedFd, cell: &CellId) -> io::Result<Self> {
        mkdirat(root, staging_name(cell), Mode::from_raw_mode(0o700))?;
        Self::open(root, cell)
    }

    fn open(root: &'a OwnedFd, cell: &CellId) -> io::Result<Self> {
        let name = staging_name(cell);
        let staging = tree::directory(root, Path::new(&name))?;
        Ok(Self { root, staging, name })
    }

    /// Marks the staging directory, before the first file of the user comes into it.
    pub(super) fn mark(&self) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let marker = openat(&self.staging, MARKER, flags, Mode::from_raw_mode(0o600))?;
        let mut marker = File::from(marker);
        io::Write::write_all(&mut marker, ABOUT_MARKER.as_bytes())?;
        marker.sync_all()?;
        Ok(fsync(&self.staging)?)
    }

    fn is_marked(&self) -> io::Result<bool> {
        Ok(tree::look_in(&self.staging, OsStr::new(MARKER))?.is_some())
    }

    /// Does one step.
    pub(super) fn perform(&self, step: &Move) -> io::Result<()> {
        match step {
            Move::Take { path, slot, .. } => self.take_into_slot(&path.path(), *slot),
            Move::Put { slot, path, .. } => {
                self.put_from_slot(*slot, &path.path(), RenameFlags::NOREPLACE)
            }
            Move::Swap { slot, path, .. } => {
                self.put_from_slot(*slot, &path.path(), RenameFlags::EXCHANGE)
            }
            Move::Make { path, mode, uid, gid } => {
                self.make_directory(&path.path(), *mode, *uid, *gid)
            }
            Move::Remove { path, .. } => {
                let path = path.path();
                let (above, name) = tree::parent(self.root, &path)?;
                Ok(unlinkat(&above, name, AtFlags::REMOVEDIR)?)
            }
            Move::Mode { path, to, .. } => self.set_mode(&path.path(), *to),
        }
    }

    /// Undoes one step, if it was done. What the user has written to since stays, and is told.
    fn undo(&self, step: &Move) -> io::Result<Option<Kept>> {
        match step {
            Move::Take { path, slot, .. } => {
                if tree::look_in(&self.staging, OsStr::new(&slot_name(*slot)))?.is_some() {
                    return self.put_back(*slot, path.path());
                }
            }
            Move::Put { slot, inode, path, new } => {
                let path = path.path();
                match self.find_staged(&path, *inode, new.as_ref())? {
                    Staged::Unchanged => self.take_into_slot(&path, *slot)?,
                    Staged::Changed => return Ok(Some(Kept::Changed(path))),
                    Staged::Elsewhere => {}
                }
            }
            Move::Swap { slot, inode, path, new, .. } => {
                let path = path.path();
                match self.find_staged(&path, *inode, new.as_ref())? {
                    Staged::Unchanged => {
                        self.put_from_slot(*slot, &path, RenameFlags::EXCHANGE)?;
                    }
                    Staged::Changed => return Ok(Some(Kept::Changed(path))),
                    Staged::Elsewhere => {}
                }
            }
            Move::Make { path, .. } => {
                let path = path.path();
                let (above, name) = match tree::parent(self.root, &path) {
                    // Nor was what it was to be in.
                    Err(error) if tree::is_absent(&error) => return Ok(None),
                    found => found?,
                };
                match unlinkat(&above, name, AtFlags::REMOVEDIR) {
                    // Somebody may have put something there.
                    Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            Move::Remove { path, mode, uid, gid } => {
                match self.make_directory(&path.path(), *mode, *uid, *gid) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    made => made?,
                }
            }
            Move::Mode { path, from, .. } => self.set_mode(&path.path(), *from)?,
        }
        Ok(None)
    }

    /// What became of a file that was staged for a path; journals of older versions do not tell what
    /// was in it.
    fn find_staged(&self, path: &Path, inode: u64, new: Option<&Content>) -> io::Result<Staged> {
        Ok(match tree::look(self.root, path)? {
            Some(stat) if stat.st_ino != inode => Staged::Elsewhere,
            Some(stat) if new.is_some_and(|new| Content::of(&stat) != *new) => Staged::Changed,
            Some(_) => Staged::Unchanged,
            None => Staged::Elsewhere,
        })
    }

    /// Puts a file back that was taken; beside its path if the user has made another one there.
    fn put_back(&self, slot: usize, path: PathBuf) -> io::Result<Option<Kept>> {
        let mut to = path.clone();
        for number in 1..=MOST_BESIDE {
            match self.put_from_slot(slot, &to, RenameFlags::NOREPLACE) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Ok(()) if to == path => return Ok(None),
                Ok(()) => return Ok(Some(Kept::Beside { path, before: to })),
                Err(error) => return Err(error),
            }
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".before-apply-{number}"));
            to = path.with_file_name(name);
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn take_into_slot(&self, path: &Path, slot: usize) -> io::Result<()> {
        let (above, name) = tree::parent(self.root, path)?;
        let place = slot_name(slot);
        Ok(renameat_with(&above, name, &self.staging, place, RenameFlags::NOREPLACE)?)
    }

    fn put_from_slot(&self, slot: usize, path: &Path, flags: RenameFlags) -> io::Result<()> {
        let (above, name) = tree::parent(self.root, path)?;
        Ok(renameat_with(&self.staging, slot_name(slot), &above, name, flags)?)
    }

    fn make_directory(&self, path: &Path, mode: u32, uid: u32, gid: u32) -> io::Result<()> {
        let (above, name) = tree::parent(self.root, path)?;
        mkdirat(&above, name, Mode::from_raw_mode(0o700))?;
        let made = tree::directory(&above, Path::new(name))?;
        // The group of a directory may be for all that is made in it.
        let inherited = fstat(&made)?.st_mode & 0o2000;
        give(&above, name, uid, gid)?;
        fchmod(&made, Mode::from_raw_mode(mode | inherited))?;
        Ok(())
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        let directory = tree::directory(self.root, path)?;
        fchmod(directory, Mode::from_raw_mode(mode))?;
        Ok(())
    }

    /// Ends what the journal is about: undoes it unless all was done, and takes note of what real
    /// files are like now that were not changed by anybody else.
    /// Files of an apply that was undone, to which the user has written meanwhile, are returned.
    pub(super) fn finish(&self, journal: &Journal, paths: &CellPaths) -> io::Result<Vec<Kept>> {
        let mut kept = Vec::new();
        if !journal.done {
            for step in journal.moves.iter().rev() {
                kept.extend(self.undo(step)?);
            }
        }
        self.clear()?;
        let known = if journal.done { &journal.touched } else { &journal.sound };
        let mut sound: BTreeSet<PathBuf> = journal.sound.iter().map(Bytes::path).collect();
        let made: Vec<&Bytes> = if journal.done { journal.made().collect() } else { Vec::new() };
        sound.extend(made.iter().map(|path| path.path()));
        let mut stamps = Stamps::load(paths)?;
        let expected = journal.expected();
        for path in known.iter().chain(made).map(Bytes::path) {
            let there = look_at(self.root, &path)?;
            if let Some(expected) = expected.get(&path) {
                // If it is anything else, the user has changed it since.
                match (expected, &there) {
                    (Some(content), Some(stat)) if Content::of(stat) == *content => {
                        stamps.set(&path, Some(Stamp::of(stat)));
                    }
                    (Some(content), None) => stamps.set(&path, Some(content.stamp())),
                    (None, None) => stamps.set(&path, None),
                    (Some(_) | None, Some(_)) => {}
                }
                continue;
            }
            match there {
                // Names that came or went in it before are still the user's doing.
                Some(stat) if is_directory(&stat) && sound.contains(&path) => {
                    stamps.set(&path, Some(Stamp::of(&stat)));
                }
                Some(_) | None => {}
            }
        }
        stamps.save(paths)?;
        remove_if_there(&paths.apply_journal())?;
        Ok(kept)
    }

    /// Removes the staging directory with all that is in it; nothing of it is needed.
    pub(super) fn clear(&self) -> io::Result<()> {
        match unlinkat(&self.staging, MARKER, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        std::fs::remove_dir_all(path_of(self.root).join(&self.name))
    }
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// What is at a path, or at the top for `.`.
pub(super) fn look_at(root: &OwnedFd, path: &Path) -> io::Result<Option<Stat>> {
    if path == Path::new(".") { Ok(Some(fstat(root)?)) } else { tree::look(root, path) }
}

/// Where something lies in the staging directory.
pub(super) fn slot_name(slot: usize) -> String {
    slot.to_string()
}

/// Makes something of the staging directory or the project somebody's. Only root can, and an
/// ordinary user's own files are his already.
pub(super) fn give(
    directory: &OwnedFd,
    name: impl AsRef<OsStr>,
    uid: u32,
    gid: u32,
) -> io::Result<()> {
    let (owner, group) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    match chownat(directory, name.as_ref(), owner, group, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(()) | Err(Errno::PERM | Errno::INVAL) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Ends what a process that died left half done in a project: it is undone, or found to be done.
pub(super) fn recover(paths: &CellPaths, cell: &CellId, dir: &Path) -> io::Result<()> {
    let held = match open_true(dir) {
        // A directory that is gone has nothing that is half done.
        Err(error) if tree::is_absent(&error.source) => return Ok(()),
        held => held.map_err(io::Error::other)?,
    };
    let root = tree::directory(&held, Path::new("."))?;
    let journal: Option<Journal> = read_json(&paths.apply_journal())?;
    match (Site::open(&root, cell), journal) {
        (Ok(site), Some(journal)) => site.finish(&journal, paths).map(drop),
        (Ok(site), None) if site.is_marked()? => Err(io::Error::other(format!(
            "{} holds files that an interrupted apply replaced, and its journal is lost; move them \
             back by hand, then remove that directory",
            dir.join(&site.name).display()
        ))),
        (Ok(site), None) => site.clear(),
        (Err(error), Some(journal)) if tree::is_absent(&error) && !journal.is_over_in(&root) => {
            Err(io::Error::other(format!(
                "an apply was interrupted, and {} is not the directory it began in; mount the disk \
                 of the project, or end the cell if the directory was removed on purpose",
                dir.display()
            )))
        }
        // Nothing was begun, or nothing is left to be ended.
        (Err(error), _) if tree::is_absent(&error) => remove_if_there(&paths.apply_journal()),
        (Err(error), _) => Err(error),
    }
}

//! What differs between two states of some files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use hotcell_jail::mounts::{Lower, LowerIds};
use hotcell_jail::views::with_views;
use hotcell_model::{ChangeKind, Error, Patch, PathChange};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::checkpoint_file::Part;
use crate::order::{Outcome, Placed};
use crate::patch::patch;

/// A path that two states do not have alike, below the root of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// Which; its bytes as they are.
    pub(crate) path: PathBuf,
    /// What became of it.
    pub(crate) kind: ChangeKind,
    /// Whether it is, or was, a directory.
    pub(crate) directory: bool,
}

impl Change {
    /// As callers see it, below a directory of the cell.
    pub(crate) fn shown_in(&self, target: &Path) -> PathChange {
        let path = target.join(&self.path).to_string_lossy().into_owned();
        PathChange { path, change: self.kind, directory: self.directory }
    }
}

/// Tells what differs between a state and the cell as it is: of all changes those in `range`. With
/// `patch_bytes` also how, in a patch of at most so many bytes.
pub(crate) fn compare(
    placed: &Placed,
    parts: &[Part],
    range: Range<u32>,
    patch_bytes: Option<u32>,
) -> Outcome {
    let range = range.start as usize..range.end as usize;
    match try_to_compare(placed, parts, range, patch_bytes) {
        Ok(Said { changes, truncated, patch }) => Outcome::Compared { changes, truncated, patch },
        Err(error) => {
            Outcome::Failed(Error::unavailable(format!("cannot compare the cell's files: {error}")))
        }
    }
}

fn try_to_compare(
    placed: &Placed,
    parts: &[Part],
    range: Range<usize>,
    patch_bytes: Option<u32>,
) -> io::Result<Said> {
    let empty = |_| Patch { text: String::new(), truncated: false, left_out: Vec::new() };
    // How many changes were found in the parts before.
    let mut passed = 0;
    let mut said = Said { patch: patch_bytes.map(empty), ..Said::default() };
    for layer in &placed.layers {
        let Some(part) = parts.iter().find(|part| part.target == layer.target) else { continue };
        let before = part.lowers.clone();
        let upper = layer.upper.iter();
        let upper = upper.map(|upper| Lower { path: upper.data.clone(), ids: LowerIds::Own });
        let now: Vec<Lower> = upper.chain(layer.lowers.iter().cloned()).collect();
        let shared =
            before.iter().rev().zip(now.iter().rev()).take_while(|(a, b)| a.path == b.path).count();
        let differing = before[..before.len() - shared].iter().chain(&now[..now.len() - shared]);
        let differing: Vec<&PathBuf> = differing.map(|lower| &lower.path).collect();
        if differing.is_empty() {
            continue;
        }
        let room = range.end - passed;
        let skip = range.start.saturating_sub(passed);
        let written = said.patch.as_ref().map_or(0, |patch| patch.text.len());
        let of_part = with_views(&placed.ids, &[before.clone(), now.clone()], |views| {
            let may_differ = |path: &Path| differing.iter().any(|layer| layer.join(path).is_dir());
            let mut changes =
                compare_views(&views[0], &views[1], ModeBits::All, &may_differ, room)?;
            let truncated = changes.len() > room;
            changes.truncate(room);
            let found = changes.len();
            changes.drain(..skip.min(found));
            let make = |most: u32| {
                let most = (most as usize).saturating_sub(written);
                patch(&views[0], &views[1], &changes, &layer.target, most)
            };
            let patch = patch_bytes.map(make).transpose()?;
            let changes = changes.iter().map(|change| change.shown_in(&layer.target)).collect();
            Ok(serde_json::to_vec(&(found, Said { changes, truncated, patch }))?)
        });
        let (found, of_part): (usize, Said) =
            serde_json::from_slice(&of_part.map_err(io::Error::other)?)?;
        passed += found;
        said.changes.extend(of_part.changes);
        said.truncated |= of_part.truncated;
        if let (Some(all), Some(more)) = (&mut said.patch, of_part.patch) {
            all.text += &more.text;
            all.truncated |= more.truncated;
            all.left_out.extend(more.left_out);
        }
    }
    said.changes.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(said)
}

/// What is told of a comparison.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Said {
    changes: Vec<PathChange>,
    truncated: bool,
    patch: Option<Patch>,
}

/// What differs between two states, by path: at most one more than `limit`. Directories that both
/// have are looked into only where they may differ.
pub(crate) fn compare_views(
    before: &OwnedFd,
    now: &OwnedFd,
    bits: ModeBits,
    may_differ: &dyn Fn(&Path) -> bool,
    limit: usize,
) -> io::Result<Vec<Change>> {
    let mut walk = Walk { found: Vec::new(), limit, bits, may_differ };
    walk.directory(before, now, Path::new(""))?;
    // As it was walked, so that a page is the beginning of what follows it.
    walk.found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(walk.found)
}

/// Which part of a mode makes files differ.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ModeBits {
    /// All of it.
    All,
    /// Who may read, write and run it.
    Permissions,
}

impl ModeBits {
    fn differ(self, was: &Stat, is: &Stat) -> bool {
        let bits = match self {
            Self::All => u32::MAX,
            Self::Permissions => !0o7000,
        };
        (was.st_mode ^ is.st_mode) & bits != 0
    }
}

/// Two states side by side, and what was found so far.
struct Walk<'a> {
    found: Vec<Change>,
    limit: usize,
    bits: ModeBits,
    may_differ: &'a dyn Fn(&Path) -> bool,
}

impl Walk<'_> {
    fn is_full(&self) -> bool {
        self.found.len() > self.limit
    }

    fn directory(&mut self, before: &OwnedFd, now: &OwnedFd, below: &Path) -> io::Result<()> {
        let (old, new) = (entries(before)?, entries(now)?);
        let names: std::collections::BTreeSet<&OsString> = old.keys().chain(new.keys()).collect();
        for name in names {
            if self.is_full() {
                return Ok(());
            }
            let path = below.join(name);
            match (old.get(name), new.get(name)) {
                (Some(stat), None) => self.all(before, name, &path, stat, ChangeKind::Removed)?,
                (None, Some(stat)) => self.all(now, name, &path, stat, ChangeKind::Added)?,
                (Some(was), Some(is)) if is_directory(was) && is_directory(is) => {
                    if self.bits.differ(was, is) {
                        self.note(&path, is, ChangeKind::Changed);
                    }
                    if (self.may_differ)(&path) {
                        let (before, now) = (open(before, name)?, open(now, name)?);
                        self.directory(&before, &now, &path)?;
                    }
                }
                (Some(was), Some(is)) if is_directory(was) || is_directory(is) => {
                    self.all(before, name, &path, was, ChangeKind::Removed)?;
                    self.all(now, name, &path, is, ChangeKind::Added)?;
                }
                (Some(was), Some(is)) => {
                    if self.bits.differ(was, is) || differ((before, was), (now, is), name)? {
                        self.note(&path, is, ChangeKind::Changed);
                    }
                }
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Something that one side has alone, with all that is in it.
    fn all(
        &mut self,
        directory: &OwnedFd,
        name: &OsString,
        path: &Path,
        stat: &Stat,
        change: ChangeKind,
    ) -> io::Result<()> {
        self.note(path, stat, change);
        if is_directory(stat) && !self.is_full() {
            let inside = open(directory, name)?;
            for (name, stat) in entries(&inside)? {
                self.all(&inside, &name, &path.join(&name), &stat, change)?;
            }
        }
        Ok(())
    }

    fn note(&mut self, path: &Path, stat: &Stat, kind: ChangeKind) {
        if !self.is_full() {
            let directory = is_directory(stat);
            self.found.push(Change { path: path.to_owned(), kind, directory });
        }
    }
}

/// Whether files of one kind and mode have different content.
fn differ(before: (&OwnedFd, &Stat), now: (&OwnedFd, &Stat), name: &OsString) -> io::Result<bool> {
    let ((before, was), (now, is)) = (before, now);
    match FileType::from_raw_mode(is.st_mode) {
        FileType::RegularFile => {
            let look = |stat: &Stat| (stat.st_ino, stat.st_mtime, stat.st_mtime_nsec);
            if was.st_size != is.st_size {
                return Ok(true);
            }
            Ok(look(was) != look(is)
                && content_differs(&open_file(before, name)?, &open_file(now, name)?)?)
        }
        FileType::Symlink => {
            Ok(readlinkat(before, name, Vec::new())? != readlinkat(now, name, Vec::new())?)
        }
        FileType::Directory
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Ok(false),
    }
}

fn open_file(directory: &OwnedFd, name: &OsString) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(openat(directory, name, flags, Mode::empty())?.into())
}

/// Whether two files have different content, from where they are read on.
pub(crate) fn content_differs(mut before: &File, mut now: &File) -> io::Result<bool> {
    let (mut one, mut other) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let length = before.read(&mut one)?;
        if length == 0 {
            return Ok(now.read(&mut other[..1])? > 0);
        }
        match now.read_exact(&mut other[..length]) {
            Ok(()) if one[..length] == other[..length] => {}
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(true),
            Err(error) => return Err(error),
        }
    }
}

/// What is in a directory; a link as itself.
fn entries(directory: &OwnedFd) -> io::Result<BTreeMap<OsString, Stat>> {
    let mut found = BTreeMap::new();
    for entry in Dir::read_from(directory)? {
        let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
        if name == "." || name == ".." {
            continue;
        }
        match statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                found.insert(name, stat);
            }
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(found)
}

fn open(directory: &OwnedFd, name: &OsString) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(directory, name, flags, Mode::empty())?)
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

//! What differs between two states of a cell's files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use hotcell_jail::mounts::Lower;
use hotcell_jail::views::with_views;
use hotcell_model::{ChangeKind, Error, PathChange};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;

use crate::checkpoint_file::Part;
use crate::order::{Outcome, Placed};

/// Tells what differs between a state and the cell as it is.
pub(crate) fn compare(placed: &Placed, parts: &[Part], limit: u32) -> Outcome {
    match try_to_compare(placed, parts, limit as usize) {
        Ok(found) => Outcome::Compared { changes: found.changes, truncated: found.truncated },
        Err(error) => {
            Outcome::Failed(Error::unavailable(format!("cannot compare the cell's files: {error}")))
        }
    }
}

fn try_to_compare(placed: &Placed, parts: &[Part], limit: usize) -> io::Result<Found> {
    let mut found = Found { changes: Vec::new(), limit, truncated: false };
    for layer in &placed.layers {
        let Some(part) = parts.iter().find(|part| part.target == layer.target) else { continue };
        let path = |lower: &Lower| lower.path.clone();
        let before: Vec<PathBuf> = part.lowers.iter().map(path).collect();
        let upper = layer.upper.iter().map(|upper| upper.data.clone());
        let now: Vec<PathBuf> = upper.chain(layer.lowers.iter().map(path)).collect();
        let shared = before.iter().rev().zip(now.iter().rev()).take_while(|(a, b)| a == b).count();
        let differing: Vec<&PathBuf> =
            before[..before.len() - shared].iter().chain(&now[..now.len() - shared]).collect();
        if differing.is_empty() {
            continue;
        }
        let target = layer.target.clone();
        let said = with_views(&placed.ids, &[before.clone(), now.clone()], |views| {
            let mut walk = Walk { found: &mut found, differing: &differing, target: &target };
            walk.directory(&views[0], &views[1], Path::new(""))?;
            Ok(serde_json::to_vec(&walk.found.changes)?)
        });
        found.changes = serde_json::from_slice(&said.map_err(io::Error::other)?)?;
        // What came beyond the limit was told by one more than that.
        if found.changes.len() > limit {
            found.changes.truncate(limit);
            found.truncated = true;
            break;
        }
    }
    found.changes.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// What was found so far, at most one more than the limit.
#[derive(Debug)]
struct Found {
    changes: Vec<PathChange>,
    limit: usize,
    truncated: bool,
}

/// Two states side by side; only directories that one of the differing layers has are looked at.
struct Walk<'a> {
    found: &'a mut Found,
    differing: &'a [&'a PathBuf],
    target: &'a Path,
}

impl Walk<'_> {
    fn is_full(&self) -> bool {
        self.found.changes.len() > self.found.limit
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
                    let differs = self.differing.iter().any(|layer| layer.join(&path).is_dir());
                    if differs {
                        let (before, now) = (open(before, name)?, open(now, name)?);
                        self.directory(&before, &now, &path)?;
                    }
                }
                (Some(was), Some(is)) => {
                    if differ((before, was), (now, is), name)? {
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

    fn note(&mut self, path: &Path, stat: &Stat, change: ChangeKind) {
        if !self.is_full() {
            let path = self.target.join(path).to_string_lossy().into_owned();
            self.found.changes.push(PathChange { path, change, directory: is_directory(stat) });
        }
    }
}

fn differ(before: (&OwnedFd, &Stat), now: (&OwnedFd, &Stat), name: &OsString) -> io::Result<bool> {
    let ((before, was), (now, is)) = (before, now);
    if was.st_mode != is.st_mode {
        return Ok(true);
    }
    match FileType::from_raw_mode(is.st_mode) {
        FileType::RegularFile => {
            let look = |stat: &Stat| (stat.st_ino, stat.st_mtime, stat.st_mtime_nsec);
            if was.st_size != is.st_size {
                return Ok(true);
            }
            Ok(look(was) != look(is) && content_differs(before, now, name)?)
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

fn content_differs(before: &OwnedFd, now: &OwnedFd, name: &OsString) -> io::Result<bool> {
    let open = |directory: &OwnedFd| -> io::Result<std::fs::File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(openat(directory, name, flags, Mode::empty())?.into())
    };
    let (mut before, mut now) = (open(before)?, open(now)?);
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

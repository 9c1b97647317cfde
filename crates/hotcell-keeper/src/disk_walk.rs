//! Looks at everything below a directory that a cell may be changing.
//!
//! From descriptor to descriptor: no path gets too long, and no link that is put in the place of a
//! directory leads anywhere else.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How deep directories lie in one another at most: each on the way is held open.
const DEEPEST: usize = 1000;
/// More names than any limit lets a cell have files: who makes so many of few files wants a walk to
/// take long.
const MOST_NAMES: u64 = 20_000_000;
/// Descriptors for them, and for what else is open.
const DESCRIPTORS: u64 = 2048;

/// How much of a tree was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// All of it, but for what vanished meanwhile.
    Whole,
    /// Some of it is hidden, or too deep.
    Part,
}

/// Shows everything in a directory tree.
///
/// # Errors
/// It cannot be looked at.
pub fn walk(root: &Path, mut show: impl FnMut(&Stat)) -> io::Result<Seen> {
    allow_descriptors();
    let mut seen = Seen::Whole;
    let root = match open(CWD, root) {
        Err(Errno::NOENT) => return Ok(seen),
        opened => Dir::new(opened?)?,
    };
    let mut way = vec![root];
    let mut names = 0_u64;
    while let Some(directory) = way.last_mut() {
        let Some(entry) = directory.read() else {
            way.pop();
            continue;
        };
        let entry = entry?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        let place = directory.fd()?;
        let Ok(found) = statat(place, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        show(&found);
        names += 1;
        if names == MOST_NAMES {
            return Ok(Seen::Part);
        }
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            continue;
        }
        match open(place, name) {
            Ok(_) if way.len() == DEEPEST => seen = Seen::Part,
            Ok(inside) => way.push(Dir::new(inside)?),
            // Gone, or something else by now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(Errno::ACCESS | Errno::PERM | Errno::MFILE | Errno::NFILE) => seen = Seen::Part,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(seen)
}

fn open(
    place: impl std::os::fd::AsFd,
    name: impl rustix::path::Arg,
) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(place, name, flags, Mode::empty())
}

/// Lets this process have as many descriptors as the deepest tree needs, or as many as it may.
fn allow_descriptors() {
    let limits = getrlimit(Resource::Nofile);
    let most = limits.maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
    if limits.current.is_some_and(|current| current < most) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limits });
    }
}

#[cfg(test)]
#[path = "disk_walk_tests.rs"]
mod disk_walk_tests;

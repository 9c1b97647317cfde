//! Copying files and whole trees, level by level instead of by recursion: how deep a tree is, is the
//! cell's to say, and a stack has an end.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::vec::IntoIter;

use hotcell_model::{Error, Precondition, Result};
use rustix::fs::{FileType, Mode, OFlags, Stat, fchmod, fstat, openat, readlinkat, symlinkat};
use rustix::io::Errno;

use crate::changes::make_one;
use crate::fault::{Tried, fault};
use crate::kinds::{is_directory, is_file};
use crate::path::CellPath;
use crate::removal::{names, open_directory, remove_tree, within};
use crate::staged::{Staged, is_ours};
use crate::tree::Slot;
use crate::undo::Undo;

/// Copies what lies at `from`, with all that is in it; links are copied as links.
pub(crate) fn copy_tree(from: &Slot, found: &Stat, to: &Slot, undo: &mut dyn Undo) -> Result<()> {
    if !is_directory(found) {
        return copy_leaf(from, found, to, undo);
    }
    let mut levels = vec![Level::enter(from, found, to, undo)?];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.inside.next() else {
            level.leave()?;
            levels.pop();
            continue;
        };
        let (from, to) = (level.from.slot(&name)?, level.to.slot(&name)?);
        match from.stat()? {
            Some(found) if is_directory(&found) => {
                within(levels.len()).tried(|| copying(&from, &to))?;
                levels.push(Level::enter(&from, &found, &to, undo)?);
            }
            Some(found) => copy_leaf(&from, &found, &to, undo)?,
            None => {}
        }
    }
    Ok(())
}

/// A directory that is being copied.
struct Level {
    from: Side,
    to: Side,
    mode: Mode,
    /// What is still to be copied of it.
    inside: IntoIter<OsString>,
}

/// Where its entries come from, or go to.
struct Side {
    path: CellPath,
    directory: OwnedFd,
}

impl Level {
    fn enter(from: &Slot, found: &Stat, to: &Slot, undo: &mut dyn Undo) -> Result<Self> {
        let what = || copying(from, to);
        let source = open_directory(&from.directory, &from.name).tried(what)?;
        make_one(to, undo)?;
        let target = open_directory(&to.directory, &to.name).tried(what)?;
        let inside = names(&source).tried(what)?.into_iter().map(|(name, _)| name);
        let inside: Vec<OsString> = inside.filter(|name| !is_ours(name)).collect();
        Ok(Self {
            from: Side { path: from.path.clone(), directory: source },
            to: Side { path: to.path.clone(), directory: target },
            mode: Mode::from_raw_mode(found.st_mode & 0o777),
            inside: inside.into_iter(),
        })
    }

    /// Only now, since the mode may be one under which nothing can be made in it.
    fn leave(&self) -> Result<()> {
        fchmod(&self.to.directory, self.mode)
            .tried(|| format!("give {} the mode of {}", self.to.path, self.from.path))
    }
}

impl Side {
    fn slot(&self, name: &OsStr) -> Result<Slot> {
        let path = self.path.join(name);
        let directory = self.directory.try_clone().tried(|| format!("copy {path}"))?;
        Ok(Slot { path, directory, name: name.into() })
    }
}

fn copy_leaf(from: &Slot, found: &Stat, to: &Slot, undo: &mut dyn Undo) -> Result<()> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => copy_file(from, to, undo),
        FileType::Symlink => copy_link(from, to, undo),
        FileType::Directory
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => {
            let message = format!("cannot {}: it is no regular file", copying(from, to));
            Err(Error::conflict(message)
                .hint("pipes, sockets and devices can only be made by commands"))
        }
    }
}

fn copy_file(from: &Slot, to: &Slot, undo: &mut dyn Undo) -> Result<()> {
    let what = || copying(from, to);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(&from.directory, &from.name, flags, Mode::empty()).tried(what)?;
    let stat = fstat(&file).tried(what)?;
    if !is_file(&stat) {
        return Err(fault(&what(), Errno::AGAIN));
    }
    let mut staged = Staged::new(to)?;
    staged.copy_from(&File::from(file)).tried(what)?;
    staged.place(to, Some(stat.st_mode & 0o777), &Precondition::default(), undo)?;
    Ok(())
}

fn copy_link(from: &Slot, to: &Slot, undo: &mut dyn Undo) -> Result<()> {
    let what = || copying(from, to);
    let link = readlinkat(&from.directory, &from.name, Vec::new()).tried(what)?;
    let replaced = to.stat()?.is_some();
    if replaced && !undo.removing(to)? {
        remove_tree(to)?;
    }
    undo.creating(to, None)?;
    symlinkat(OsStr::from_bytes(link.as_bytes()), &to.directory, &to.name).tried(what)
}

fn copying(from: &Slot, to: &Slot) -> String {
    format!("copy {} to {}", from.path, to.path)
}

//! Moving what was unpacked aside into place, all of it or nothing.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;

use hotcell_model::{Error, FilesPacked, Result};
use rustix::fs::{FileType, Stat, renameat, syncfs};
use rustix::io::Errno;

use crate::changes::make_parents;
use crate::conversation::Conversation;
use crate::fault::{Tried, cancelled, fault};
use crate::import::Imported;
use crate::kinds::is_directory;
use crate::path::CellPath;
use crate::removal::{names, open_directory, within};
use crate::tree::{Slot, Tree};
use crate::undo::{Undo, UndoLog, move_entry};

impl Imported {
    /// Moves everything into place: directories that are there are added to, files replaced.
    pub(crate) fn place(
        self,
        tree: &Tree,
        conversation: &Conversation,
        log: &mut File,
    ) -> Result<FilesPacked> {
        let aside = self.staging.slot.path.clone();
        // Whatever stands in the way is found before anything is moved.
        if let Some(target) = open_target(tree, &self.target)? {
            merge(&self.staging.inside, &aside, target, conversation, &mut Step::Look)?;
        }
        let mut undo = UndoLog::begin(tree, log)?;
        let placed = make_parents(tree, &self.target, &mut undo)
            .and_then(|()| open_target(tree, &self.target))
            .and_then(|target| {
                target.ok_or_else(|| fault(&format!("unpack into {}", self.target), Errno::NOENT))
            })
            .and_then(|target| {
                let step = &mut Step::Move(&mut undo);
                merge(&self.staging.inside, &aside, target, conversation, step)?;
                // One by one, thousands of small files would take far longer.
                syncfs(&self.staging.inside).tried(|| format!("unpack into {}", self.target))
            });
        match placed {
            Ok(()) => {
                undo.commit()?;
                Ok(self.packed)
            }
            Err(error) => {
                undo.roll_back()?;
                Err(error)
            }
        }
    }
}

/// The directory to unpack into, if it is there, and where it really lies.
fn open_target(tree: &Tree, path: &CellPath) -> Result<Option<(CellPath, OwnedFd)>> {
    let what = || format!("unpack into {path}");
    match tree.writable_directory(path) {
        Ok(directory) => {
            let real = tree.path_of(&directory).tried(what)?;
            Ok(Some((real, directory)))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(fault(&what(), errno)),
    }
}

/// What is done on the way.
enum Step<'a> {
    /// Only look whether it could be done.
    Look,
    Move(&'a mut dyn Undo),
}

/// A directory aside and the one it is merged into.
struct Pair {
    aside: OwnedFd,
    aside_path: CellPath,
    target: OwnedFd,
    target_path: CellPath,
    left: Vec<OsString>,
}

impl Pair {
    fn new(
        (aside, aside_path): (OwnedFd, CellPath),
        (target_path, target): (CellPath, OwnedFd),
    ) -> Result<Self> {
        let found = names(&aside).tried(|| format!("unpack into {target_path}"))?;
        let left = found.into_iter().map(|(name, _)| name).collect();
        Ok(Self { aside, aside_path, target, target_path, left })
    }
}

fn merge(
    aside: &OwnedFd,
    aside_path: &CellPath,
    target: (CellPath, OwnedFd),
    conversation: &Conversation,
    step: &mut Step<'_>,
) -> Result<()> {
    let aside = aside.try_clone().tried(|| format!("unpack into {}", target.0))?;
    let mut pairs = vec![Pair::new((aside, aside_path.clone()), target)?];
    while let Some(pair) = pairs.last_mut() {
        let Some(name) = pair.left.pop() else {
            pairs.pop();
            continue;
        };
        if conversation.is_over() {
            return Err(cancelled());
        }
        let what = || format!("unpack {}", pair.target_path.join(&name));
        let from = slot(&pair.aside_path, &pair.aside, &name).tried(what)?;
        let to = slot(&pair.target_path, &pair.target, &name).tried(what)?;
        let Some(new) = from.stat()? else { return Err(fault(&what(), Errno::NOENT)) };
        let present = to.stat()?;
        if let Some(present) = &present {
            require_room(&to, &new, present)?;
        }
        match (&present, &mut *step) {
            (Some(_), _) if is_directory(&new) => {
                let aside = open_directory(&from.directory, &from.name).tried(what)?;
                let target = open_directory(&to.directory, &to.name).tried(what)?;
                within(pairs.len()).tried(|| format!("unpack {}", to.path))?;
                pairs.push(Pair::new((aside, from.path), (to.path, target))?);
            }
            (_, Step::Look) => {}
            (None, Step::Move(undo)) => {
                undo.moving(&from, &to)?;
                move_entry(&from, &to)?;
            }
            (Some(_), Step::Move(undo)) => {
                undo.replacing(&to)?;
                renameat(&from.directory, &from.name, &to.directory, &to.name).tried(what)?;
            }
        }
    }
    Ok(())
}

fn slot(path: &CellPath, directory: &OwnedFd, name: &OsString) -> std::io::Result<Slot> {
    Ok(Slot { path: path.join(name), directory: directory.try_clone()?, name: name.clone() })
}

/// A file or link takes the place of a file or link, and a directory is added to a directory.
fn require_room(to: &Slot, new: &Stat, present: &Stat) -> Result<()> {
    let conflict = |there: &str| {
        Err(Error::conflict(format!("cannot unpack {}: {there} is there", to.path))
            .hint("delete or move it first, or unpack elsewhere"))
    };
    match FileType::from_raw_mode(present.st_mode) {
        FileType::Directory if is_directory(new) => Ok(()),
        FileType::Directory => conflict("a directory"),
        FileType::RegularFile | FileType::Symlink if !is_directory(new) => Ok(()),
        FileType::RegularFile => conflict("a file"),
        FileType::Symlink => conflict("a link"),
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => conflict("a pipe, socket or device"),
    }
}

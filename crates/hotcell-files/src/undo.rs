//! What makes several changes one: each is written down before it is made, and what it would
//! destroy is kept aside until all are made.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use hotcell_model::{Error, ErrorCode, Result};
use rustix::fs::{AtFlags, RenameFlags, linkat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::fault::{Tried, fault};
use crate::kinds::{is_directory, is_link};
use crate::path::CellPath;
use crate::removal::{remove_tree, unprotect};
use crate::staged::hidden_name;
use crate::tree::{Links, Parents, Slot, Tree};

/// Told before each change.
pub(crate) trait Undo {
    /// Something new is about to be there.
    fn creating(&mut self, slot: &Slot, inode: Option<u64>) -> Result<()>;

    /// A file is about to be replaced by another.
    fn replacing(&mut self, slot: &Slot) -> Result<()>;

    /// Something is about to be removed; whether it was moved aside instead.
    fn removing(&mut self, slot: &Slot) -> Result<bool>;

    /// Something is about to be moved to where nothing is.
    fn moving(&mut self, from: &Slot, to: &Slot) -> Result<()>;
}

/// For a change that stands alone: it is made in one step, and there is nothing to undo.
#[derive(Debug)]
pub(crate) struct NoUndo;

impl Undo for NoUndo {
    fn creating(&mut self, _slot: &Slot, _inode: Option<u64>) -> Result<()> {
        Ok(())
    }

    fn replacing(&mut self, _slot: &Slot) -> Result<()> {
        Ok(())
    }

    fn removing(&mut self, _slot: &Slot) -> Result<bool> {
        Ok(false)
    }

    fn moving(&mut self, _from: &Slot, _to: &Slot) -> Result<()> {
        Ok(())
    }
}

/// For a file that is written in one step: the directories that were made for it.
#[derive(Debug, Default)]
pub(crate) struct MadeParents(Vec<(OwnedFd, OsString)>);

impl MadeParents {
    /// Removes those in which nothing is.
    pub(crate) fn take_back(self) {
        for (directory, name) in self.0.iter().rev() {
            // In use, or gone.
            let _ = unlinkat(directory, name, AtFlags::REMOVEDIR);
        }
    }
}

impl Undo for MadeParents {
    fn creating(&mut self, slot: &Slot, inode: Option<u64>) -> Result<()> {
        if inode.is_none() {
            let directory = slot.directory.try_clone().tried(|| format!("make {}", slot.path))?;
            self.0.push((directory, slot.name.clone()));
        }
        Ok(())
    }

    fn replacing(&mut self, _slot: &Slot) -> Result<()> {
        Ok(())
    }

    fn removing(&mut self, _slot: &Slot) -> Result<bool> {
        Ok(false)
    }

    fn moving(&mut self, _from: &Slot, _to: &Slot) -> Result<()> {
        Ok(())
    }
}

/// A path with every byte of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum RawPath {
    Text(String),
    Bytes(Vec<u8>),
}

impl RawPath {
    fn of(path: &CellPath) -> Self {
        let path = path.as_path().as_os_str();
        path.to_str().map_or_else(
            || Self::Bytes(path.as_bytes().to_vec()),
            |text| Self::Text(text.to_owned()),
        )
    }

    fn to_path(&self) -> CellPath {
        match self {
            Self::Text(text) => CellPath::lexical(text.as_ref()),
            Self::Bytes(bytes) => CellPath::lexical(OsStr::from_bytes(bytes).as_ref()),
        }
    }
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// Something new at `path`: a file of this inode, a link or a directory.
    Create { path: RawPath, inode: Option<u64> },
    /// What is at `path` is also, or only, kept beside it under `name`.
    Keep { path: RawPath, name: Vec<u8> },
    /// What is at `from` goes to `to`.
    Move { from: RawPath, to: RawPath },
    /// All changes were made.
    Done,
}

/// The log of the changes that belong together.
#[derive(Debug)]
pub(crate) struct UndoLog<'a> {
    tree: &'a Tree,
    file: &'a mut File,
    lines: Vec<Line>,
    is_open: bool,
    #[cfg(test)]
    pub(crate) crash: crate::crash::Crash,
}

impl<'a> UndoLog<'a> {
    /// An empty log in a file that is kept for it.
    pub(crate) fn begin(tree: &'a Tree, file: &'a mut File) -> Result<Self> {
        clear(file)?;
        Ok(Self {
            tree,
            file,
            lines: Vec::new(),
            is_open: true,
            #[cfg(test)]
            crash: crate::crash::Crash::take(),
        })
    }

    /// Makes the changes final.
    pub(crate) fn commit(mut self) -> Result<()> {
        self.write(Line::Done)?;
        #[cfg(test)]
        self.crash.step()?;
        self.is_open = false;
        finish(self.tree, &self.lines);
        clear(self.file)
    }

    /// Undoes all changes; those that cannot be are named.
    pub(crate) fn roll_back(mut self) -> Result<()> {
        self.undo_all()
    }

    fn undo_all(&mut self) -> Result<()> {
        self.is_open = false;
        #[cfg(test)]
        self.crash.require_alive()?;
        undo(self.tree, &self.lines)?;
        clear(self.file)
    }

    fn write(&mut self, line: Line) -> Result<()> {
        #[cfg(test)]
        self.crash.step()?;
        let mut text = serde_json::to_vec(&line)
            .map_err(|error| Error::internal(format!("cannot write the undo log: {error}")))?;
        text.push(b'\n');
        self.file.write_all(&text).tried(|| "write the undo log".to_owned())?;
        self.lines.push(line);
        #[cfg(test)]
        self.crash.step()?;
        Ok(())
    }

    fn keep_name(&mut self, slot: &Slot) -> Result<OsString> {
        let name = hidden_name("kept");
        let kept = Line::Keep { path: RawPath::of(&slot.path), name: name.clone().into_vec() };
        self.write(kept)?;
        Ok(name)
    }
}

/// Changes that broke off are undone.
impl Drop for UndoLog<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // What cannot be undone now cannot be told to anybody.
            let _ = self.undo_all();
        }
    }
}

impl Undo for UndoLog<'_> {
    fn creating(&mut self, slot: &Slot, inode: Option<u64>) -> Result<()> {
        self.write(Line::Create { path: RawPath::of(&slot.path), inode })
    }

    fn replacing(&mut self, slot: &Slot) -> Result<()> {
        let name = self.keep_name(slot)?;
        linkat(&slot.directory, &slot.name, &slot.directory, &name, AtFlags::empty())
            .tried(|| format!("keep {} until all is done", slot.path))?;
        #[cfg(test)]
        self.crash.step()?;
        Ok(())
    }

    fn removing(&mut self, slot: &Slot) -> Result<bool> {
        let name = self.keep_name(slot)?;
        move_entry(slot, &kept_slot(slot, name)?)?;
        #[cfg(test)]
        self.crash.step()?;
        Ok(true)
    }

    fn moving(&mut self, from: &Slot, to: &Slot) -> Result<()> {
        self.write(Line::Move { from: RawPath::of(&from.path), to: RawPath::of(&to.path) })
    }
}

/// Brings what a process left that died in the middle to one of its two ends.
pub(crate) fn recover(tree: &Tree, file: &mut File) -> Result<()> {
    file.rewind().tried(|| "read the undo log".to_owned())?;
    let mut lines = Vec::new();
    for text in BufReader::new(&*file).lines() {
        // The last line may have been cut off; what it tells of was not begun.
        let Some(line) = text.ok().and_then(|text| serde_json::from_str(&text).ok()) else { break };
        lines.push(line);
    }
    match lines.last() {
        None => {}
        Some(Line::Done) => finish(tree, &lines),
        Some(_) => undo(tree, &lines).or_else(may_be_left)?,
    }
    clear(file)
}

/// What fails for good must not keep the cell's files from being served.
fn may_be_left(error: Error) -> Result<()> {
    match error.code {
        ErrorCode::Invalid | ErrorCode::NotFound | ErrorCode::Conflict | ErrorCode::Denied => {
            Ok(())
        }
        ErrorCode::LimitExceeded
        | ErrorCode::Timeout
        | ErrorCode::Cancelled
        | ErrorCode::Unsupported
        | ErrorCode::Unavailable
        | ErrorCode::Internal => Err(error),
    }
}

/// Removes what was kept aside.
fn finish(tree: &Tree, lines: &[Line]) {
    for (path, names) in kept_in(lines) {
        // What cannot be found any more need not be removed.
        let path = CellPath::lexical(&path);
        let Ok(directory) = tree.writable_directory(&path) else { continue };
        for name in names {
            if let Ok(directory) = directory.try_clone() {
                let _ = remove_tree(&Slot { path: path.join(&name), directory, name });
            }
        }
    }
}

/// What was kept aside, by the directory in which it lies after all moves.
fn kept_in(lines: &[Line]) -> BTreeMap<PathBuf, Vec<OsString>> {
    let mut kept: BTreeMap<PathBuf, Vec<OsString>> = BTreeMap::new();
    for line in lines {
        match line {
            Line::Keep { path, name } => {
                if let Some((directory, _)) = path.to_path().split() {
                    let names = kept.entry(directory.as_path().to_owned()).or_default();
                    names.push(OsString::from_vec(name.clone()));
                }
            }
            Line::Move { from, to } => {
                let (from, to) = (from.to_path(), to.to_path());
                let from = from.as_path().to_owned();
                let inside = kept.range(from.clone()..).map(|(path, _)| path);
                let inside = inside.take_while(|path| path.starts_with(&from)).cloned();
                for path in inside.collect::<Vec<_>>() {
                    let below = path.strip_prefix(&from).unwrap_or(Path::new(""));
                    let moved = CellPath::lexical(&to.as_path().join(below));
                    let names = kept.remove(&path).unwrap_or_default();
                    kept.entry(moved.as_path().to_owned()).or_default().extend(names);
                }
            }
            Line::Create { .. } | Line::Done => {}
        }
    }
    kept
}

/// Undoes changes, the last one first.
fn undo(tree: &Tree, lines: &[Line]) -> Result<()> {
    let mut failed = None;
    for line in lines.iter().rev() {
        if let Err(error) = undo_line(tree, line) {
            failed.get_or_insert(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

fn undo_line(tree: &Tree, line: &Line) -> Result<()> {
    let find = |path: &RawPath| match tree.slot(&path.to_path(), Parents::Expected, Links::Kept) {
        Ok(slot) => Ok(Some(slot)),
        Err(error) if error.code == hotcell_model::ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    match line {
        Line::Create { path, inode } => {
            let Some(slot) = find(path)? else { return Ok(()) };
            match (slot.stat()?, inode) {
                (Some(stat), Some(inode)) if stat.st_ino == *inode => unlink(&slot),
                (Some(stat), None) if is_link(&stat) => unlink(&slot),
                // A directory into which another has put something meanwhile stays.
                (Some(stat), None) if is_directory(&stat) => remove_empty(&slot),
                // Another has put something of its own there meanwhile.
                (Some(_), _) | (None, _) => Ok(()),
            }
        }
        Line::Keep { path, name } => {
            let Some(slot) = find(path)? else { return Ok(()) };
            let kept = kept_slot(&slot, OsString::from_vec(name.clone()))?;
            match (kept.stat()?, slot.stat()?) {
                (None, _) => Ok(()),
                (Some(_), None) => move_entry(&kept, &slot),
                (Some(old), Some(new)) if old.st_ino == new.st_ino => unlink(&kept),
                (Some(old), Some(new)) => {
                    if is_directory(&old) || is_directory(&new) {
                        remove_tree(&slot)?;
                        return move_entry(&kept, &slot);
                    }
                    renameat(&kept.directory, &kept.name, &slot.directory, &slot.name)
                        .tried(|| format!("restore {}", slot.path))
                }
            }
        }
        Line::Move { from, to } => match (find(from)?, find(to)?) {
            (Some(from), Some(to)) if from.stat()?.is_none() && to.stat()?.is_some() => {
                move_entry(&to, &from)
            }
            (_, _) => Ok(()),
        },
        Line::Done => Ok(()),
    }
}

fn kept_slot(slot: &Slot, name: OsString) -> Result<Slot> {
    let directory = slot.directory.try_clone().tried(|| format!("keep {}", slot.path))?;
    let parent = slot.path.split().map_or_else(|| slot.path.clone(), |(parent, _)| parent);
    Ok(Slot { path: parent.join(&name), directory, name })
}

/// Moves something to where nothing is, within one file system.
pub(crate) fn move_entry(from: &Slot, to: &Slot) -> Result<()> {
    let what = || format!("move {} to {}", from.path, to.path);
    let moved =
        renameat_with(&from.directory, &from.name, &to.directory, &to.name, RenameFlags::NOREPLACE);
    match moved {
        // A directory of a layer below cannot be renamed; what is in it can be moved.
        Err(Errno::XDEV) => crate::removal::move_tree(from, to),
        Err(Errno::INVAL) => {
            renameat(&from.directory, &from.name, &to.directory, &to.name).tried(what)
        }
        other => other.tried(what),
    }
}

fn clear(file: &mut File) -> Result<()> {
    let what = || "clear the undo log".to_owned();
    file.set_len(0).tried(what)?;
    file.rewind().tried(what)
}

fn unlink(slot: &Slot) -> Result<()> {
    remove_one(slot, AtFlags::empty()).tried(|| format!("delete {}", slot.path))
}

/// What was made in a directory can be removed again, even if the directory was made read-only.
fn remove_one(slot: &Slot, flags: AtFlags) -> rustix::io::Result<()> {
    match unlinkat(&slot.directory, &slot.name, flags) {
        Err(Errno::ACCESS) if unprotect(&slot.directory) => {
            unlinkat(&slot.directory, &slot.name, flags)
        }
        other => other,
    }
}

fn remove_empty(slot: &Slot) -> Result<()> {
    match remove_one(slot, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOTEMPTY) => Ok(()),
        Err(errno) => Err(fault(&format!("delete {}", slot.path), errno)),
    }
}

//! What makes several changes one: each is written down before it is made, and what it would
//! destroy is kept aside until all are made.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use hotcell_model::{Error, Result};
use rustix::fs::{AtFlags, FileType, RenameFlags, Stat, linkat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::fault::{Tried, fault};
use crate::path::CellPath;
use crate::removal::remove_tree;
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

/// A path with every byte of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RawPath(Vec<u8>);

impl RawPath {
    fn of(path: &CellPath) -> Self {
        Self(path.as_path().as_os_str().as_bytes().to_vec())
    }

    fn to_path(&self) -> CellPath {
        CellPath::lexical(OsStr::from_bytes(&self.0).as_ref())
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
}

impl<'a> UndoLog<'a> {
    /// An empty log in a file that is kept for it.
    pub(crate) fn begin(tree: &'a Tree, file: &'a mut File) -> Result<Self> {
        clear(file)?;
        Ok(Self { tree, file, lines: Vec::new() })
    }

    /// Makes the changes final.
    pub(crate) fn commit(mut self) -> Result<()> {
        self.write(Line::Done)?;
        finish(self.tree, &self.lines);
        clear(self.file)
    }

    /// Undoes all changes; those that cannot be are named.
    pub(crate) fn roll_back(self) -> Result<()> {
        undo(self.tree, &self.lines)?;
        clear(self.file)
    }

    fn write(&mut self, line: Line) -> Result<()> {
        let mut text = serde_json::to_vec(&line)
            .map_err(|error| Error::internal(format!("cannot write the undo log: {error}")))?;
        text.push(b'\n');
        self.file.write_all(&text).tried(|| "write the undo log".to_owned())?;
        self.lines.push(line);
        Ok(())
    }

    fn keep_name(&mut self, slot: &Slot) -> Result<OsString> {
        let name = hidden_name("kept");
        let kept = Line::Keep { path: RawPath::of(&slot.path), name: name.clone().into_vec() };
        self.write(kept)?;
        Ok(name)
    }
}

impl Undo for UndoLog<'_> {
    fn creating(&mut self, slot: &Slot, inode: Option<u64>) -> Result<()> {
        self.write(Line::Create { path: RawPath::of(&slot.path), inode })
    }

    fn replacing(&mut self, slot: &Slot) -> Result<()> {
        let name = self.keep_name(slot)?;
        linkat(&slot.directory, &slot.name, &slot.directory, &name, AtFlags::empty())
            .tried(|| format!("keep {} until all is done", slot.path))
    }

    fn removing(&mut self, slot: &Slot) -> Result<bool> {
        let name = self.keep_name(slot)?;
        move_entry(slot, &kept_slot(slot, name)?)?;
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
        Some(_) => undo(tree, &lines)?,
    }
    clear(file)
}

/// Removes what was kept aside.
fn finish(tree: &Tree, lines: &[Line]) {
    for line in lines {
        if let Line::Keep { path, name } = line {
            // What cannot be found any more need not be removed.
            let Ok(slot) = tree.slot(&path.to_path(), Parents::Expected, Links::Kept) else {
                continue;
            };
            if let Ok(kept) = kept_slot(&slot, OsString::from_vec(name.clone())) {
                let _ = remove_tree(&kept);
            }
        }
    }
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
    unlinkat(&slot.directory, &slot.name, AtFlags::empty())
        .tried(|| format!("delete {}", slot.path))
}

fn remove_empty(slot: &Slot) -> Result<()> {
    match unlinkat(&slot.directory, &slot.name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOTEMPTY) => Ok(()),
        Err(errno) => Err(fault(&format!("delete {}", slot.path), errno)),
    }
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

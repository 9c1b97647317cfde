//! Deleting, moving, copying, and making directories.

use hotcell_model::{
    Error, FileDelete, FileDeleted, FileMakeDirectory, FileMove, FilePlaced, Result,
};
use rustix::fs::{AtFlags, Mode, Stat, fstat, mkdirat, unlinkat};
use rustix::io::Errno;

use crate::copying::copy_tree;
use crate::etag::{etag_of, require};
use crate::fault::{Tried, fault};
use crate::kinds::{is_directory, is_file};
use crate::path::CellPath;
use crate::removal::{names, open_directory, remove_tree};
use crate::staged::is_ours;
use crate::tree::{Links, Parents, Slot, Tree};
use crate::undo::{Undo, move_entry};

/// Removes a file or a directory; a link itself and never what it leads to.
pub(crate) fn delete(
    tree: &Tree,
    request: &FileDelete,
    undo: &mut dyn Undo,
) -> Result<FileDeleted> {
    let path = CellPath::parse(&request.path)?;
    let what = || format!("delete {path}");
    tree.refuse_root(&path, "deleted")?;
    let slot = tree.slot(&path, Parents::Expected, Links::Kept)?;
    let found = slot.stat()?.ok_or(Errno::NOENT).tried(what)?;
    require(&path, &request.precondition, Some(&etag_of(&found)))?;
    if is_directory(&found) && !request.recursive {
        let directory = open_directory(&slot.directory, &slot.name).tried(what)?;
        if names(&directory).tried(what)?.iter().any(|(name, _)| !is_ours(name)) {
            return Err(fault(&what(), Errno::NOTEMPTY));
        }
    }
    let removed = if undo.removing(&slot)? {
        1
    } else if is_directory(&found) && !request.recursive {
        unlinkat(&slot.directory, &slot.name, AtFlags::REMOVEDIR).tried(what)?;
        1
    } else {
        remove_tree(&slot)?
    };
    Ok(FileDeleted { path: path.to_string(), removed })
}

/// Makes a directory, or leaves one that is there.
pub(crate) fn make_directory(
    tree: &Tree,
    request: &FileMakeDirectory,
    undo: &mut dyn Undo,
) -> Result<FilePlaced> {
    let path = CellPath::parse(&request.path)?;
    let placed = FilePlaced { path: path.to_string(), etag: None };
    if tree.is_root(&path) {
        return Ok(placed);
    }
    if request.create_parents
        && let Some((parent, _)) = path.split()
    {
        make_parents(tree, &parent, undo)?;
    }
    let slot = tree.slot(&path, Parents::Expected, Links::Followed)?;
    match slot.stat()? {
        Some(found) if is_directory(&found) => {}
        Some(_) => return Err(fault(&format!("make the directory {path}"), Errno::EXIST)),
        None => make_one(&slot, undo)?,
    }
    Ok(placed)
}

/// Makes the directories that are missing above something that is to be made.
pub(crate) fn make_parents(tree: &Tree, path: &CellPath, undo: &mut dyn Undo) -> Result<()> {
    let mut missing = Vec::new();
    let mut at = path.clone();
    while let Err(Errno::NOENT) = tree.writable_directory(&at) {
        let Some((parent, _)) = at.split() else { break };
        missing.push(std::mem::replace(&mut at, parent));
    }
    for path in missing.iter().rev() {
        let slot = tree.slot(path, Parents::Expected, Links::Kept)?;
        if slot.stat()?.is_none() {
            make_one(&slot, undo)?;
        }
    }
    Ok(())
}

pub(crate) fn make_one(slot: &Slot, undo: &mut dyn Undo) -> Result<()> {
    undo.creating(slot, None)?;
    match mkdirat(&slot.directory, &slot.name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(fault(&format!("make the directory {}", slot.path), errno)),
    }
}

/// Where something comes from and goes to.
struct Way {
    from: Slot,
    found: Stat,
    to: Slot,
}

impl Way {
    fn of(tree: &Tree, request: &FileMove, change: &str, undo: &mut dyn Undo) -> Result<Self> {
        let (from, to) = (CellPath::parse(&request.from)?, CellPath::parse(&request.to)?);
        let what = || format!("{change} {from} to {to}");
        tree.refuse_root(&from, "moved or copied")?;
        tree.refuse_root(&to, "replaced")?;
        if to.below(from.as_path()).is_some() {
            return Err(inside_itself(&what()));
        }
        let from = tree.slot(&from, Parents::Expected, Links::Kept)?;
        let found = from.stat()?.ok_or(Errno::NOENT).tried(what)?;
        require(&from.path, &request.precondition, Some(&etag_of(&found)))?;
        if let Some((parent, _)) = to.split() {
            make_parents(tree, &parent, undo)?;
        }
        let to = tree.slot(&to, Parents::Expected, Links::Kept)?;
        let real = |slot: &Slot| tree.path_of(&slot.directory).map(|real| real.join(&slot.name));
        let (real_from, real_to) = (real(&from).tried(what)?, real(&to).tried(what)?);
        if real_to.below(real_from.as_path()).is_some() {
            return Err(inside_itself(&what()));
        }
        if let Some(there) = to.stat()? {
            if !request.overwrite {
                return Err(fault(&what(), Errno::EXIST));
            }
            if is_directory(&there) {
                return Err(fault(&what(), Errno::ISDIR));
            }
            // Only a file can take the place of a file.
            if is_directory(&found) {
                return Err(fault(&what(), Errno::EXIST));
            }
        }
        Ok(Self { from, found, to })
    }
}

/// Moves a file or a directory.
pub(crate) fn move_to(tree: &Tree, request: &FileMove, undo: &mut dyn Undo) -> Result<FilePlaced> {
    let Way { from, found, to } = Way::of(tree, request, "move", undo)?;
    let what = || format!("move {} to {}", from.path, to.path);
    let device = |slot: &Slot| fstat(&slot.directory).map(|stat| stat.st_dev).tried(what);
    if device(&from)? != device(&to)? {
        copy_tree(&from, &found, &to, undo)?;
        if !undo.removing(&from)? {
            remove_tree(&from)?;
        }
        return placed(&to);
    }
    if to.stat()?.is_some() {
        undo.replacing(&to)?;
        undo.moving(&from, &to)?;
        rustix::fs::renameat(&from.directory, &from.name, &to.directory, &to.name).tried(what)?;
        return placed(&to);
    }
    undo.moving(&from, &to)?;
    move_entry(&from, &to)?;
    placed(&to)
}

/// Copies a file or a directory; links are copied as links.
pub(crate) fn copy_to(tree: &Tree, request: &FileMove, undo: &mut dyn Undo) -> Result<FilePlaced> {
    let Way { from, found, to } = Way::of(tree, request, "copy", undo)?;
    copy_tree(&from, &found, &to, undo)?;
    placed(&to)
}

fn placed(slot: &Slot) -> Result<FilePlaced> {
    let etag = match slot.stat()? {
        Some(stat) if is_file(&stat) => Some(etag_of(&stat)),
        Some(_) | None => None,
    };
    Ok(FilePlaced { path: slot.path.to_string(), etag })
}

fn inside_itself(what: &str) -> Error {
    Error::invalid(format!("cannot {what}: it lies inside of itself")).hint("choose a path outside")
}

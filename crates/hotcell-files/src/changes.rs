//! Deleting, moving, copying, and making directories.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;

use hotcell_model::{
    Error, FileDelete, FileDeleted, FileMakeDirectory, FileMove, FilePlaced, Precondition, Result,
};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::etag::{etag_of, require};
use crate::fault::{Tried, fault};
use crate::path::CellPath;
use crate::removal::{names, open_directory, remove_tree, within};
use crate::staged::{Staged, is_ours};
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
    refuse_root(tree, &path, "deleted")?;
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

fn make_one(slot: &Slot, undo: &mut dyn Undo) -> Result<()> {
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
        refuse_root(tree, &from, "moved or copied")?;
        refuse_root(tree, &to, "replaced")?;
        if to.below(from.as_path()).is_some() {
            return Err(inside_itself(&what()));
        }
        let from = tree.slot(&from, Parents::Expected, Links::Kept)?;
        let found = from.stat()?.ok_or(Errno::NOENT).tried(what)?;
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
        copy_entry(&from, &found, &to, undo, 0)?;
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
    copy_entry(&from, &found, &to, undo, 0)?;
    placed(&to)
}

fn placed(slot: &Slot) -> Result<FilePlaced> {
    let etag = match slot.stat()? {
        Some(stat) if is_file(&stat) => Some(etag_of(&stat)),
        Some(_) | None => None,
    };
    Ok(FilePlaced { path: slot.path.to_string(), etag })
}

fn copy_entry(
    from: &Slot,
    found: &Stat,
    to: &Slot,
    undo: &mut dyn Undo,
    depth: usize,
) -> Result<()> {
    let what = || format!("copy {} to {}", from.path, to.path);
    within(depth).tried(what)?;
    if is_file(found) {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&from.directory, &from.name, flags, Mode::empty()).tried(what)?;
        let stat = fstat(&file).tried(what)?;
        if !is_file(&stat) {
            return Err(fault(&what(), Errno::AGAIN));
        }
        let mut staged = Staged::new(to)?;
        staged.copy_from(&File::from(file)).tried(what)?;
        staged.place(to, Some(stat.st_mode & 0o777), &Precondition::default(), undo)?;
        return Ok(());
    }
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => {
            let source = open_directory(&from.directory, &from.name).tried(what)?;
            make_one(to, undo)?;
            let target = open_directory(&to.directory, &to.name).tried(what)?;
            let inside = names(&source).tried(what)?.into_iter().map(|(name, _)| name);
            for name in inside.filter(|name| !is_ours(name)) {
                let below = |slot: &Slot, directory: &std::os::fd::OwnedFd| {
                    let directory = directory.try_clone().tried(what)?;
                    Ok::<_, Error>(Slot {
                        path: slot.path.join(&name),
                        directory,
                        name: name.clone(),
                    })
                };
                let (from, to) = (below(from, &source)?, below(to, &target)?);
                if let Some(found) = from.stat()? {
                    copy_entry(&from, &found, &to, undo, depth + 1)?;
                }
            }
            let mode = Mode::from_raw_mode(found.st_mode & 0o777);
            rustix::fs::fchmod(&target, mode).tried(what)
        }
        FileType::Symlink => {
            let link =
                rustix::fs::readlinkat(&from.directory, &from.name, Vec::new()).tried(what)?;
            let replaced = to.stat()?.is_some();
            if replaced && !undo.removing(to)? {
                remove_tree(to)?;
            }
            undo.creating(to, None)?;
            let target = std::ffi::OsStr::from_bytes(link.as_bytes());
            symlinkat(target, &to.directory, &to.name).tried(what)
        }
        FileType::RegularFile
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => {
            Err(Error::conflict(format!("cannot {}: it is no regular file", what()))
                .hint("pipes, sockets and devices can only be made by commands"))
        }
    }
}

fn inside_itself(what: &str) -> Error {
    Error::invalid(format!("cannot {what}: it lies inside of itself")).hint("choose a path outside")
}

fn refuse_root(tree: &Tree, path: &CellPath, done: &str) -> Result<()> {
    if tree.is_root(path) {
        return Err(
            Error::denied(format!("{path} itself cannot be {done}")).hint("name something in it")
        );
    }
    Ok(())
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

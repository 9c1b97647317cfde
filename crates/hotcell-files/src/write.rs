//! Writing whole files.

use std::io::{self, Read, Write};

use hotcell_link::DATA_BYTES;
use hotcell_model::{ErrorCode, FileWrite, FileWritten, Result};
use rustix::fs::fstat;

use crate::changes::make_parents;
use crate::fault::Tried;
use crate::path::CellPath;
use crate::staged::Staged;
use crate::tree::{Links, Parents, Slot, Tree};
use crate::undo::Undo;

/// Writes a file. Until all its content has come and is in place, what is there stays.
pub(crate) fn write(
    tree: &Tree,
    request: &FileWrite,
    content: &mut dyn Read,
    undo: &mut dyn Undo,
) -> Result<FileWritten> {
    stage(tree, request, content, undo)?.place(tree, request, undo)
}

/// How often directories are made again that others take back.
const ATTEMPTS: u32 = 10;

/// Content that has come, and where it is to go.
#[derive(Debug)]
pub(crate) struct Ready {
    slot: Slot,
    staged: Staged,
}

/// Takes all content in; the file itself is not touched yet.
pub(crate) fn stage(
    tree: &Tree,
    request: &FileWrite,
    content: &mut dyn Read,
    undo: &mut dyn Undo,
) -> Result<Ready> {
    let (slot, mut staged) = begin(tree, request, undo)?;
    copy(content, &mut staged).tried(|| format!("write {}", slot.path))?;
    Ok(Ready { slot, staged })
}

/// Where the file is to be, and where its content goes first. Directories that were made for another
/// file may be taken back meanwhile, and are made again.
fn begin(tree: &Tree, request: &FileWrite, undo: &mut dyn Undo) -> Result<(Slot, Staged)> {
    let mut once = || -> Result<(Slot, Staged)> {
        let slot = open_slot(tree, request, undo)?;
        let staged = Staged::new(&slot)?;
        Ok((slot, staged))
    };
    for _ in 1..ATTEMPTS {
        match once() {
            Err(error) if error.code == ErrorCode::NotFound && request.create_parents => {}
            begun => return begun,
        }
    }
    once()
}

/// Where the file is to be, with the directories above it if they are to be made.
fn open_slot(tree: &Tree, request: &FileWrite, undo: &mut dyn Undo) -> Result<Slot> {
    let path = CellPath::parse(&request.path)?;
    if request.create_parents
        && let Some((parent, _)) = path.split()
    {
        make_parents(tree, &parent, undo)?;
    }
    tree.slot(&path, Parents::Expected, Links::Followed)
}

/// Copies as much at once as comes at once.
fn copy(content: &mut dyn Read, staged: &mut Staged) -> io::Result<()> {
    let mut piece = vec![0; DATA_BYTES];
    loop {
        match content.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => staged.write_all(&piece[..length])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl Ready {
    /// Puts the content in place.
    pub(crate) fn place(
        mut self,
        tree: &Tree,
        request: &FileWrite,
        undo: &mut dyn Undo,
    ) -> Result<FileWritten> {
        let directory =
            fstat(&self.slot.directory).tried(|| format!("write {}", self.slot.path))?;
        // Whoever made it for another file may have taken it back.
        if directory.st_nlink == 0 && request.create_parents {
            self.slot = open_slot(tree, request, undo)?;
        }
        self.staged.place(&self.slot, request.mode, &request.precondition, undo)
    }
}

//! Writing whole files.

use std::io::{self, Read, Write};

use hotcell_link::DATA_BYTES;
use hotcell_model::{FileWrite, FileWritten, Result};
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
    let slot = open_slot(tree, request, undo)?;
    let mut staged = Staged::new(&slot)?;
    copy(content, &mut staged).tried(|| format!("write {}", slot.path))?;
    Ok(Ready { slot, staged })
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

//! Writing whole files.

use std::io::{self, Read, Write};

use hotcell_link::DATA_BYTES;
use hotcell_model::{FileWrite, FileWritten, Result};

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
    stage(tree, request, content, undo)?.place(request, undo)
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
    let path = CellPath::parse(&request.path)?;
    if request.create_parents
        && let Some((parent, _)) = path.split()
    {
        make_parents(tree, &parent, undo)?;
    }
    let slot = tree.slot(&path, Parents::Expected, Links::Followed)?;
    let mut staged = Staged::new(&slot)?;
    copy(content, &mut staged).tried(|| format!("write {path}"))?;
    Ok(Ready { slot, staged })
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
    pub(crate) fn place(self, request: &FileWrite, undo: &mut dyn Undo) -> Result<FileWritten> {
        self.staged.place(&self.slot, request.mode, &request.precondition, undo)
    }
}

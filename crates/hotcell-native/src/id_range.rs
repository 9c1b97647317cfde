//! Ranges of host ids, each given to one cell.

use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use hotcell_jail::ids::{IdLayout, RANGE};
use hotcell_model::CellId;

/// Above what distributions give to users, containers and services.
const FIRST: u32 = 0x7000_0000;
const RANGES: u32 = 0x8000;
const TRIES: u32 = 4096;
/// The range after the last one, which no cell ever has.
pub(crate) const BEYOND: u32 = FIRST + RANGES * RANGE;

/// Takes a range that no other cell of this state directory has, and as a rule none of another.
pub(crate) fn take(directory: &Path, cell: &CellId) -> io::Result<IdLayout> {
    std::fs::create_dir_all(directory)?;
    let mut random = [0; 4];
    for _ in 0..TRIES {
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let base = FIRST + (u32::from_le_bytes(random) % RANGES) * RANGE;
        let path = directory.join(base.to_string());
        // A link has its owner's name from the first moment on; a file would be empty at first.
        match symlink(cell.as_str(), path) {
            Ok(()) => return Ok(IdLayout::Private { base }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("all {RANGES} ranges of ids are taken")))
}

/// Gives a range back.
pub(crate) fn give_back(directory: &Path, ids: &IdLayout) -> io::Result<()> {
    let IdLayout::Private { base } = ids else { return Ok(()) };
    match std::fs::remove_file(directory.join(base.to_string())) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Gives back what was taken for a cell before it was written down which range that is.
pub(crate) fn give_back_of(directory: &Path, cell: &CellId) -> io::Result<()> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        // One that was given back meanwhile is nobody's.
        if std::fs::read_link(&path).is_ok_and(|owner| owner == Path::new(cell.as_str())) {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

//! The description of a cell (`cell.json`): what the cell is made of, which nothing else says.
//!
//! It is on disk before a cell that outlives the machine is acknowledged, and the version before it
//! stays beside it. That one may name layers which belong to a checkpoint by now, so no cell is ever
//! started from it: it tells whose the cell is, and which ids its files have.

use std::io;

use hotcell_model::{Error, Keep};
use hotcell_place::{
    has_previous, is_damage, read_json, read_previous, remove_if_there, remove_previous,
    save_json_keeping_previous, sync_directory_of, write_json,
};

use crate::order::Placed;
use crate::paths::CellPaths;

/// What is known of a cell.
#[derive(Debug)]
pub(crate) enum Description {
    /// All of it.
    Whole(Box<Placed>),
    /// Nothing: it was never made, or is gone.
    None,
    /// It is there and cannot be read.
    Unreadable {
        error: io::Error,
        /// The version before it.
        previous: Option<Box<Placed>>,
    },
}

impl CellPaths {
    /// The description of the cell; `None` if it was never made, or is gone.
    pub(crate) fn read_placed(&self) -> io::Result<Option<Placed>> {
        let path = self.placed();
        let read = read_json(&path).map_err(|error| {
            let what = if is_damage(&error) { "is damaged" } else { "cannot be read" };
            io::Error::new(error.kind(), format!("{} {what}: {error}", path.display()))
        })?;
        // A cell whose description was lost must not start again without its files.
        if read.is_none() && has_previous(&path)? {
            return Err(io::Error::other(format!("{} is missing", path.display())));
        }
        Ok(read)
    }

    /// The same, with what is known if it cannot be read.
    pub(crate) fn describe(&self) -> Description {
        match self.read_placed() {
            Ok(Some(placed)) => Description::Whole(Box::new(placed)),
            Ok(None) => Description::None,
            Err(error) => {
                let previous = read_previous(&self.placed()).ok().flatten();
                Description::Unreadable { error, previous }
            }
        }
    }

    /// Removes the description.
    pub(crate) fn remove_placed(&self) -> io::Result<()> {
        // In this order: a previous version alone would be that of a cell whose current one is lost.
        remove_previous(&self.placed())?;
        remove_if_there(&self.placed())
    }

    /// Replaces the description.
    pub(crate) fn save_placed(&self, placed: &Placed) -> io::Result<()> {
        match placed.spec.keep {
            Keep::Always | Keep::Ttl => {
                save_json_keeping_previous(&self.placed(), placed)?;
                // The cell's own directory may be new.
                sync_directory_of(self.root())
            }
            // After a power cut it has no holder, and ends.
            Keep::Holder | Keep::Server | Keep::Pool | Keep::Exec => {
                write_json(&self.placed(), placed)
            }
        }
    }
}

/// The error about a cell whose description cannot be read.
pub(crate) fn unreadable(paths: &CellPaths, error: &io::Error) -> Error {
    let cell = paths.name();
    Error::unavailable(format!("cannot use cell {cell}: {error}")).hint(format!(
        "restore the file from a backup, or remove the cell with `hotcell kill --force {cell}`"
    ))
}

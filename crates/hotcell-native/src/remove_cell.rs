//! Removing a cell that has no supervisor, with its files.

use std::io;

use hotcell_keeper::LockWait;
use hotcell_model::{CellId, Result};

use crate::description::{Description, unreadable};
use crate::driver::{Native, at};
use crate::image_store::ids_of_images;
use crate::order::{Outcome, Task};
use crate::removal::{remove_directory, remove_files};
use crate::{id_range, project};

impl Native {
    pub(crate) fn remove(&self, cell: &CellId) -> Result<()> {
        let paths = self.paths.cell(cell);
        let failed = |error: io::Error| at("remove", &paths, &error);
        if !paths.root().exists() {
            return Ok(());
        }
        let placed = paths.read_placed().map_err(|error| unreadable(&paths, &error))?;
        // The keeper of an ended supervisor removes the files; this waits for it, and does what it
        // did not.
        let lock = || match paths.kept().lock_keeper(LockWait::Wait) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            locked => locked.map_err(failed),
        };
        if lock()?.is_none() {
            return Ok(());
        }
        if placed.as_ref().is_some_and(|placed| placed.files(&paths).exists()) {
            match self.order(&paths, Task::Remove)? {
                Outcome::Done
                | Outcome::Ready(_)
                | Outcome::Probed(_)
                | Outcome::Unpacked(_)
                | Outcome::Compared { .. }
                | Outcome::Project(_) => {}
                Outcome::Failed(error) => return Err(error),
            }
        }
        // A keeper that still has the order to start it finds nothing to start.
        let Some(_lock) = lock()? else { return Ok(()) };
        let id_ranges = self.paths.id_ranges();
        match &placed {
            Some(placed) => id_range::give_back(&id_ranges, &placed.ids).map_err(failed)?,
            None => id_range::give_back_of(&id_ranges, cell).map_err(failed)?,
        }
        remove_directory(paths.root()).map_err(failed)
    }

    /// Removes a cell whose description cannot be read. Its layers are those that nobody names then.
    pub(crate) fn remove_unreadable(&self, cell: &CellId) -> Result<()> {
        let paths = self.paths.cell(cell);
        let failed = |error: io::Error| at("remove", &paths, &error);
        if !paths.root().exists() {
            return Ok(());
        }
        let (error, previous) = match paths.describe() {
            Description::Whole(_) | Description::None => return self.remove(cell),
            Description::Unreadable { error, previous } => (error, previous),
        };
        tracing::warn!(%cell, %error, "a cell is removed whose description cannot be read");
        let Some(_lock) = paths.kept().lock_keeper(LockWait::Wait).map_err(failed)? else {
            return Ok(());
        };
        let ids = match &previous {
            Some(placed) => {
                project::leave(&paths, placed);
                placed.ids
            }
            None => ids_of_images(),
        };
        // Files of the first format lie in the directory itself. The lock in it goes last.
        for path in [paths.files(), paths.checkpoints()] {
            remove_files(&path, &ids).map_err(|error| failed(io::Error::other(error)))?;
        }
        paths.remove_placed().map_err(failed)?;
        self.collect_unnamed()?;
        // Only now: another cell that has these ids must not find files of them.
        id_range::give_back_of(&self.paths.id_ranges(), cell).map_err(failed)?;
        remove_directory(paths.root()).map_err(failed)
    }
}

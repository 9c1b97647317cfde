//! Finds an exec by its id, and the truth about where it stands.

use hotcell_model::{CellId, Error, Exec, ExecId, ExecState, Result};

use crate::index::Liveness;
use crate::site::Site;

impl Site {
    /// An exec as it stands now. One that has no end in the journal counts as live only while its
    /// cell has a supervisor.
    pub(crate) async fn get_exec(&self, exec: &ExecId) -> Result<Exec> {
        let cell = self.get_cell_of(exec).await?;
        self.get_exec_in(&cell, exec).await
    }

    /// Like [`Site::get_exec`], for an exec whose cell is known.
    pub(crate) async fn get_exec_in(&self, cell: &CellId, exec: &ExecId) -> Result<Exec> {
        let Some(known) = self.find_exec_in(cell, exec).await? else {
            return Err(self.unwritten(cell, exec).await?);
        };
        if known.state == ExecState::Ended || self.liveness(cell).await? == Liveness::Presumed {
            return Ok(known);
        }
        self.end_lost(cell, std::slice::from_ref(&known)).await?;
        self.store.find_exec(exec).await?.ok_or_else(|| unknown(exec))
    }

    /// An exec as the journal of this cell has it, if it does.
    pub(crate) async fn find_exec_in(&self, cell: &CellId, exec: &ExecId) -> Result<Option<Exec>> {
        match self.sync(cell).await {
            Ok(()) => {}
            Err(error) => match self.store.find_exec(exec).await? {
                // What is in the index is true however unreadable the rest of the journal is.
                Some(known) if known.state == ExecState::Ended => return Ok(Some(known)),
                Some(_) | None => return Err(error),
            },
        }
        self.store.find_exec(exec).await
    }

    /// The cell of an exec.
    pub(crate) async fn get_cell_of(&self, exec: &ExecId) -> Result<CellId> {
        if let Some(cell) = self.recent.find_cell(exec) {
            return Ok(cell);
        }
        // It was looked for thoroughly before it was found to be its caller's.
        let found = self.store.find_exec(exec).await?.ok_or_else(|| unknown(exec))?;
        self.recent.insert(exec, &found.cell);
        Ok(found.cell)
    }

    /// Why an exec of this cell is in no journal.
    async fn unwritten(&self, cell: &CellId, exec: &ExecId) -> Result<Error> {
        Ok(match self.liveness(cell).await? {
            Liveness::Dead => unknown(exec),
            Liveness::Presumed => Error::unavailable(format!(
                "the journal of cell {cell} does not show exec {exec} yet"
            ))
            .hint("free space on the file system of the state directory, then try again"),
        })
    }
}

/// The error for an exec that does not exist or no longer does.
pub(crate) fn unknown(exec: &ExecId) -> Error {
    Error::not_found(format!("there is no exec {exec}")).hint(
        "list execs with `hotcell ps --all`; they are kept for a day after their cell is gone",
    )
}

/// The error for an action that needs a live exec.
pub(crate) fn has_ended(exec: &ExecId) -> Error {
    Error::conflict(format!("exec {exec} has ended"))
        .hint("read its output with `hotcell logs`, or run it again")
}

//! Removes what is left of a cell; its records stay for a while.

use hotcell_model::{CellLock, CellSpec, Result, StoredCell, Timestamp};

use crate::cell_standing::Standing;
use crate::site::Site;

/// What to do about a cell that somebody is at work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    /// Wait until it is free.
    Wait,
    /// Leave it for another time.
    Skip,
}

impl Site {
    /// Removes a cell that has no supervisor, under its lock. Idempotent: whoever dies in the
    /// middle leaves a cell that is found to be over again.
    pub(crate) async fn remove_cell(&self, spec: &CellSpec, _lock: &dyn CellLock) -> Result<()> {
        if let Err(error) = self.end_live(&spec.id).await {
            tracing::warn!(cell = %spec.id, %error, "the execs of a removed cell are not in the index");
        }
        self.note_network(&spec.id).await;
        self.driver(&spec.driver)?.remove(&spec.id).await?;
        self.store.end_cell(&spec.id, Timestamp::now()).await?;
        self.links.forget(&spec.id);
        Ok(())
    }

    /// Removes a cell that was found to be over; one whose files are kept has ended, no more.
    pub(crate) async fn remove_if_over(&self, cell: &StoredCell, busy: Busy) -> Result<()> {
        let id = &cell.spec.id;
        let lock = match busy {
            Busy::Wait => self.store.lock_cell(id).await?,
            Busy::Skip => match self.store.try_lock_cell(id).await? {
                Some(lock) => lock,
                None => return Ok(()),
            },
        };
        // It was looked at without the lock: somebody may have woken or ended it since.
        match self.store.find_cell(id).await? {
            Some(stored) if stored.ended_at.is_none() => match self.standing(&stored).await {
                Standing::Over => self.remove_cell(&stored.spec, &*lock).await,
                Standing::Kept(note) => self.settle_kept(id, note).await,
                Standing::Is(_) => Ok(()),
            },
            Some(_) | None => Ok(()),
        }
    }
}

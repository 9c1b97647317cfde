//! Checkpoints of a cell's files.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell_link::{Ask, Link, LinkError, SESSIONS, Stillness};
use hotcell_model::{
    CellId, CellLock, CellRef, Checkpoint, CheckpointCompare, CheckpointCreate, CheckpointDelete,
    CheckpointDiff, CheckpointId, CheckpointList, CheckpointMeans, CheckpointPurpose,
    CheckpointRestore, Checkpointer, Checkpoints, Driver, Error, ErrorCode, Result, StoredCell,
};

use crate::cell_find::no_cell;
use crate::links;
use crate::new_id::new_checkpoint_id;
use crate::site::Site;
use crate::view::View;

/// How often a question is asked again whose connection broke.
const ATTEMPTS: u32 = 5;
/// How long a cell that is held still for something else is waited for.
const HELD_WITHIN: Duration = Duration::from_secs(2);
const HELD_APART: Duration = Duration::from_millis(5);

/// Keeps the present state of a cell's files.
pub(crate) async fn checkpoint_create(
    site: &Site,
    request: CheckpointCreate,
    purpose: CheckpointPurpose,
) -> Result<Checkpoint> {
    let held = site.hold_for_checkpoint(&request.cell).await?;
    let made = held.checkpoint(site, purpose).await;
    held.release().await;
    made
}

/// Lists a cell's checkpoints.
pub(crate) async fn checkpoint_list(site: &Site, request: CheckpointList) -> Result<Checkpoints> {
    let cell = site.get_cell(&request.cell).await?;
    let checkpoints = site.checkpointer(&cell)?.list(&cell.spec.id).await?;
    Ok(Checkpoints { checkpoints })
}

/// Tells what changed since a checkpoint.
pub(crate) async fn checkpoint_compare(
    site: &Site,
    request: CheckpointCompare,
    view: &View,
) -> Result<CheckpointDiff> {
    let cell = site.get_cell(&request.cell).await?;
    let CheckpointCompare { checkpoint, limit, skip, patch_bytes, .. } = &request;
    let range = *skip..skip.saturating_add(*limit);
    let checkpointer = site.checkpointer(&cell)?;
    let compared = checkpointer.compare(&cell.spec.id, checkpoint, range, *patch_bytes).await;
    let mut diff = compared?;
    if let Some(patch) = &mut diff.patch {
        view.cover_changes(site, &cell.spec.id, &mut patch.text).await?;
    }
    Ok(diff)
}

/// Brings a cell's files back to a checkpoint.
pub(crate) async fn checkpoint_restore(
    site: &Site,
    request: CheckpointRestore,
) -> Result<Checkpoint> {
    let cell = site.get_cell(&request.cell).await?;
    let checkpoint = site.get_checkpoint(&cell, &request.checkpoint).await?;
    let running = if request.force { Running::Ended } else { Running::Conflict };
    let held = site.hold_still(&CellRef::Id(cell.spec.id.clone()), running).await;
    let held = held.map_err(|error| match error.code == ErrorCode::Conflict {
        true => error
            .hint("wait, cancel with `hotcell cancel`, or restore with force, which ends execs"),
        false => error,
    })?;
    let restored = site.checkpointer(&cell)?.restore(&cell.spec.id, &request.checkpoint).await;
    held.release().await;
    restored.map(|()| checkpoint)
}

/// Forgets a checkpoint.
pub(crate) async fn checkpoint_delete(
    site: &Site,
    request: CheckpointDelete,
) -> Result<Checkpoint> {
    let cell = site.get_cell(&request.cell).await?;
    let _lock = site.store.lock_cell(&cell.spec.id).await?;
    let checkpoint = site.get_checkpoint(&cell, &request.checkpoint).await?;
    site.checkpointer(&cell)?.delete(&cell.spec.id, &request.checkpoint).await?;
    Ok(checkpoint)
}

/// What becomes of execs that run in a cell that is to be held still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Running {
    /// They make it a conflict. Sessions of code that wait end.
    Conflict,
    /// They make it a conflict, and so do sessions of code that wait.
    Spared,
    /// They are frozen.
    Frozen,
    /// They are ended.
    Ended,
}

/// A cell that nobody else changes and in which nothing runs.
#[derive(Debug)]
pub(crate) struct HeldCell {
    pub(crate) cell: StoredCell,
    /// To its supervisor, if it has one.
    link: Option<Arc<Link>>,
    means: CheckpointMeans,
    _lock: Box<dyn CellLock>,
}

impl Site {
    /// Lets a cell be changed by nobody else, with nothing running in it. Whatever is begun in it
    /// meanwhile waits.
    pub(crate) async fn hold_still(&self, cell: &CellRef, running: Running) -> Result<HeldCell> {
        let id = self.get_cell(cell).await?.spec.id;
        let lock = self.store.lock_cell(&id).await?;
        let cell = match self.store.find_cell(&id).await? {
            Some(stored) if stored.ended_at.is_none() => stored,
            Some(_) | None => return Err(no_cell(&CellRef::Id(id))),
        };
        self.checkpointer(&cell)?;
        let link = match running {
            Running::Conflict => self.pause(&cell, Stillness::Empty).await?,
            Running::Spared => self.pause(&cell, Stillness::Vacant).await?,
            Running::Frozen => self.pause(&cell, Stillness::Frozen).await?,
            Running::Ended => {
                // It wakes at the next use; nothing that runs is to see its files change.
                self.driver(&cell.spec.driver)?.stop(&id).await?;
                None
            }
        };
        let means = match (running, &link) {
            (Running::Frozen, Some(_)) => CheckpointMeans::Copied,
            (_, _) => CheckpointMeans::Stacked,
        };
        Ok(HeldCell { cell, link, means, _lock: lock })
    }

    /// The same, with whatever runs frozen.
    pub(crate) async fn hold_for_checkpoint(&self, cell: &CellRef) -> Result<HeldCell> {
        match self.hold_still(cell, Running::Spared).await {
            Err(error) if error.code == ErrorCode::Conflict => {
                self.hold_still(cell, Running::Frozen).await
            }
            held => held,
        }
    }

    /// The link by which a cell was told to hold still; `None` when it has no supervisor.
    async fn pause(&self, cell: &StoredCell, stillness: Stillness) -> Result<Option<Arc<Link>>> {
        let held_until = Instant::now() + HELD_WITHIN;
        let mut attempts = 0;
        while attempts < ATTEMPTS {
            let Some(link) = self.find_link(&cell.spec).await? else { return Ok(None) };
            let stillness = match stillness {
                Stillness::Vacant if !link.can(SESSIONS) => Stillness::Empty,
                known @ (Stillness::Vacant | Stillness::Empty | Stillness::Frozen) => known,
            };
            match links::ask(&link, &cell.spec.id, &Ask::Pause(stillness)).await {
                Ok(_) => return Ok(Some(link)),
                // One that is just ending is soon not there.
                Err(LinkError::Lost) => attempts += 1,
                // Its layers are being exchanged, which takes milliseconds.
                Err(LinkError::Failed(error))
                    if error.code == ErrorCode::Unavailable && Instant::now() < held_until =>
                {
                    tokio::time::sleep(HELD_APART).await;
                }
                Err(error) => {
                    // It may hold still later than it was waited for.
                    let _ = links::ask(&link, &cell.spec.id, &Ask::Resume).await;
                    return Err(error.into());
                }
            }
        }
        Err(LinkError::Lost.into())
    }

    /// What keeps states of a cell's files.
    pub(crate) fn checkpointer(&self, cell: &StoredCell) -> Result<&dyn Checkpointer> {
        let driver: &dyn Driver = &**self.driver(&cell.spec.driver)?;
        driver.checkpointer().ok_or_else(|| {
            Error::unsupported(format!("the driver {} keeps no checkpoints", driver.name()))
                .hint("use a cell of the native driver")
        })
    }

    pub(crate) async fn get_checkpoint(
        &self,
        cell: &StoredCell,
        id: &CheckpointId,
    ) -> Result<Checkpoint> {
        self.checkpointer(cell)?.find(&cell.spec.id, id).await?.ok_or_else(|| {
            Error::not_found(format!("cell {} has no checkpoint {id}", cell.spec.id))
                .hint("list them with `hotcell checkpoint list`")
        })
    }
}

impl HeldCell {
    pub(crate) fn id(&self) -> &CellId {
        &self.cell.spec.id
    }

    /// Keeps the present state.
    pub(crate) async fn checkpoint(
        &self,
        site: &Site,
        purpose: CheckpointPurpose,
    ) -> Result<Checkpoint> {
        let id = new_checkpoint_id()?;
        site.checkpointer(&self.cell)?.create(self.id(), &id, self.means, purpose).await
    }

    /// Lets the cell go on. One that cannot be told falls asleep, and wakes at the next use.
    pub(crate) async fn release(self) {
        if let Some(link) = &self.link
            && let Err(error) = links::ask(link, self.id(), &Ask::Resume).await
        {
            tracing::debug!(cell = %self.id(), %error, "a cell that was held still is gone");
        }
    }
}

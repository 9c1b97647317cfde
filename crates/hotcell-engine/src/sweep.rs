//! Clears away what cells left that are over. Whoever comes by does it: nothing else runs.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hotcell_model::{CellId, Result, StoredCell, Tenants, Timestamp};

use crate::cell_remove::Busy;
use crate::cell_standing::Standing;
use crate::site::Site;

/// How many cells are looked at, and as many cleared away, before it is the next one's turn.
const AT_ONCE: usize = 256;

impl Site {
    /// Clears away what is over. Its faults are logged: they are nobody's who asked for something
    /// else.
    pub(crate) async fn sweep(&self) {
        self.rebuild_once().await;
        if let Err(error) = self.sweep_cells().await {
            tracing::warn!(%error, "cells that are over could not be looked for");
        }
        if let Err(error) = self.sweep_directories().await {
            tracing::warn!(%error, "records without a cell could not be looked for");
        }
    }

    async fn sweep_cells(&self) -> Result<()> {
        let (ended, mut existing): (Vec<_>, Vec<_>) = self
            .store
            .list_cells(&Tenants::All)
            .await?
            .into_iter()
            .partition(|cell| cell.ended_at.is_some());
        let now = Timestamp::now();
        let old = |cell: &&StoredCell| {
            cell.ended_at.is_some_and(|at| at.plus_seconds(self.settings.log_keep_s) <= now)
        };
        for cell in ended.iter().filter(old).take(AT_ONCE) {
            log_failure(&cell.spec.id, self.sweep_records(&cell.spec.id).await);
        }
        // Where there are more than are looked at, everyone begins elsewhere.
        if existing.len() > AT_ONCE {
            let begin = getrandom::u32().unwrap_or_default() as usize % existing.len();
            existing.rotate_left(begin);
        }
        for cell in existing.iter().take(AT_ONCE) {
            log_failure(&cell.spec.id, self.sweep_cell(cell).await);
        }
        Ok(())
    }

    async fn sweep_cell(&self, cell: &StoredCell) -> Result<()> {
        match self.standing(cell).await {
            Standing::Over => self.remove_if_over(cell, Busy::Skip).await,
            Standing::Is(_) => Ok(()),
        }
    }

    async fn sweep_records(&self, cell: &CellId) -> Result<()> {
        let Some(_lock) = self.store.try_lock_cell(cell).await? else { return Ok(()) };
        self.note_network(cell).await;
        self.remove_cell_dir(cell).await?;
        self.store.delete_cell(cell).await
    }

    /// Removes directories that no store and no driver knows, once they are old enough.
    async fn sweep_directories(&self) -> Result<()> {
        let mut unknown = Vec::new();
        for cell in self.cells_on_disk()? {
            if unknown.len() < AT_ONCE
                && self.store.find_cell(&cell).await?.is_none()
                && untouched_for(&self.cell_dir(&cell)) > self.log_keep()
            {
                unknown.push(cell);
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let mut placed = HashSet::new();
        for driver in &self.drivers {
            placed.extend(driver.list().await?.into_iter().map(|cell| cell.spec.id));
        }
        for cell in unknown.iter().filter(|cell| !placed.contains(*cell)) {
            self.note_network(cell).await;
            self.remove_cell_dir(cell).await?;
        }
        Ok(())
    }

    fn log_keep(&self) -> Duration {
        Duration::from_secs(self.settings.log_keep_s)
    }
}

fn log_failure(cell: &CellId, swept: Result<()>) {
    if let Err(error) = swept {
        tracing::warn!(%cell, %error, "a cell that is over stays");
    }
}

/// How long ago something was last written to a cell's directory; no time if that is unknown.
fn untouched_for(directory: &Path) -> Duration {
    let changed = [directory.join("records/journal"), directory.to_owned()]
        .iter()
        .filter_map(|path| fs::metadata(path).ok()?.modified().ok())
        .max();
    changed.and_then(|at| SystemTime::now().duration_since(at).ok()).unwrap_or_default()
}

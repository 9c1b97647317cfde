//! Clears away what cells left that are over. Whoever comes by does it: nothing else has to run.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hotcell_model::{CellId, Collectable, Collected, Result, StoredCell, Tenants, Timestamp};

use crate::cell_remove::Busy;
use crate::cell_standing::Standing;
use crate::fault;
use crate::site::Site;

/// How many cells are looked at in passing, and as many cleared away, before it is the next one's turn.
const IN_PASSING: usize = 256;

/// How thoroughly it is looked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sweep {
    /// Whether it is only told what is over.
    pub(crate) dry_run: bool,
    /// Of how many things of a kind at most.
    pub(crate) most: usize,
    /// Seconds for which records of ended cells are kept.
    pub(crate) log_keep_s: u64,
    /// Whether it is told how large something is.
    pub(crate) measured: bool,
}

impl Site {
    /// Clears away what is over. Its faults are logged: they are nobody's who asked for something
    /// else.
    pub(crate) async fn sweep(&self) {
        let sweep = Sweep {
            dry_run: false,
            most: IN_PASSING,
            log_keep_s: self.settings.log_keep_s,
            measured: false,
        };
        let mut done = Collected::default();
        self.sweep_over(&sweep, &mut done).await;
        for error in done.errors {
            tracing::warn!(error, "something that is over stays");
        }
    }

    /// Clears away cells, volumes and records that are over.
    pub(crate) async fn sweep_over(&self, sweep: &Sweep, done: &mut Collected) {
        self.rebuild_once().await;
        if let Err(error) = self.sweep_cells(sweep, done).await {
            done.errors.push(format!("cells that are over could not be looked for: {error}"));
        }
        if let Err(error) = self.sweep_directories(sweep, done).await {
            done.errors.push(format!("records without a cell could not be looked for: {error}"));
        }
    }

    async fn sweep_cells(&self, sweep: &Sweep, done: &mut Collected) -> Result<()> {
        let (ended, mut existing): (Vec<_>, Vec<_>) = self
            .store
            .list_cells(&Tenants::All)
            .await?
            .into_iter()
            .partition(|cell| cell.ended_at.is_some());
        let now = Timestamp::now();
        let old = |cell: &&StoredCell| {
            !cell.kept && cell.ended_at.is_some_and(|at| at.plus_seconds(sweep.log_keep_s) <= now)
        };
        for cell in ended.iter().filter(old).take(sweep.most) {
            let bytes = self.measure(sweep, &cell.spec.id).await;
            let swept = self.sweep_records(sweep, &cell.spec.id).await;
            count(done, Collectable::Records, bytes, &cell.spec.id, swept);
        }
        for cell in ended.iter().filter(|it| self.is_kept_too_long(it)).take(sweep.most) {
            let bytes = self.volume_of(&cell.spec, now).await.disk_bytes.unwrap_or(0);
            let swept = match sweep.dry_run {
                true => Ok(true),
                false => self.remove_if_kept_too_long(&cell.spec.id).await,
            };
            count(done, Collectable::Volumes, bytes, &cell.spec.id, swept);
        }
        // Where there are more than are looked at, everyone begins elsewhere.
        if existing.len() > sweep.most {
            let begin = getrandom::u32().unwrap_or_default() as usize % existing.len();
            existing.rotate_left(begin);
        }
        for cell in existing.iter().take(sweep.most) {
            let swept = self.sweep_cell(sweep, cell).await;
            count(done, Collectable::Cells, 0, &cell.spec.id, swept);
        }
        Ok(())
    }

    /// Whether it was over.
    async fn sweep_cell(&self, sweep: &Sweep, cell: &StoredCell) -> Result<bool> {
        if self.is_forgotten_in_pool(cell) {
            return match sweep.dry_run {
                true => Ok(true),
                false => self.discard_if_pooled(&cell.spec.id).await,
            };
        }
        match self.standing(cell).await {
            Standing::Is(_) => Ok(false),
            // One whose files are kept has ended: nothing of it goes.
            Standing::Kept(_) if sweep.dry_run => Ok(false),
            Standing::Kept(_) => self.remove_if_over(cell, Busy::Skip).await.map(|()| false),
            Standing::Over if sweep.dry_run => Ok(true),
            Standing::Over => {
                self.remove_if_over(cell, Busy::Skip).await?;
                let stored = self.store.find_cell(&cell.spec.id).await?;
                Ok(stored.is_none_or(|stored| stored.ended_at.is_some()))
            }
        }
    }

    async fn sweep_records(&self, sweep: &Sweep, cell: &CellId) -> Result<bool> {
        if sweep.dry_run {
            return Ok(true);
        }
        let Some(_lock) = self.store.try_lock_cell(cell).await? else { return Ok(false) };
        let stored = match self.store.find_cell(cell).await? {
            Some(stored) if stored.ended_at.is_some() && !stored.kept => stored,
            Some(_) | None => return Ok(false),
        };
        // Whoever removed it may have died on the way: what is still there must not come back.
        if let Ok(driver) = self.driver(&stored.spec.driver) {
            driver.remove(cell).await?;
        }
        self.note_network(cell).await;
        self.remove_cell_dir(cell).await?;
        self.store.delete_cell(cell).await?;
        Ok(true)
    }

    /// Removes directories that no store and no driver knows, once they are old enough.
    async fn sweep_directories(&self, sweep: &Sweep, done: &mut Collected) -> Result<()> {
        let mut unknown = Vec::new();
        for cell in self.cells_on_disk()? {
            if unknown.len() < sweep.most
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
            placed.extend(driver.remains().await?.unreadable.into_iter().map(|(cell, _)| cell));
        }
        for cell in unknown.iter().filter(|cell| !placed.contains(*cell)) {
            let bytes = self.measure(sweep, cell).await;
            if !sweep.dry_run {
                let Some(_lock) = self.store.try_lock_cell(cell).await? else { continue };
                // Somebody may have been about to make it.
                if self.store.find_cell(cell).await?.is_some() {
                    continue;
                }
                self.note_network(cell).await;
                self.remove_cell_dir(cell).await?;
            }
            done.add(Collectable::Records, bytes);
        }
        Ok(())
    }

    /// What the records of a cell have on disk, if that is wanted.
    async fn measure(&self, sweep: &Sweep, cell: &CellId) -> u64 {
        if !sweep.measured {
            return 0;
        }
        let directory = self.cell_dir(cell);
        fault::blocking(move || Ok(bytes_in(&directory))).await.unwrap_or(0)
    }

    fn log_keep(&self) -> Duration {
        Duration::from_secs(self.settings.log_keep_s)
    }
}

fn count(done: &mut Collected, kind: Collectable, bytes: u64, cell: &CellId, swept: Result<bool>) {
    match swept {
        Ok(true) => done.add(kind, bytes),
        Ok(false) => {}
        Err(error) => done.errors.push(format!("cell {cell}: {error}")),
    }
}

/// How long ago something was last written to a cell's directory; no time if that is unknown. The
/// journal's time was set by the cell, and counts only if it has passed.
fn untouched_for(directory: &Path) -> Duration {
    let now = SystemTime::now();
    let since = |path: &Path| {
        let changed = fs::symlink_metadata(path).and_then(|found| found.modified());
        changed.ok().and_then(|at| now.duration_since(at).ok())
    };
    let times = [since(&directory.join("records/journal")), since(directory)];
    times.into_iter().flatten().min().unwrap_or_default()
}

/// The sizes of all files in a directory.
fn bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => bytes_in(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

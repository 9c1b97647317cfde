//! Brings together what the index says and what drivers have. What belongs to another state directory is
//! not even seen.

use std::collections::HashSet;

use hotcell_model::{
    CellId, Collectable, Collected, Driver, Error, Reconciled, Result, StoredCell, Tenants,
};

use crate::cell_kill::Force;
use crate::cell_standing::Standing;
use crate::site::Site;
use crate::sweep::Sweep;

/// Compares and mends.
pub(crate) async fn reconcile(site: &Site) -> Result<Reconciled> {
    let mut done = Reconciled { adopted: site.rebuild_now().await?, ..Reconciled::default() };
    let stored = site.store.list_cells(&Tenants::All).await?;
    for driver in &site.drivers {
        if let Err(error) = compare(site, &**driver, &stored, &mut done).await {
            done.errors.push(format!("driver {}: {error}", driver.name()));
        }
    }
    let mut swept = Collected::default();
    let log_keep_s = site.settings.log_keep_s;
    let sweep = Sweep { dry_run: false, most: usize::MAX, log_keep_s, measured: false };
    site.sweep_over(&sweep, &mut swept).await;
    let over = swept.removed.iter().filter(|removed| match removed.kind {
        Collectable::Cells | Collectable::Volumes => true,
        Collectable::Records
        | Collectable::Logs
        | Collectable::Attachments
        | Collectable::Images
        | Collectable::Layers
        | Collectable::Temporary => false,
    });
    done.cleaned_up += over.map(|removed| removed.count).sum::<u64>();
    done.errors.extend(swept.errors);
    Ok(done)
}

/// What the index should know of a driver's place, and what is there.
async fn compare(
    site: &Site,
    driver: &dyn Driver,
    stored: &[StoredCell],
    done: &mut Reconciled,
) -> Result<()> {
    let listed: HashSet<CellId> = driver.list().await?.into_iter().map(|it| it.spec.id).collect();
    let remains = driver.remains().await?;
    let unseen = remains.unseen.iter();
    done.errors.extend(unseen.map(|error| format!("driver {}: {error}", driver.name())));
    let unreadable = remains.unreadable.iter();
    done.errors.extend(unreadable.map(|(_, error)| error.to_string()));
    done.discovered += (remains.cells.len() + remains.unreadable.len()) as u64;
    let there: HashSet<CellId> = remains
        .cells
        .iter()
        .chain(remains.unreadable.iter().map(|(cell, _)| cell))
        .cloned()
        .collect();
    for cell in remains.cells {
        let cleared = match listed.contains(&cell) {
            // Its files are whole: it has ended, and somebody died while removing it.
            true => site.clear_if_ended(driver, &cell).await.map(|it| (it, &mut done.cleaned_up)),
            false => site.clear_if_unknown(driver, &cell).await.map(|it| (it, &mut done.orphaned)),
        };
        match cleared {
            Ok((true, counted)) => *counted += 1,
            Ok((false, _)) => {}
            Err(error) => done.errors.push(format!("cell {cell}: {error}")),
        }
    }
    let is_own = |cell: &&StoredCell| {
        cell.spec.driver == driver.name() && (cell.ended_at.is_none() || cell.kept)
    };
    let own: Vec<&StoredCell> = stored.iter().filter(is_own).collect();
    if listed.is_empty() && !own.is_empty() {
        // A disk that is not mounted looks like this.
        return Err(Error::unavailable(format!(
            "nothing is there of any of its {} cells; is its place missing?",
            own.len()
        ))
        .hint("bring back what is missing, or end the cells with `hotcell kill`"));
    }
    // Only what is not there at all can be missing: files may be left of anything else.
    for cell in own.into_iter().filter(|cell| !listed.contains(&cell.spec.id)) {
        if there.contains(&cell.spec.id) {
            continue;
        }
        match site.end_if_missing(driver, &cell.spec.id).await {
            Ok(true) => done.missing += 1,
            Ok(false) => {}
            Err(error) => done.errors.push(format!("cell {}: {error}", cell.spec.id)),
        }
    }
    Ok(())
}

impl Site {
    async fn clear_if_ended(&self, driver: &dyn Driver, cell: &CellId) -> Result<bool> {
        // What only records are known of may be anything.
        let has_ended = |it: &Option<StoredCell>| {
            it.as_ref().is_some_and(|stored| {
                stored.spec.driver == driver.name() && stored.ended_at.is_some() && !stored.kept
            })
        };
        if !has_ended(&self.store.find_cell(cell).await?) {
            return Ok(false);
        }
        let Some(_lock) = self.store.try_lock_cell(cell).await? else { return Ok(false) };
        if !has_ended(&self.store.find_cell(cell).await?) || driver.connect(cell).await?.is_some() {
            return Ok(false);
        }
        driver.remove(cell).await?;
        Ok(true)
    }

    /// Removes what is no cell that could be used and no one knows.
    async fn clear_if_unknown(&self, driver: &dyn Driver, cell: &CellId) -> Result<bool> {
        let Some(_lock) = self.store.try_lock_cell(cell).await? else { return Ok(false) };
        let is_known = |it: StoredCell| it.ended_at.is_none() || it.kept;
        if self.store.find_cell(cell).await?.is_some_and(is_known) {
            return Ok(false);
        }
        driver.clear(cell).await?;
        Ok(true)
    }

    /// Ends a cell of which the driver has nothing that could be used: it would wake with none of its
    /// files.
    async fn end_if_missing(&self, driver: &dyn Driver, cell: &CellId) -> Result<bool> {
        let Some(lock) = self.store.try_lock_cell(cell).await? else { return Ok(false) };
        let Some(stored) = self.store.find_cell(cell).await? else { return Ok(false) };
        if stored.ended_at.is_some() && !stored.kept {
            return Ok(false);
        }
        // Whoever makes it may not have got so far.
        let is_begun = match self.resting(&stored).await? {
            Standing::Is(hotcell_model::CellState::Starting) => false,
            Standing::Is(_) | Standing::Over | Standing::Kept(_) => true,
        };
        let remains = driver.remains().await?;
        let unreadable = remains.unreadable.iter().map(|(cell, _)| cell);
        let is_there = remains.cells.iter().chain(unreadable).any(|there| there == cell);
        if !is_begun || is_there || driver.connect(cell).await?.is_some() {
            return Ok(false);
        }
        // Also what it had elsewhere, such as its ids.
        driver.clear(cell).await?;
        self.remove_volume(&stored.spec, Force::No, &*lock).await?;
        Ok(true)
    }
}

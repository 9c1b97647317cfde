//! Cells that a server makes ahead of need, and gives out to whoever asks for one of their shape. They are
//! in the index like all others, so that any process can be given one and a server that dies leaves
//! nothing behind that is not found.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hotcell_link::Ask;
use hotcell_model::{
    CellId, CellLock, CellSpawn, CellSpec, Error, HOST_IMAGE, Keep, Network, Result, StoredCell,
    Tenant, Tenants, Timestamp,
};
use tokio::sync::Notify;

use crate::cell_spawn::{Spawn, cell_spawn};
use crate::links;
use crate::policies::check_own_cell;
use crate::site::Site;

/// How often it is looked whether those that are there are well.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long after a failure the next one is made.
const AFTER_FAILURE: Duration = Duration::from_secs(10);
/// Whoever was just given one is answered first.
const AFTER_GIVING: Duration = Duration::from_millis(20);
/// So long after its time one that is still there is nobody's.
const FORGOTTEN_S: u64 = 60;
/// For how many tenants cells are made at most.
const TENANTS: usize = 16;

/// What this process knows of cells that were made ahead of need.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// For whom they are made.
    tenants: Mutex<BTreeSet<Tenant>>,
    /// Told when one was given out.
    wanted: Notify,
    /// Whether no more are made.
    is_closed: AtomicBool,
    /// Held by all servers that keep a pool.
    using: Mutex<Option<File>>,
    given: AtomicU64,
    missed: AtomicU64,
    made: AtomicU64,
    discarded: AtomicU64,
    ready: Mutex<Ready>,
}

/// The cells that can be given out, as far as this process knows.
#[derive(Debug, Default)]
struct Ready {
    cells: HashSet<CellId>,
    /// Given out since the look at all of them began that is under way: it may have found them before.
    taken: HashSet<CellId>,
}

impl Ready {
    fn add(&mut self, cell: &CellId) {
        if !self.taken.contains(cell) {
            self.cells.insert(cell.clone());
        }
    }

    fn take(&mut self, cell: &CellId) {
        self.cells.remove(cell);
        self.taken.insert(cell.clone());
    }

    /// What a look at all of them found.
    fn replace(&mut self, found: &HashSet<CellId>) {
        self.cells = found.difference(&self.taken).cloned().collect();
    }
}

/// What came of cells that were made ahead of need, in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolFigures {
    /// Those that are there now.
    pub ready: u64,
    /// Spawns that got one.
    pub given: u64,
    /// Spawns that could have had one if there had been any.
    pub missed: u64,
    /// Those that were made.
    pub made: u64,
    /// Those that were not well, or too old.
    pub discarded: u64,
}

/// What whoever keeps a pool remembers of it.
#[derive(Debug, Default)]
struct Kept {
    /// The cells that it holds.
    held: HashSet<CellId>,
    /// Until when no more are made of an image for a tenant, because that failed.
    rests: HashMap<(Tenant, String), Instant>,
}

/// A cell that was made ahead of need, while nobody else can have it.
#[derive(Debug)]
pub(crate) struct Pooled {
    pub(crate) cell: StoredCell,
    pub(crate) lock: Box<dyn CellLock>,
}

impl Pool {
    pub(crate) fn figures(&self) -> PoolFigures {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PoolFigures {
            ready: self.ready().cells.len() as u64,
            given: count(&self.given),
            missed: count(&self.missed),
            made: count(&self.made),
            discarded: count(&self.discarded),
        }
    }

    fn ready(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on cells are made for this tenant, too.
    fn want_for(&self, tenant: &Tenant) {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() < TENANTS {
            tenants.insert(tenant.clone());
        }
    }

    fn tenants(&self) -> Vec<Tenant> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Site {
    /// A cell that can be given out as this one, if there is any.
    pub(crate) async fn take_pooled(&self, wanted: &CellSpec) -> Result<Option<Pooled>> {
        if self.settings.pool.size == 0 || !may_be_pooled(wanted) {
            return Ok(None);
        }
        for cell in self.store.list_pooled(&wanted.tenant, &wanted.shape()).await? {
            let Some(lock) = self.store.try_lock_cell(&cell.spec.id).await? else { continue };
            // Somebody may have had it since.
            match self.store.find_cell(&cell.spec.id).await? {
                Some(cell) if is_pooled(&cell) => {
                    self.pool.ready().take(&cell.spec.id);
                    return Ok(Some(Pooled { cell, lock }));
                }
                Some(_) | None => {}
            }
        }
        if self.is_pooled_image(&wanted.image, &wanted.driver) {
            self.pool.missed.fetch_add(1, Ordering::Relaxed);
            self.pool.want_for(&wanted.tenant);
            self.pool.wanted.notify_one();
        }
        Ok(None)
    }

    /// Gives a cell out as another one. `None` when it is not well: then nothing is left of it. Only once
    /// it is what it is to be, in all other places, the index knows it as that: whoever dies before
    /// leaves a cell that is not given out any more, and is discarded.
    ///
    /// # Errors
    /// `conflict` when the alias is taken meanwhile; nothing is left of the cell then, either.
    pub(crate) async fn assign(
        &self,
        pooled: Pooled,
        spec: CellSpec,
    ) -> Result<Option<StoredCell>> {
        let Pooled { cell: StoredCell { spec: was, isolation, .. }, lock } = pooled;
        let cell = StoredCell { spec, isolation, ended_at: None, kept: false };
        self.pool.wanted.notify_one();
        if let Err(error) = self.tell_assigned(&was, &cell.spec).await {
            tracing::info!(cell = %was.id, %error, "a cell that was made ahead of need is not well");
            return self.discard(&was, &*lock).await.map(|()| None);
        }
        if let Err(error) = self.store.assign_cell(&cell).await {
            self.discard(&was, &*lock).await?;
            return Err(error);
        }
        self.links.reassign(&cell.spec);
        self.pool.given.fetch_add(1, Ordering::Relaxed);
        Ok(Some(cell))
    }

    async fn tell_assigned(&self, was: &CellSpec, spec: &CellSpec) -> Result<()> {
        let gone = || Error::unavailable("its supervisor is gone");
        let link = self.find_link(was).await?.ok_or_else(gone)?;
        let ask = Ask::Assign { spec: Box::new(spec.clone()) };
        links::ask(&link, &spec.id, &ask).await.map_err(Error::from)?;
        self.driver(&spec.driver)?.assign(spec).await
    }

    /// Leaves nothing of a cell that nobody was given.
    async fn discard(&self, spec: &CellSpec, _lock: &dyn CellLock) -> Result<()> {
        self.pool.discarded.fetch_add(1, Ordering::Relaxed);
        self.links.forget(&spec.id);
        let driver = self.driver(&spec.driver)?;
        driver.stop(&spec.id).await?;
        driver.remove(&spec.id).await?;
        self.remove_cell_dir(&spec.id).await?;
        self.store.delete_cell(&spec.id).await
    }

    /// Ends every cell that was made ahead of need, and makes no more.
    pub(crate) async fn close_pool(&self) -> Result<()> {
        self.pool.is_closed.store(true, Ordering::Relaxed);
        let using = self.pool.using.lock().unwrap_or_else(PoisonError::into_inner).take();
        let is_last = using.is_some_and(|using| {
            // Whoever else keeps a pool here holds this, too.
            using.unlock().is_ok() && using.try_lock().is_ok()
        });
        if is_last { self.drain_pool(&Tenants::All).await } else { Ok(()) }
    }

    /// Shows other servers that this one keeps a pool, until it goes.
    fn show_pool_is_used(&self) {
        let using = File::create(self.state_dir().join("pool.users"));
        let using = using.and_then(|file| file.lock_shared().map(|()| file));
        *self.pool.using.lock().unwrap_or_else(PoisonError::into_inner) = using.ok();
    }

    /// Ends every cell of these tenants that was made ahead of need, for somebody who needs the room.
    pub(crate) async fn drain_pool(&self, tenants: &Tenants) -> Result<()> {
        for cell in self.store.list_cells(tenants).await? {
            if is_pooled(&cell)
                && let Err(error) = self.discard_if_pooled(&cell.spec.id).await
            {
                // Whoever needs room is told of that, not of this.
                tracing::warn!(cell = %cell.spec.id, %error, "a cell that was made ahead of need stays");
            }
        }
        Ok(())
    }

    /// Whether a cell was made ahead of need so long ago that nobody looks after it any more.
    pub(crate) fn is_forgotten_in_pool(&self, cell: &StoredCell) -> bool {
        let keep_s = self.settings.pool.ttl_s.saturating_add(FORGOTTEN_S);
        is_pooled(cell) && cell.spec.created_at.plus_seconds(keep_s) <= Timestamp::now()
    }

    pub(crate) async fn discard_if_pooled(&self, cell: &CellId) -> Result<bool> {
        let Some(lock) = self.store.try_lock_cell(cell).await? else { return Ok(false) };
        match self.store.find_cell(cell).await? {
            Some(found) if is_pooled(&found) => {
                self.discard(&found.spec, &*lock).await.map(|()| true)
            }
            Some(_) | None => Ok(false),
        }
    }

    fn is_pooled_image(&self, image: &str, driver: &str) -> bool {
        let of_default = driver == self.settings.default_driver;
        of_default && self.pooled_images().iter().any(|pooled| pooled == image)
    }

    /// The images of which cells are made, as cells name them.
    fn pooled_images(&self) -> Vec<String> {
        let named = &self.settings.pool.images;
        if !named.is_empty() {
            return named.clone();
        }
        let usual = self.named_or_default(None).ok().and_then(|driver| driver.usual_image());
        vec![usual.unwrap_or(HOST_IMAGE).to_owned()]
    }

    /// Keeps as many cells ready as there are to be, for as long as this process lives.
    pub(crate) async fn keep_pool(&self, home: &Tenant) {
        if self.settings.pool.size == 0 {
            return;
        }
        self.pool.want_for(home);
        self.show_pool_is_used();
        let mut kept = Kept::default();
        loop {
            self.tend_pool(&mut kept).await;
            // Whatever happens, it is looked again in time.
            let _ = tokio::time::timeout(LOOK_EVERY, self.pool.wanted.notified()).await;
            tokio::time::sleep(AFTER_GIVING).await;
        }
    }

    async fn tend_pool(&self, kept: &mut Kept) {
        // Of several servers one makes cells; all hold them.
        let filling = File::create(self.state_dir().join("pool.lock")).ok();
        let fills = filling.as_ref().is_some_and(|file| file.try_lock().is_ok());
        self.pool.ready().taken.clear();
        let mut there = HashSet::new();
        for tenant in self.pool.tenants() {
            for image in self.pooled_images() {
                let kind = (tenant.clone(), image);
                let rests = kept.rests.get(&kind).is_some_and(|until| Instant::now() < *until);
                // One that fails takes nothing from the others.
                if let Err(error) = self.tend_kind(&kind, fills && !rests, &mut there).await {
                    tracing::warn!(%tenant, %error, "no cell can be made ahead of need");
                    kept.rests.insert(kind, Instant::now() + AFTER_FAILURE);
                }
            }
        }
        // What was given out is not this process's to hold any more.
        for cell in kept.held.difference(&there) {
            self.links.forget_pooled(cell);
        }
        self.pool.ready().replace(&there);
        kept.held = there;
    }

    /// Looks after the cells of one image for one tenant.
    async fn tend_kind(
        &self,
        (tenant, image): &(Tenant, String),
        fills: bool,
        there: &mut HashSet<CellId>,
    ) -> Result<()> {
        let image = image.clone();
        let request = CellSpawn { image, keep: Keep::Pool, ..CellSpawn::default() };
        check_own_cell(self, &request).await?;
        let shape = Spawn::plan(self, tenant, &request).await?.shape()?;
        let size = self.settings.pool.size;
        let mut ready = 0;
        for cell in self.store.list_pooled(tenant, &shape).await? {
            let is_surplus = fills && ready >= size;
            if !is_surplus && self.is_well(&cell).await {
                there.insert(cell.spec.id);
                ready += 1;
            } else {
                self.discard_if_pooled(&cell.spec.id).await?;
            }
        }
        for _ in ready..size {
            if !fills || self.pool.is_closed.load(Ordering::Relaxed) {
                break;
            }
            let cell = Box::pin(cell_spawn(self, tenant, request.clone())).await?;
            self.pool.made.fetch_add(1, Ordering::Relaxed);
            self.pool.ready().add(&cell.id);
            there.insert(cell.id);
        }
        Ok(())
    }

    /// Whether a cell can be given out; held by this process too then. One that is just being made or
    /// given out is somebody's, and is left alone by whoever discards those that are not well.
    async fn is_well(&self, cell: &StoredCell) -> bool {
        let spec = &cell.spec;
        let is_old = spec.created_at.plus_seconds(self.settings.pool.ttl_s) <= Timestamp::now();
        let is_there = matches!(self.find_link(spec).await, Ok(Some(_)));
        is_there && !is_old && self.hold_cell(spec).await.is_ok()
    }
}

fn is_pooled(cell: &StoredCell) -> bool {
    cell.spec.keep == Keep::Pool && cell.ended_at.is_none()
}

/// Whether a cell could have been made ahead of need: nothing in its place depends on who asks for it.
fn may_be_pooled(spec: &CellSpec) -> bool {
    let CellSpec { workspace, secrets, network, checkpoint_before, .. } = spec;
    let is_plain = workspace.is_none() && secrets.is_empty() && checkpoint_before.is_none();
    spec.keep != Keep::Pool && is_plain && *network == Network::None
}

#[cfg(test)]
mod tests {
    use super::{HashSet, Ready};

    #[test]
    fn a_cell_given_out_while_all_are_looked_at_does_not_count_as_ready() {
        let [one, other] = ["c_aaaaaaaaaa", "c_bbbbbbbbbb"].map(|id| id.parse().unwrap());
        let mut ready = Ready::default();
        let found = HashSet::from([one, other]);
        ready.replace(&found);
        assert_eq!(ready.cells.len(), 2);
        let taken = found.iter().next().unwrap();
        ready.take(taken);
        ready.add(taken);
        ready.replace(&found);
        assert_eq!(ready.cells.len(), 1);
    }
}

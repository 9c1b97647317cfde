//! Cells that a server makes ahead of need, and gives out to whoever asks for one of their shape. They are
//! in the index like all others, so that any process can be given one and a server that dies leaves
//! nothing behind that is not found.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hotcell_link::Ask;
use hotcell_model::{
    CellId, CellLock, CellSpawn, CellSpec, Error, HOST_IMAGE, Keep, Result, StoredCell, Tenant,
    Timestamp,
};
use tokio::sync::Notify;

use crate::cell_spawn::{Spawn, cell_spawn};
use crate::links;
use crate::site::Site;

/// How often it is looked whether those that are there are well.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long after a failure the next one is made.
const AFTER_FAILURE: Duration = Duration::from_secs(10);
/// For how many tenants cells are made at most.
const TENANTS: usize = 16;

/// What this process knows of cells that were made ahead of need.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// For whom they are made.
    tenants: Mutex<BTreeSet<Tenant>>,
    /// Told when one was given out.
    wanted: Notify,
    given: AtomicU64,
    missed: AtomicU64,
    made: AtomicU64,
    discarded: AtomicU64,
    ready: AtomicU64,
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
            ready: count(&self.ready),
            given: count(&self.given),
            missed: count(&self.missed),
            made: count(&self.made),
            discarded: count(&self.discarded),
        }
    }

    /// From now on cells are made for this tenant, too.
    fn want_for(&self, tenant: &Tenant) {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() < TENANTS && !tenants.contains(tenant) {
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
                Some(cell) if is_pooled(&cell) => return Ok(Some(Pooled { cell, lock })),
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

    /// Gives a cell out as another one. `None` when it is not well: then nothing is left of it.
    ///
    /// # Errors
    /// `conflict` when the alias is taken: then it is in the pool still.
    pub(crate) async fn assign(
        &self,
        pooled: Pooled,
        spec: CellSpec,
    ) -> Result<Option<StoredCell>> {
        let Pooled { cell: StoredCell { spec: was, isolation, .. }, lock } = pooled;
        let cell = StoredCell { spec, isolation, ended_at: None, kept: false };
        self.store.assign_cell(&cell).await?;
        self.pool.wanted.notify_one();
        match self.tell_assigned(&was, &cell.spec).await {
            Ok(()) => {
                self.pool.given.fetch_add(1, Ordering::Relaxed);
                Ok(Some(cell))
            }
            Err(error) => {
                tracing::info!(cell = %cell.spec.id, %error, "a cell that was made ahead of need is not well");
                self.discard(&cell.spec, &*lock).await?;
                Ok(None)
            }
        }
    }

    /// Its supervisor first: what is written down is read when that starts again.
    async fn tell_assigned(&self, was: &CellSpec, spec: &CellSpec) -> Result<()> {
        let gone = || Error::unavailable("its supervisor is gone");
        let link = self.find_link(was).await?.ok_or_else(gone)?;
        let ask = Ask::Assign { spec: Box::new(spec.clone()) };
        links::ask(&link, &spec.id, &ask).await.map_err(Error::from)?;
        self.links.reassign(spec);
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

    /// Ends every cell that was made ahead of need, for somebody who needs the room. Whether there was
    /// any.
    pub(crate) async fn drain_pool(&self) -> Result<bool> {
        if self.settings.pool.size == 0 {
            return Ok(false);
        }
        let mut any = false;
        for cell in self.store.list_cells(&hotcell_model::Tenants::All).await? {
            any |= is_pooled(&cell) && self.discard_if_pooled(&cell.spec.id).await?;
        }
        Ok(any)
    }

    async fn discard_if_pooled(&self, cell: &CellId) -> Result<bool> {
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
        let mut held = HashSet::new();
        loop {
            let pause = match self.tend_pool(&mut held).await {
                Ok(()) => LOOK_EVERY,
                Err(error) => {
                    tracing::warn!(%error, "no cell can be made ahead of need");
                    AFTER_FAILURE
                }
            };
            // Whatever happens, it is looked again in time.
            let _ = tokio::time::timeout(pause, self.pool.wanted.notified()).await;
        }
    }

    async fn tend_pool(&self, held: &mut HashSet<CellId>) -> Result<()> {
        let mut there = HashSet::new();
        let made = self.fill_pool(&mut there).await;
        // What was given out is not this process's to hold any more.
        for cell in held.difference(&there) {
            self.links.forget_pooled(cell);
        }
        self.pool.ready.store(there.len() as u64, Ordering::Relaxed);
        *held = there;
        made
    }

    async fn fill_pool(&self, there: &mut HashSet<CellId>) -> Result<()> {
        for tenant in self.pool.tenants() {
            for image in self.pooled_images() {
                let request = CellSpawn { image, keep: Keep::Pool, ..CellSpawn::default() };
                let shape = Spawn::plan(self, &tenant, &request).await?.shape()?;
                let mut ready = 0;
                for cell in self.store.list_pooled(&tenant, &shape).await? {
                    if self.is_well(&cell).await {
                        there.insert(cell.spec.id);
                        ready += 1;
                    }
                }
                for _ in ready..self.settings.pool.size {
                    let cell = Box::pin(cell_spawn(self, &tenant, request.clone())).await?;
                    self.pool.made.fetch_add(1, Ordering::Relaxed);
                    there.insert(cell.id);
                    self.pool.ready.store(there.len() as u64, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Whether a cell can be given out; held by this process too then. One that cannot goes.
    async fn is_well(&self, cell: &StoredCell) -> bool {
        let spec = &cell.spec;
        let is_old = spec.created_at.plus_seconds(self.settings.pool.ttl_s) <= Timestamp::now();
        let is_there = matches!(self.find_link(spec).await, Ok(Some(_)));
        if is_there && !is_old && self.hold_cell(spec).await.is_ok() {
            return true;
        }
        // One that is just being made or given out is somebody's.
        if let Err(error) = self.discard_if_pooled(&spec.id).await {
            tracing::warn!(cell = %spec.id, %error, "a cell that was made ahead of need stays");
        }
        false
    }
}

fn is_pooled(cell: &StoredCell) -> bool {
    cell.spec.keep == Keep::Pool && cell.ended_at.is_none()
}

/// Whether a cell could have been made ahead of need: nothing in its place depends on who asks for it.
fn may_be_pooled(spec: &CellSpec) -> bool {
    let CellSpec { workspace, secrets, network, checkpoint_before, .. } = spec;
    let is_plain = workspace.is_none() && secrets.is_empty() && checkpoint_before.is_none();
    spec.keep != Keep::Pool && is_plain && *network == hotcell_model::Network::None
}

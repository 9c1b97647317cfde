//! Makes sure that a cell has a supervisor, whoever left it in whatever state.

use std::sync::Arc;

use hotcell_link::Link;
use hotcell_model::{
    CellId, CellLock, CellRef, CellSpec, Error, Isolation, Result, StoredCell, Timestamp,
};

use crate::admission::Admitted;
use crate::cell_find::no_cell;
use crate::cell_standing::Standing;
use crate::site::Site;

/// A supervisor can end between being started and being spoken to, and then once more.
const ATTEMPTS: u32 = 5;

/// A cell with a link to its supervisor.
#[derive(Debug)]
pub(crate) struct ReadyCell {
    pub(crate) id: CellId,
    pub(crate) link: Arc<Link>,
}

impl Site {
    /// The cell that is called so, with its supervisor, which is started if there is none, and with
    /// what the host changed in its project.
    pub(crate) async fn ready(&self, cell: &CellRef) -> Result<ReadyCell> {
        let ready = self.woken(cell).await?;
        self.check_lent(&ready.id)?;
        self.refresh_project(&ready.id).await;
        Ok(ready)
    }

    /// Makes what the host changed in the project of a cell visible there, if it works on one.
    pub(crate) async fn refresh_project(&self, cell: &CellId) {
        if let Some(driver) = self.links.refreshed_by(cell) {
            self.refresh(cell, &driver).await;
        }
    }

    /// Refuses whoever may not have what the operator lent to a cell that somebody else made: by
    /// its commands, their input or its files it could be got at.
    pub(crate) fn check_lent(&self, cell: &CellId) -> Result<()> {
        if let Some(workspace) = self.links.workspace_of(cell) {
            self.check_allowed(&workspace)?;
        }
        let grants = self.links.secrets_of(cell);
        match self.links.tenant_of(cell) {
            Some(tenant) => self.check_secrets_allowed(&tenant, &grants),
            None => Ok(()),
        }
    }

    async fn woken(&self, cell: &CellRef) -> Result<ReadyCell> {
        if let Some((id, link)) = self.links.find_open(cell) {
            return Ok(ReadyCell { id, link });
        }
        let spec = self.get_cell(cell).await?.spec;
        let link = self.ready_link(&spec).await?;
        Ok(ReadyCell { id: spec.id, link })
    }

    /// The cell if it has a supervisor: whoever only looks on wakes nothing.
    pub(crate) async fn awake(&self, cell: &CellRef) -> Result<ReadyCell> {
        if let Some((id, link)) = self.links.find_open(cell) {
            return Ok(ReadyCell { id, link });
        }
        let stored = self.get_cell(cell).await?;
        if let Some(link) = self.find_link(&stored.spec).await? {
            return Ok(ReadyCell { id: stored.spec.id, link });
        }
        match self.resting(&stored).await? {
            Standing::Over | Standing::Kept(_) => Err(no_cell(cell)),
            Standing::Is(_) => Err(Error::unavailable(format!("cell {cell} is asleep"))
                .hint("nothing changes in it until its next use")),
        }
    }

    /// The link to a cell's supervisor, which is started if there is none. `not_found` when the
    /// cell turns out to be over; what was left of it is gone then.
    pub(crate) async fn ready_link(&self, spec: &CellSpec) -> Result<Arc<Link>> {
        let by_id = CellRef::Id(spec.id.clone());
        for _ in 0..ATTEMPTS {
            if let Some(link) = self.find_link(spec).await? {
                return Ok(link);
            }
            let lock = self.store.lock_cell(&spec.id).await?;
            let stored = match self.store.find_cell(&spec.id).await? {
                Some(stored) if stored.ended_at.is_none() => stored,
                Some(_) | None => {
                    self.links.forget(&spec.id);
                    return Err(no_cell(&by_id));
                }
            };
            if let Some(link) = self.find_link(spec).await? {
                return Ok(link);
            }
            match self.resting(&stored).await? {
                Standing::Over => {
                    self.remove_cell(spec, &*lock).await?;
                    return Err(no_cell(&by_id));
                }
                Standing::Kept(note) => {
                    self.settle_kept(&spec.id, note).await?;
                    return Err(no_cell(&by_id));
                }
                Standing::Is(_) => {
                    self.start_cell(&stored, lock).await?;
                }
            }
        }
        Err(Error::unavailable(format!(
            "the supervisor of cell {} ends right after its start",
            spec.id
        ))
        .hint("see what this machine lacks with `hotcell doctor`, or make another cell"))
    }

    /// Starts a cell's supervisor under the cell's lock, once there is room for it. The lock that
    /// comes back is not the same if there was none at first.
    pub(crate) async fn start_cell(
        &self,
        cell: &StoredCell,
        lock: Box<dyn CellLock>,
    ) -> Result<(Isolation, Box<dyn CellLock>)> {
        let spec = &cell.spec;
        self.make_cell_dir(&spec.id, &spec.tenant)?;
        let (lock, _room) = match self.admit(spec, lock).await? {
            Admitted::Now(lock, room) => (lock, room),
            Admitted::ByAnother(lock) => {
                let stored = self.store.find_cell(&spec.id).await?;
                let isolation = stored.and_then(|stored| stored.isolation);
                let isolation = isolation.ok_or_else(|| no_cell(&CellRef::Id(spec.id.clone())))?;
                return Ok((isolation, lock));
            }
        };
        let began = Timestamp::now();
        let tools = self.tools_of(&spec.tenant).await?;
        let driver = self.driver(&spec.driver)?;
        let placement = driver.start(spec, &self.records(&spec.id), Some(&tools)).await?;
        tracing::debug!(cell = %spec.id, took = ?began.until(Timestamp::now()), "cell started");
        if cell.isolation.as_ref() != Some(&placement.isolation) {
            self.store.set_isolation(&spec.id, &placement.isolation).await?;
        }
        Ok((placement.isolation, lock))
    }
}

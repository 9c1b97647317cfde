//! The links of this process: at most one to each cell, opened when needed and kept.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hotcell_link::{Ask, Following, Link, LinkError, Tell};
use hotcell_model::{
    Alias, CellId, CellRef, CellSpec, CheckpointBefore, Error, ErrorCode, Exec, Keep, Pace, Result,
    SecretGrant, Tenant, Tenants, Workspace,
};
use tokio::time::{sleep, timeout};

use crate::site::Site;

/// How long a supervisor has for its greeting or for a short answer; one that takes longer is
/// stuck, and a caller is told so rather than kept.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A supervisor that is just ending takes a connection and drops it; soon there is none to take it.
const OPEN_ATTEMPTS: u32 = 20;
const OPEN_PAUSE: Duration = Duration::from_millis(10);

/// The links by cell.
#[derive(Debug, Default)]
pub(crate) struct Links {
    slots: Mutex<HashMap<CellId, Arc<Slot>>>,
}

/// What this process has with one cell.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Whose it is.
    tenant: Tenant,
    alias: Option<Alias>,
    /// The directory of the host that is its workspace.
    workspace: Option<Workspace>,
    driver: String,
    /// The secrets that it is granted.
    secrets: Vec<SecretGrant>,
    /// Before which of its commands a checkpoint is made.
    checkpoint_before: Option<CheckpointBefore>,
    /// The driver that makes changes of the host visible in the cell, where that has to be done.
    refreshed_by: Option<String>,
    link: tokio::sync::Mutex<Option<Arc<Link>>>,
    holds: AtomicBool,
    /// Whether it was made ahead of need, and given to nobody yet.
    is_pooled: bool,
}

impl Slot {
    fn of(spec: &CellSpec, link: Option<Arc<Link>>) -> Self {
        Self {
            tenant: spec.tenant.clone(),
            alias: spec.alias.clone(),
            workspace: spec.workspace.clone(),
            driver: spec.driver.clone(),
            secrets: spec.secrets.clone(),
            checkpoint_before: spec.checkpoint_before,
            refreshed_by: spec.refreshed_by().map(str::to_owned),
            link: tokio::sync::Mutex::new(link),
            holds: AtomicBool::new(false),
            is_pooled: spec.keep == Keep::Pool,
        }
    }

    /// The link, if it is open and nobody is opening it anew.
    fn open_link(&self) -> Option<Arc<Link>> {
        let link = self.link.try_lock().ok()?;
        link.as_ref().filter(|link| !link.is_closed()).map(Arc::clone)
    }
}

impl Links {
    /// The open link to a cell, without asking anyone. One that nobody was given is nobody's.
    pub(crate) fn find_open(&self, cell: &CellRef) -> Option<(CellId, Arc<Link>)> {
        let CellRef::Id(id) = cell else { return None };
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.get(id).filter(|slot| !slot.is_pooled)?;
        slot.open_link().map(|link| (id.clone(), link))
    }

    /// The cell of a tenant that is called so and to which a link is open. That proves that it has not
    /// ended, and so that its alias is still its own.
    pub(crate) fn find_named(&self, tenant: &Tenant, alias: &Alias) -> Option<CellId> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let is_meant = |slot: &Slot| slot.alias.as_ref() == Some(alias) && slot.tenant == *tenant;
        let (id, slot) = slots.iter().find(|(_, slot)| is_meant(slot))?;
        slot.open_link().map(|_| id.clone())
    }

    /// Whether a cell to which there was a link belongs to one of these tenants.
    pub(crate) fn know(&self, tenants: &Tenants, cell: &CellId) -> bool {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.get(cell).is_some_and(|slot| tenants.include(&slot.tenant))
    }

    /// Whose a cell is to which there was a link.
    pub(crate) fn tenant_of(&self, cell: &CellId) -> Option<Tenant> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.get(cell).map(|slot| slot.tenant.clone())
    }

    /// The directory of the host that is the workspace of a cell to which there was a link.
    pub(crate) fn workspace_of(&self, cell: &CellId) -> Option<Workspace> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.get(cell).and_then(|slot| slot.workspace.clone())
    }

    /// The secrets that a cell is granted to which there was a link.
    pub(crate) fn secrets_of(&self, cell: &CellId) -> Vec<SecretGrant> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.get(cell).map(|slot| slot.secrets.clone()).unwrap_or_default()
    }

    /// Before which commands of a cell a checkpoint is made; `None` where no link is open.
    pub(crate) fn find_checkpoint_before(
        &self,
        cell: &CellRef,
    ) -> Option<Option<CheckpointBefore>> {
        let (id, _) = self.find_open(cell)?;
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.get(&id).map(|slot| slot.checkpoint_before)
    }

    /// The driver of a cell to which there was a link.
    pub(crate) fn driver_of(&self, cell: &CellId) -> Option<String> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.get(cell).map(|slot| slot.driver.clone())
    }

    /// The driver that makes changes of the host visible in a cell, where that has to be done.
    pub(crate) fn refreshed_by(&self, cell: &CellId) -> Option<String> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.get(cell).and_then(|slot| slot.refreshed_by.clone())
    }

    /// Forgets a cell that is gone.
    pub(crate) fn forget(&self, cell: &CellId) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(cell);
    }

    /// Knows a cell that was made ahead of need as what it was given out as. Its link stays.
    pub(crate) fn reassign(&self, spec: &CellSpec) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let link = slots.get(&spec.id).and_then(|slot| slot.open_link());
        slots.insert(spec.id.clone(), Arc::new(Slot::of(spec, link)));
    }

    /// Forgets a cell that was made ahead of need, and that another process has given out.
    pub(crate) fn forget_pooled(&self, cell: &CellId) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.get(cell).is_some_and(|slot| slot.is_pooled) {
            slots.remove(cell);
        }
    }

    fn slot(&self, spec: &CellSpec) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.entry(spec.id.clone()).or_insert_with(|| Arc::new(Slot::of(spec, None)));
        Arc::clone(slot)
    }
}

impl Site {
    /// The link to a cell's supervisor, opened if need be; `None` when there is no supervisor.
    pub(crate) async fn find_link(&self, spec: &CellSpec) -> Result<Option<Arc<Link>>> {
        let slot = self.links.slot(spec);
        let mut kept = slot.link.lock().await;
        if let Some(link) = kept.as_ref().filter(|link| !link.is_closed()) {
            return Ok(Some(Arc::clone(link)));
        }
        *kept = None;
        let Some(link) = self.open_link(spec).await? else { return Ok(None) };
        if slot.holds.load(Ordering::Relaxed) {
            hold(&link, &spec.id).await?;
        }
        let link = Arc::new(link);
        *kept = Some(Arc::clone(&link));
        Ok(Some(link))
    }

    /// Makes this process a holder of a cell that has a supervisor, for as long as it lives. One
    /// that ends just now is found to be gone by whoever needs it next.
    pub(crate) async fn hold_cell(&self, spec: &CellSpec) -> Result<()> {
        self.links.slot(spec).holds.store(true, Ordering::Relaxed);
        let Some(link) = self.find_link(spec).await? else { return Ok(()) };
        match hold(&link, &spec.id).await {
            Err(LinkError::Lost) => Ok(()),
            held => held.map_err(Error::from),
        }
    }

    /// Follows an exec after a seq; `None` when no supervisor has it, or none any more.
    pub(crate) async fn find_following(
        &self,
        exec: &Exec,
        after_seq: u64,
        pace: Pace,
    ) -> Result<Option<Following>> {
        let Some(cell) = self.find_stored(&exec.cell).await? else { return Ok(None) };
        let Some(link) = self.find_link(&cell.spec).await? else { return Ok(None) };
        match timeout(ANSWER_WITHIN, link.follow(exec.id.clone(), after_seq)).await {
            Ok(Ok(following)) => {
                if pace == Pace::Follower {
                    // An exec that cannot wait goes on; what is dropped of its output is stated.
                    let _ = ask(&link, &exec.cell, &Ask::Pace { exec: exec.id.clone() }).await;
                }
                Ok(Some(following))
            }
            Ok(Err(LinkError::Lost)) => Ok(None),
            // A supervisor that was started after the one that had the exec.
            Ok(Err(LinkError::Failed(error))) if error.code == ErrorCode::NotFound => Ok(None),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(stuck(&exec.cell)),
        }
    }

    /// Whether a cell has a supervisor, at the least expense.
    pub(crate) async fn has_supervisor(&self, spec: &CellSpec) -> Result<bool> {
        if self.links.find_open(&CellRef::Id(spec.id.clone())).is_some() {
            return Ok(true);
        }
        Ok(self.driver(&spec.driver)?.connect(&spec.id).await?.is_some())
    }

    async fn open_link(&self, spec: &CellSpec) -> Result<Option<Link>> {
        let driver = self.driver(&spec.driver)?;
        for _ in 0..OPEN_ATTEMPTS {
            let Some(stream) = driver.connect(&spec.id).await? else { return Ok(None) };
            match timeout(ANSWER_WITHIN, Link::open(stream)).await {
                Ok(Ok(link)) => return Ok(Some(link)),
                Ok(Err(LinkError::Lost)) => sleep(OPEN_PAUSE).await,
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => return Err(stuck(&spec.id)),
            }
        }
        Err(Error::unavailable(format!(
            "the supervisor of cell {} drops every connection",
            spec.id
        ))
        .hint("try again; if it stays so, end the cell with `hotcell kill --force`"))
    }
}

/// Asks something that is answered at once by every supervisor that is well.
pub(crate) async fn ask(link: &Link, cell: &CellId, ask: &Ask) -> Result<Tell, LinkError> {
    match timeout(ANSWER_WITHIN, link.ask(ask, &[])).await {
        Ok(answer) => answer,
        Err(_) => Err(LinkError::Failed(stuck(cell))),
    }
}

/// The error for a supervisor that does not answer.
pub(crate) fn stuck(cell: &CellId) -> Error {
    Error::unavailable(format!(
        "the supervisor of cell {cell} did not answer within {} s",
        ANSWER_WITHIN.as_secs()
    ))
    .hint("try again when the machine is less busy, or end the cell with `hotcell kill --force`")
}

async fn hold(link: &Link, cell: &CellId) -> Result<(), LinkError> {
    ask(link, cell, &Ask::Hold).await.map(drop)
}

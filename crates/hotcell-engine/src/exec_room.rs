//! Whether there is room for one more exec: of its tenant, and of all tenants together.
//!
//! As for cells nobody keeps a count: whoever starts an exec adds up what the journals say and who is
//! about to begin, under locks that every process on the state directory shares, and shows that it
//! begins until the exec stands in its journal. Locks are held while it is counted, never while a
//! supervisor is waited for: the slow cell of one tenant holds up no other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use hotcell_model::{
    CellId, CellLock, Error, Exec, ExecFilter, ExecId, ExecStatusFilter, Result, Tenant, Tenants,
};

use crate::admission::{LOOK_AGAIN, RETRY_S, not_its_turn};
use crate::in_line::{Shown, Ticket};
use crate::site::Site;
use crate::tenant_table::{Allowed, Quota};

/// How many execs a refusal names.
const NAMED: usize = 3;
const KEY: &str = "admission.execs";

/// Execs that have not ended, or are about to begin.
#[derive(Debug, Default)]
struct LiveExecs(BTreeMap<Tenant, BTreeSet<ExecId>>);

impl LiveExecs {
    fn insert(&mut self, tenant: &Tenant, exec: ExecId) {
        self.0.entry(tenant.clone()).or_default().insert(exec);
    }

    fn of(&self, tenant: &Tenant) -> u64 {
        self.0.get(tenant).map_or(0, |execs| execs.len() as u64)
    }

    fn of_all(&self) -> u64 {
        self.0.values().map(|execs| execs.len() as u64).sum()
    }
}

/// Who asks for room.
#[derive(Debug, Clone, Copy)]
struct Asks<'a> {
    tenant: &'a Tenant,
    exec: &'a ExecId,
    ticket: &'a Ticket,
}

impl Site {
    /// Waits until one more exec of a tenant may begin, or refuses it. What comes back shows others
    /// that it is about to, until it stands in its journal; nothing where that is not bounded.
    pub(crate) async fn admit_exec(&self, tenant: &Tenant, exec: &ExecId) -> Result<Option<Shown>> {
        let own = self.settings.tenants.allowed(tenant, Quota::Execs);
        if own.is_none() && self.settings.admission.execs.is_none() {
            return Ok(None);
        }
        let until = Instant::now() + self.settings.admission.wait;
        let ticket = Ticket::now(exec);
        let asks = Asks { tenant, exec, ticket: &ticket };
        let mut place: Option<Shown> = None;
        let mut full = not_its_turn(self.settings.admission.wait);
        loop {
            // Of those of one tenant the first looks, so that a thousand cost no more than one.
            if self.comes_first(asks) {
                let mut turn = self.take_turn(tenant).await?;
                let mut looked = self.look_for_exec_room(asks, own.as_ref()).await?;
                if looked.is_err() {
                    drop(turn);
                    self.settle_live(&self.counted(own.as_ref(), tenant)).await;
                    turn = self.take_turn(tenant).await?;
                    looked = self.look_for_exec_room(asks, own.as_ref()).await?;
                }
                match looked {
                    Ok(begins) => return Ok(Some(begins)),
                    Err(error) => full = error,
                }
                drop(turn);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(full);
            }
            match &place {
                Some(place) => place.note_patience(),
                None => place = Some(self.take_place(asks).await?),
            }
            tokio::time::sleep(LOOK_AGAIN.min(left)).await;
        }
    }

    /// Takes what keeps others from counting: first those of the tenant, so that one that floods
    /// has no more than one at the lock of all.
    async fn take_turn(&self, tenant: &Tenant) -> Result<[Option<Box<dyn CellLock>>; 2]> {
        let own = self.store.lock_tenant(tenant).await?;
        let all = match self.settings.admission.execs {
            Some(_) => Some(self.store.lock_execs().await?),
            None => None,
        };
        Ok([Some(own), all])
    }

    /// Whose execs are counted.
    fn counted(&self, own: Option<&Allowed>, tenant: &Tenant) -> Tenants {
        match (self.settings.admission.execs, own) {
            (None, Some(_)) => Tenants::Of(tenant.clone()),
            (Some(_), _) | (None, None) => Tenants::All,
        }
    }

    /// Room for an exec, or why there is none.
    async fn look_for_exec_room(
        &self,
        asks: Asks<'_>,
        own: Option<&Allowed>,
    ) -> Result<std::result::Result<Shown, Error>> {
        let Asks { tenant, exec, .. } = asks;
        let mut live = self.count_live(&self.counted(own, tenant)).await?;
        if let Some(execs) = live.0.get_mut(tenant) {
            // One that is asked for again has its room already.
            execs.remove(exec);
        }
        let has = live.of(tenant);
        if let Some(own) = own.filter(|own| has >= own.limit) {
            return Ok(Err(own.refuse(format!("{has} execs of the tenant have not ended"), has)));
        }
        if let Some(most) = self.settings.admission.execs {
            if live.of_all() >= u64::from(most) {
                return Ok(Err(refusal(&live, tenant, most)));
            }
            if !self.settings.admission.wait.is_zero() && self.others_come_first(asks, &live) {
                return Ok(Err(not_its_turn(self.settings.admission.wait)));
            }
        }
        self.show_beginning(tenant, exec).map(Ok)
    }

    /// Whether somebody of another tenant comes before: whose tenant has fewer, and among equals
    /// whoever was there first. So a tenant that wants much waits for itself.
    fn others_come_first(&self, asks: Asks<'_>, live: &LiveExecs) -> bool {
        let mine = (live.of(asks.tenant), asks.ticket);
        self.first_in_lines().iter().any(|(tenant, ticket)| {
            let has = live.of(tenant);
            // One that could not begin now keeps nobody waiting.
            let own = self.settings.tenants.allowed(tenant, Quota::Execs);
            let may_begin = own.is_none_or(|own| has < own.limit);
            tenant != asks.tenant && may_begin && (has, ticket) < mine
        })
    }

    fn comes_first(&self, asks: Asks<'_>) -> bool {
        self.settings.admission.wait.is_zero()
            || self.first_in_line(asks.tenant).is_none_or(|first| first >= *asks.ticket)
    }

    /// A place among those who wait, if there is one.
    async fn take_place(&self, asks: Asks<'_>) -> Result<Shown> {
        let _own = self.store.lock_tenant(asks.tenant).await?;
        let _all = match self.settings.admission.queue {
            Some(_) => Some(self.store.lock_admission().await?),
            None => None,
        };
        self.check_queue(asks.tenant, self.waiting_cells().await?.as_slice())?;
        self.wait_in_line(asks.tenant, asks.ticket)
    }

    /// The execs of these tenants that have not ended, by the journals of their cells, and those
    /// that are about to begin.
    async fn count_live(&self, tenants: &Tenants) -> Result<LiveExecs> {
        let mut live = LiveExecs::default();
        // First: one that begins is shown until it stands in its journal.
        for (tenant, exec) in self.beginning() {
            if tenants.include(&tenant) {
                live.insert(&tenant, exec);
            }
        }
        let mut owners: HashMap<CellId, Tenant> = HashMap::new();
        for stored in self.store.list_cells(tenants).await? {
            let cell = stored.spec.id;
            if stored.ended_at.is_none()
                && self.cell_dir(&cell).exists()
                && let Err(error) = self.sync(&cell).await
            {
                tracing::warn!(%cell, %error, "the execs of a cell may be miscounted");
            }
            owners.insert(cell, stored.spec.tenant);
        }
        for exec in self.list_live(tenants).await? {
            if let Some(tenant) = owners.get(&exec.cell) {
                live.insert(tenant, exec.id);
            }
        }
        Ok(live)
    }

    async fn list_live(&self, tenants: &Tenants) -> Result<Vec<Exec>> {
        let (tenants, status) = (tenants.clone(), Some(ExecStatusFilter::Live));
        let live = ExecFilter { tenants, cell: None, status, limit: u32::MAX, before: None };
        self.store.list_execs(&live).await
    }

    /// Ends in the index what a dead supervisor left.
    async fn settle_live(&self, tenants: &Tenants) {
        let cells: BTreeSet<CellId> = match self.list_live(tenants).await {
            Ok(seen) => seen.into_iter().map(|exec| exec.cell).collect(),
            Err(error) => {
                tracing::warn!(%error, "execs may be miscounted");
                return;
            }
        };
        for cell in cells {
            if let Err(error) = self.settle(&cell).await {
                tracing::warn!(%cell, %error, "the execs of a cell may be miscounted");
            }
        }
    }
}

/// Tells a tenant of what all have together nothing but its own part.
fn refusal(live: &LiveExecs, tenant: &Tenant, most: u32) -> Error {
    let own = live.of(tenant);
    let execs = live.0.get(tenant).into_iter().flatten();
    let named: Vec<String> = execs.take(NAMED).map(ToString::to_string).collect();
    let cancel = match named.is_empty() {
        true => String::new(),
        false => format!("cancel one ({}), ", named.join(", ")),
    };
    Error::limit_exceeded(format!(
        "{most} execs may be there at once in all, and there are as many; {own} of them are the \
         tenant's"
    ))
    .hint(format!("wait for one to end, {cancel}or let the operator raise {KEY}"))
    .retry_after(RETRY_S)
    .hit(KEY, u64::from(most), own)
}

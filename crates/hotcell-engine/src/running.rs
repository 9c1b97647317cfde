//! How many execs this process has running, where that is bounded, and whose turn is next.
//!
//! An exec goes on whoever waits for it, so its end may be seen by nobody here: what is counted is
//! looked at again when there seems to be no room.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hotcell_model::{CellId, CellRef, Error, ErrorCode, ExecId, ExecState, Result, Tenant};
use tokio::sync::Notify;

use crate::admission::{LOOK_AGAIN, RETRY_S};
use crate::site::Site;

/// How many execs a refusal names.
const NAMED: usize = 3;

/// The execs that this process has begun and not seen the end of; empty where nothing is bounded.
#[derive(Debug, Default)]
pub(crate) struct RunningExecs {
    known: Mutex<HashMap<ExecId, Known>>,
    /// Those who wait, in the order in which they came.
    line: Mutex<BTreeMap<u64, Tenant>>,
    tickets: AtomicU64,
    /// Told when there may be room.
    freed: Notify,
    looked_at: tokio::sync::Mutex<Option<Instant>>,
}

/// An exec that takes room.
#[derive(Debug, Clone)]
struct Known {
    tenant: Tenant,
    /// Once it is known where the exec runs.
    cell: Option<CellId>,
}

/// A place among those who wait.
#[derive(Debug)]
struct Place<'a> {
    running: &'a RunningExecs,
    ticket: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.running.line().remove(&self.ticket);
        self.running.freed.notify_waiters();
    }
}

/// Room for one exec, given back if the exec does not begin.
#[derive(Debug)]
pub(crate) struct ExecRoom<'a> {
    running: &'a RunningExecs,
    exec: Option<ExecId>,
}

impl ExecRoom<'_> {
    /// The exec has begun in this cell, and takes the room until its end.
    pub(crate) fn began(mut self, cell: &CellId) {
        if let Some(exec) = self.exec.take()
            && let Some(known) = self.running.known().get_mut(&exec)
        {
            known.cell = Some(cell.clone());
        }
    }
}

impl Drop for ExecRoom<'_> {
    fn drop(&mut self) {
        if let Some(exec) = &self.exec {
            self.running.forget(exec);
        }
    }
}

impl RunningExecs {
    fn line(&self) -> MutexGuard<'_, BTreeMap<u64, Tenant>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.line().len()
    }

    fn take_place(&self, tenant: &Tenant) -> Place<'_> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        self.line().insert(ticket, tenant.clone());
        Place { running: self, ticket }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<ExecId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note that an exec has ended.
    pub(crate) fn forget(&self, exec: &ExecId) {
        if self.known().remove(exec).is_some() {
            self.freed.notify_waiters();
        }
    }

    /// Room for an exec of a tenant, unless somebody else comes first: whose tenant has fewer, and
    /// among those of one tenant whoever came first. So a tenant that wants much waits for itself.
    fn find_room(
        &self,
        (exec, tenant): (&ExecId, &Tenant),
        ticket: u64,
        most: u32,
    ) -> Option<ExecRoom<'_>> {
        let mut known = self.known();
        if known.contains_key(exec) {
            // One that is asked for again has its room already, and keeps it.
            return Some(ExecRoom { running: self, exec: None });
        }
        if known.len() >= most as usize {
            return None;
        }
        let has = |tenant: &Tenant| known.values().filter(|it| it.tenant == *tenant).count();
        let mine = (has(tenant), ticket);
        if self.line().iter().any(|(ticket, tenant)| (has(tenant), *ticket) < mine) {
            return None;
        }
        known.insert(exec.clone(), Known { tenant: tenant.clone(), cell: None });
        Some(ExecRoom { running: self, exec: Some(exec.clone()) })
    }

    fn refusal(&self, tenant: &Tenant, most: u32) -> Error {
        let known = self.known();
        // Whoever is told of others is told of its own.
        let own = known.iter().filter(|(_, it)| it.tenant == *tenant);
        let mut named: Vec<String> = own.take(NAMED).map(|(exec, _)| exec.to_string()).collect();
        named.sort();
        Error::limit_exceeded(format!(
            "{} execs of this server have not ended, and {most} may be there at once",
            known.len()
        ))
        .hint(format!(
            "wait for one to end, cancel one ({}), or let the operator raise admission.execs",
            named.join(", ")
        ))
        .retry_after(RETRY_S)
        .hit("admission.execs", u64::from(most), known.len() as u64)
    }
}

impl Site {
    /// Waits until one more exec may begin, or refuses it; nothing where that is not bounded.
    pub(crate) async fn admit_exec(
        &self,
        exec: &ExecId,
        cell: &CellRef,
    ) -> Result<Option<ExecRoom<'_>>> {
        let Some(most) = self.settings.admission.execs else { return Ok(None) };
        let tenant = self.tenant_of(cell).await?;
        let until = Instant::now() + self.settings.admission.wait;
        let place = self.running.take_place(&tenant);
        let mut is_first_look = true;
        loop {
            let freed = self.running.freed.notified();
            if let Some(room) = self.running.find_room((exec, &tenant), place.ticket, most) {
                return Ok(Some(room));
            }
            self.forget_ended().await;
            if let Some(room) = self.running.find_room((exec, &tenant), place.ticket, most) {
                return Ok(Some(room));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.running.refusal(&tenant, most));
            }
            if std::mem::take(&mut is_first_look) {
                let in_line = self.running.line().values().filter(|it| **it == tenant).count();
                self.check_queue(&tenant, in_line.saturating_sub(1)).await?;
            }
            tokio::select! {
                () = freed => {}
                () = tokio::time::sleep(LOOK_AGAIN.min(left)) => {}
            }
        }
    }

    /// Looks which of the execs have ended meanwhile; one looks for all who wait.
    async fn forget_ended(&self) {
        let asked_at = Instant::now();
        let mut looked_at = self.running.looked_at.lock().await;
        if looked_at.is_some_and(|at| at >= asked_at) {
            return;
        }
        let known: Vec<_> = self.running.known().clone().into_iter().collect();
        for (exec, known) in known {
            let Some(cell) = known.cell else { continue };
            let has_ended = match self.get_exec_in(&cell, &exec).await {
                Ok(exec) => exec.state == ExecState::Ended,
                Err(error) => error.code == ErrorCode::NotFound,
            };
            if has_ended {
                self.running.forget(&exec);
            }
        }
        *looked_at = Some(Instant::now());
    }
}

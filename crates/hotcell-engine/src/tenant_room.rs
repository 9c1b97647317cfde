//! Whether there is room for one more exec of a tenant, and for one more that waits.
//!
//! As for cells nobody keeps a count: whoever starts an exec adds up what the journals say, under a
//! lock that is the tenant's alone, and holds it until the exec stands in its journal.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::path::PathBuf;
use std::time::Instant;

use hotcell_model::{
    CellId, CellLock, CellRef, Error, ExecFilter, ExecId, ExecStatusFilter, Result, Tenant,
    Tenants, Timestamp,
};

use crate::admission::{LOOK_AGAIN, RETRY_S};
use crate::fault;
use crate::site::Site;
use crate::tenant_table::{Allowed, Quota};

impl Allowed {
    /// The error for one more where there are as many as may be.
    pub(crate) fn refuse(&self, message: String, current: u64) -> Error {
        Error::limit_exceeded(message)
            .hint(format!("wait for one to end, or let the operator raise {}", self.key))
            .retry_after(RETRY_S)
            .hit(&self.key, self.limit, current)
    }
}

impl Site {
    /// Whose a cell is, at the least expense.
    pub(crate) async fn tenant_of(&self, cell: &CellRef) -> Result<Tenant> {
        if let CellRef::Id(id) = cell
            && let Some(tenant) = self.links.tenant_of(id)
        {
            return Ok(tenant);
        }
        Ok(self.get_cell_or_ended(cell).await?.spec.tenant)
    }

    /// Waits until a tenant may have one more exec, or refuses it. What comes back keeps others of
    /// the tenant from looking until the exec stands in its journal; nothing where that is not
    /// bounded.
    pub(crate) async fn admit_for_tenant(
        &self,
        tenant: &Tenant,
        exec: &ExecId,
    ) -> Result<Option<Box<dyn CellLock>>> {
        let Some(allowed) = self.settings.tenants.allowed(tenant, Quota::Execs) else {
            return Ok(None);
        };
        let until = Instant::now() + self.settings.admission.wait;
        let mut waiting = None;
        loop {
            let turn = self.store.lock_tenant(tenant).await?;
            let live = self.count_live(tenant).await?;
            if live < allowed.limit {
                return Ok(Some(turn));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let message = format!("{live} execs of the tenant have not ended");
                return Err(allowed.refuse(message, live));
            }
            if waiting.is_none() {
                self.check_queue(tenant, self.count_waiting_cells(tenant).await?).await?;
                waiting = Some(self.wait_in_line(tenant, exec)?);
            }
            drop(turn);
            tokio::time::sleep(LOOK_AGAIN.min(left)).await;
        }
    }

    /// How many execs of a tenant have not ended, by the journals of its cells.
    async fn count_live(&self, tenant: &Tenant) -> Result<u64> {
        let tenants = Tenants::Of(tenant.clone());
        for stored in self.store.list_cells(&tenants).await? {
            if stored.ended_at.is_none()
                && self.cell_dir(&stored.spec.id).exists()
                && let Err(error) = self.sync(&stored.spec.id).await
            {
                tracing::warn!(cell = %stored.spec.id, %error, "the execs of a cell may be miscounted");
            }
        }
        let live = || {
            let (tenants, status) = (tenants.clone(), Some(ExecStatusFilter::Live));
            ExecFilter { tenants, cell: None, status, limit: u32::MAX, before: None }
        };
        // What a dead supervisor left runs no more.
        let seen = self.store.list_execs(&live()).await?;
        let cells: BTreeSet<CellId> = seen.into_iter().map(|exec| exec.cell).collect();
        for cell in cells {
            if let Err(error) = self.settle(&cell).await {
                tracing::warn!(%cell, %error, "the execs of a cell may be miscounted");
            }
        }
        Ok(self.store.list_execs(&live()).await?.len() as u64)
    }

    /// Refuses what lets the cells of a tenant have more on disk, where they have as much as they may.
    pub(crate) async fn check_disk(&self, tenant: &Tenant) -> Result<()> {
        let Some(allowed) = self.settings.tenants.allowed(tenant, Quota::DiskMb) else {
            return Ok(());
        };
        let mut used = 0_u64;
        for stored in self.store.list_cells(&Tenants::Of(tenant.clone())).await? {
            if stored.ended_at.is_none() {
                let driver = self.driver(&stored.spec.driver)?;
                used = used.saturating_add(driver.disk_bytes(&stored.spec.id).await?.unwrap_or(0));
            }
        }
        if used < allowed.limit << 20 {
            return Ok(());
        }
        let used_mb = used >> 20;
        Err(Error::limit_exceeded(format!("the cells of the tenant have {used_mb} MiB on disk"))
            .hint(format!(
                "remove files, checkpoints or cells, or let the operator raise {}",
                allowed.key
            ))
            .retry_after(RETRY_S)
            .hit(allowed.key, allowed.limit, used_mb))
    }

    /// Refuses a cell with a network where those of its tenant have carried all that they may today.
    pub(crate) async fn check_egress(&self, tenant: &Tenant) -> Result<()> {
        const DAY_MS: u64 = 24 * 3600 * 1000;
        let Some(allowed) = self.settings.tenants.allowed(tenant, Quota::EgressMbPerDay) else {
            return Ok(());
        };
        let mut used = 0_u64;
        // Those that have ended today count as well. Of those whose driver is gone nobody knows.
        for stored in self.store.list_cells(&Tenants::Of(tenant.clone())).await? {
            if let Ok(driver) = self.driver(&stored.spec.driver)
                && let Some(networks) = driver.networks()
            {
                let records = self.records(&stored.spec.id);
                used = used.saturating_add(networks.used_today(&records).await?);
            }
        }
        if used < allowed.limit << 20 {
            return Ok(());
        }
        let used_mb = used >> 20;
        let message = format!("the cells of the tenant have carried {used_mb} MiB today");
        let left_ms = DAY_MS - Timestamp::now().0 % DAY_MS;
        Err(Error::limit_exceeded(message)
            .hint(format!(
                "wait for the next day of UTC, make the cell without a network, or let the \
                 operator raise {}",
                allowed.key
            ))
            .retry_after(left_ms.div_ceil(1000))
            .hit(allowed.key, allowed.limit, used_mb))
    }

    async fn count_waiting_cells(&self, tenant: &Tenant) -> Result<usize> {
        let mut count = 0;
        for stored in self.store.list_cells(&Tenants::Of(tenant.clone())).await? {
            if stored.ended_at.is_none() && self.is_waiting(&stored.spec.id).await {
                count += 1;
            }
        }
        Ok(count)
    }

    /// Refuses one more that waits, beside so many cells of the tenant.
    pub(crate) async fn check_queue(&self, tenant: &Tenant, cells: usize) -> Result<()> {
        let Some(allowed) = self.settings.tenants.allowed(tenant, Quota::Queue) else {
            return Ok(());
        };
        let waiting = cells as u64 + self.count_waiting_execs(tenant);
        if waiting < allowed.limit {
            return Ok(());
        }
        Err(allowed.refuse(format!("{waiting} of the tenant wait for room already"), waiting))
    }

    /// Where those who wait to begin an exec of a tenant show it.
    fn line_of(&self, tenant: &Tenant) -> PathBuf {
        self.waiting_dir().join(tenant.as_str())
    }

    fn count_waiting_execs(&self, tenant: &Tenant) -> u64 {
        let Ok(entries) = fs::read_dir(self.line_of(tenant)) else { return 0 };
        let mut count = 0;
        for entry in entries.flatten() {
            let Ok(file) = File::open(entry.path()) else { continue };
            if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
                count += 1;
            } else {
                // Whoever waited is gone.
                let _ = fs::remove_file(entry.path());
            }
        }
        count
    }

    /// Shows others that somebody waits, until what comes back is dropped or this process ends.
    fn wait_in_line(&self, tenant: &Tenant, exec: &ExecId) -> Result<InLine> {
        let failed = |error| fault::io(format_args!("wait for room for exec {exec}"), &error);
        let line = self.line_of(tenant);
        fs::create_dir_all(&line).map_err(failed)?;
        let path = line.join(exec.as_str());
        let file = File::create(&path).map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(InLine { path, _file: file })
    }
}

/// Somebody who waits.
#[derive(Debug)]
struct InLine {
    path: PathBuf,
    _file: File,
}

impl Drop for InLine {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

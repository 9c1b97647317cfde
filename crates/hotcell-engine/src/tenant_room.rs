//! Whether a tenant may have more on disk, carry more over the network, and have one more wait.

use hotcell_model::{CellRef, Error, Result, Tenant, Tenants, Timestamp};

use crate::admission::RETRY_S;
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

    /// Refuses what lets the cells of a tenant have more on disk, where they have as much as they may.
    pub(crate) async fn check_disk(&self, tenant: &Tenant) -> Result<()> {
        let Some(allowed) = self.settings.tenants.allowed(tenant, Quota::DiskMb) else {
            return Ok(());
        };
        let mut used = 0_u64;
        for stored in self.store.list_cells(&Tenants::Of(tenant.clone())).await? {
            if stored.ended_at.is_none() || stored.kept {
                let driver = self.driver(&stored.spec.driver)?;
                used = used.saturating_add(driver.disk_bytes(&stored.spec.id).await?.unwrap_or(0));
            }
        }
        if used < allowed.limit.saturating_mul(1 << 20) {
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

    /// Refuses a cell with a network where those of its tenant, or all, have carried all that they
    /// may today.
    pub(crate) async fn check_egress(&self, tenant: &Tenant) -> Result<()> {
        const DAY_MS: u64 = 24 * 3600 * 1000;
        let own = self.settings.tenants.allowed(tenant, Quota::EgressMbPerDay);
        let own = own.map(|allowed| (Tenants::Of(tenant.clone()), allowed));
        let all = self.settings.admission.egress_mb_per_day.map(|limit| {
            (Tenants::All, Allowed { limit, key: "admission.egress_mb_per_day".to_owned() })
        });
        for (tenants, allowed) in own.into_iter().chain(all) {
            let carried = self.carried_today(&tenants).await?;
            if carried < allowed.limit.saturating_mul(1 << 20) {
                continue;
            }
            let own = match &tenants {
                Tenants::Of(_) => carried,
                Tenants::All => self.carried_today(&Tenants::Of(tenant.clone())).await?,
            };
            let own_mb = own >> 20;
            let message = match &tenants {
                Tenants::Of(_) => {
                    format!("the cells of the tenant have carried {own_mb} MiB today")
                }
                Tenants::All => format!(
                    "all cells together have carried the {} MiB that they may today; {own_mb} of \
                     them were the tenant's",
                    allowed.limit
                ),
            };
            let left_ms = DAY_MS - Timestamp::now().0 % DAY_MS;
            return Err(Error::limit_exceeded(message)
                .hint(format!(
                    "wait for the next day of UTC, make the cell without a network, or let the \
                     operator raise {}",
                    allowed.key
                ))
                .retry_after(left_ms.div_ceil(1000))
                .hit(allowed.key, allowed.limit, own_mb));
        }
        Ok(())
    }

    /// Bytes that the cells of these tenants have carried today, those that have ended included. Of
    /// those whose driver is gone nobody knows.
    async fn carried_today(&self, tenants: &Tenants) -> Result<u64> {
        let mut carried = 0_u64;
        for stored in self.store.list_cells(tenants).await? {
            if let Ok(driver) = self.driver(&stored.spec.driver)
                && let Some(networks) = driver.networks()
            {
                let records = self.records(&stored.spec.id);
                carried = carried.saturating_add(networks.used_today(&records).await?);
            }
        }
        Ok(carried)
    }

    /// Refuses one more of a tenant that waits, beside these cells.
    pub(crate) fn check_queue(&self, tenant: &Tenant, cells: &[Tenant]) -> Result<()> {
        let own_cells = cells.iter().filter(|whose| *whose == tenant).count() as u64;
        let own = self.settings.tenants.allowed(tenant, Quota::Queue);
        let all = self.settings.admission.queue;
        if own.is_none() && all.is_none() {
            return Ok(());
        }
        let waiting = own_cells + self.count_in_line(tenant);
        if let Some(allowed) = own.filter(|own| waiting >= own.limit) {
            let message = format!("{waiting} of the tenant wait for room already");
            return Err(allowed.refuse(message, waiting));
        }
        let Some(most) = all.map(u64::from) else { return Ok(()) };
        // There is room for whoever comes next: nobody takes more than what is left.
        let free = most.saturating_sub(cells.len() as u64 + self.count_in_lines());
        if waiting < free {
            return Ok(());
        }
        let allowed = Allowed { limit: most, key: "admission.queue".to_owned() };
        let message = format!(
            "{most} may wait for room in all, no more are free than the tenant has, and {waiting} \
             of the tenant wait already"
        );
        Err(allowed.refuse(message, waiting))
    }
}

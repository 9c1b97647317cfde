//! What the cells of a tenant, and all together, may still carry today, as the keeper of one of them
//! sees it.

use std::fs;
use std::io;
use std::path::Path;

use hotcell_egress::{Allowance, TenantBytes, used_today};
use hotcell_model::{Tenant, Tenants};

/// Where it stands beside a cell's records whose they are; there is none for those of `main`.
const TENANT: &str = "tenant";

/// Whether the cells of a tenant may carry more. What cannot be added up is taken to be used up.
pub(crate) fn allowance(most: &TenantBytes, tenant: &Tenant, records: &Path) -> Allowance {
    let own = most.of(tenant).map(|most| (Tenants::Of(tenant.clone()), most));
    let all = most.all.map(|most| (Tenants::All, most));
    let cells = records.parent().and_then(Path::parent);
    let is_below = |(tenants, most): &(Tenants, u64)| matches!(cells.map(|cells| carried(cells, tenants)), Some(Ok(carried)) if carried < *most);
    match own.iter().chain(&all).all(is_below) {
        true => Allowance::Open,
        false => Allowance::UsedUp,
    }
}

/// What the cells of these tenants have carried today, those that have ended since included.
fn carried(cells: &Path, tenants: &Tenants) -> io::Result<u64> {
    let mut sum = 0_u64;
    for entry in fs::read_dir(cells)? {
        let cell = entry?.path();
        let is_theirs = match tenants {
            Tenants::All => true,
            Tenants::Of(tenant) => match fs::read_to_string(cell.join(TENANT)) {
                Ok(owner) => owner == tenant.as_str(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => tenant.is_default(),
                Err(_) => false,
            },
        };
        if is_theirs {
            sum = sum.saturating_add(used_today(&cell.join("records")));
        }
    }
    Ok(sum)
}

#[cfg(test)]
#[path = "tenant_egress_tests.rs"]
mod tests;

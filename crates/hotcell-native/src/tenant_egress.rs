//! What the cells of a tenant may still carry today, as the keeper of one of them sees it.

use std::fs;
use std::io;
use std::path::Path;

use hotcell_egress::{Allowance, TenantBytes, used_today};
use hotcell_model::Tenant;

/// Where it stands beside a cell's records whose they are; there is none for those of `main`.
const TENANT: &str = "tenant";

/// Whether the cells of a tenant may carry more. What cannot be added up is taken to be used up.
pub(crate) fn allowance(most: &TenantBytes, tenant: &Tenant, records: &Path) -> Allowance {
    let Some(most) = most.of(tenant) else { return Allowance::Open };
    let cells = records.parent().and_then(Path::parent);
    match cells.map(|cells| carried(cells, tenant)) {
        Some(Ok(carried)) if carried < most => Allowance::Open,
        Some(Ok(_) | Err(_)) | None => Allowance::UsedUp,
    }
}

/// What the cells of a tenant have carried today, those that have ended since included.
fn carried(cells: &Path, tenant: &Tenant) -> io::Result<u64> {
    let mut sum = 0_u64;
    for entry in fs::read_dir(cells)? {
        let cell = entry?.path();
        let is_theirs = match fs::read_to_string(cell.join(TENANT)) {
            Ok(owner) => owner == tenant.as_str(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => tenant.is_default(),
            Err(_) => false,
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

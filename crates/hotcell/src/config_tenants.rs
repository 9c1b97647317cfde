//! What the configuration says of tenants: `[tenants.NAME]`, and `[tenants.default]` for all others.

use hotcell_engine::{Quota, TenantSettings, TenantTable};
use hotcell_model::{Error, Result};
use serde_json::Value;

use crate::config_keys::{joined, parsed};

/// One key of a tenant.
pub(crate) struct TenantKey {
    /// Its name in the tenant's table.
    pub(crate) name: &'static str,
    /// What it means.
    pub(crate) about: &'static str,
    set: fn(&mut TenantSettings, &str) -> Result<(), String>,
    get: fn(&TenantSettings) -> Option<Value>,
}

macro_rules! quota {
    ($quota:ident, $name:literal, $about:literal) => {
        TenantKey {
            name: $name,
            about: $about,
            set: |settings, text| {
                let limit: u64 = text.trim().parse().map_err(|_| "it is no number".to_owned())?;
                settings.quotas.insert(Quota::$quota, limit);
                Ok(())
            },
            get: |settings| settings.quotas.get(&Quota::$quota).map(|limit| (*limit).into()),
        }
    };
}

/// Every key there is; the page on tenants has the same.
pub(crate) const TENANT_KEYS: &[TenantKey] = &[
    TenantKey {
        name: "secrets",
        about: "secrets that its agents may have cells granted, instead of serve.secrets",
        set: |settings, text| {
            settings.secrets = Some(parsed(text)?);
            Ok(())
        },
        get: |settings| settings.secrets.as_deref().map(joined),
    },
    quota!(Cells, "cells", "cells that may have processes at once"),
    quota!(
        MemoryMb,
        "memory_mb",
        "MiB that the memory limits of its cells with processes may come to"
    ),
    quota!(Execs, "execs", "execs that may run or be queued at once, in all of its cells"),
    quota!(Queue, "queue", "cells and execs that may wait for room at once"),
    quota!(DiskMb, "disk_mb", "MiB that its cells may have on disk together, as last measured"),
    quota!(
        EgressMbPerDay,
        "egress_mb_per_day",
        "MiB that its cells may send and receive over the network in a day of UTC"
    ),
    quota!(CallsPerS, "calls_per_s", "calls a second that a server takes from it"),
    quota!(
        CallsBurst,
        "calls_burst",
        "calls that a server takes at once after a pause; else calls_per_s"
    ),
];

/// Takes `tenants.NAME.KEY`; whether it was one of them.
///
/// # Errors
/// `invalid` for a name that no tenant has, a key that there is not, or a value that it cannot have.
pub(crate) fn take(table: &mut TenantTable, name: &str, value: &str) -> Result<bool> {
    let Some(rest) = name.strip_prefix("tenants.") else { return Ok(false) };
    let known = || TENANT_KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", ");
    let (tenant, key) = rest.split_once('.').unwrap_or((rest, ""));
    let key = TENANT_KEYS.iter().find(|known| known.name == key).ok_or_else(|| {
        Error::invalid(format!("the key {name:?} means nothing to hotcell"))
            .hint(format!("[tenants.{tenant}] has {}", known()))
    })?;
    let settings = match tenant {
        TenantTable::OTHERS => &mut table.others,
        tenant => table.named.entry(tenant.parse()?).or_default(),
    };
    (key.set)(settings, value).map_err(|problem| {
        Error::invalid(format!("{name} cannot be {value:?}: {problem}"))
            .hint(format!("{} is {}", key.name, key.about))
    })?;
    Ok(true)
}

/// Every key that is said, with its value: what holds for all others first.
pub(crate) fn entries(table: &TenantTable) -> impl Iterator<Item = (String, Value)> {
    let others = (TenantTable::OTHERS, &table.others);
    let named = table.named.iter().map(|(tenant, settings)| (tenant.as_str(), settings));
    std::iter::once(others).chain(named).flat_map(|(tenant, settings)| {
        let said = |key: &TenantKey| {
            Some((format!("tenants.{tenant}.{}", key.name), (key.get)(settings)?))
        };
        TENANT_KEYS.iter().filter_map(said).collect::<Vec<_>>()
    })
}

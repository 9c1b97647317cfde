//! What an operator says of tenants.

use std::collections::BTreeMap;

use hotcell_model::{SecretGrant, Tenant};

/// What is said of one tenant; what is not said is as for all of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TenantSettings {
    /// The secrets that its cells may be granted.
    pub secrets: Option<Vec<SecretGrant>>,
    /// How much it may have of each.
    pub quotas: BTreeMap<Quota, u64>,
}

/// What a tenant may have only so much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quota {
    /// Cells that have processes.
    Cells,
    /// Execs that have not ended.
    Execs,
    /// Cells and execs that wait for room.
    Queue,
    /// The sum of the memory limits of its cells that have processes, in MiB.
    MemoryMb,
    /// What its cells have on disk, as last measured, in MiB.
    DiskMb,
    /// What its cells send and receive over the network in a day (UTC), in MiB.
    EgressMbPerDay,
    /// Calls a second of one server.
    CallsPerS,
    /// Calls that may come at once after a pause.
    CallsBurst,
}

impl Quota {
    /// Its key in the table of a tenant.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Cells => "cells",
            Self::Execs => "execs",
            Self::Queue => "queue",
            Self::MemoryMb => "memory_mb",
            Self::DiskMb => "disk_mb",
            Self::EgressMbPerDay => "egress_mb_per_day",
            Self::CallsPerS => "calls_per_s",
            Self::CallsBurst => "calls_burst",
        }
    }
}

/// How much a tenant may have of something, and where that is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// How much.
    pub limit: u64,
    /// The key that says it.
    pub key: String,
}

/// What is said of tenants.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TenantTable {
    /// Of those that are named.
    pub named: BTreeMap<Tenant, TenantSettings>,
    /// Of all others, and what is not said of a named one.
    pub others: TenantSettings,
}

impl TenantTable {
    /// What stands for the tenants that nothing else is said of.
    pub const OTHERS: &'static str = "default";

    /// The secrets that cells of a tenant may be granted, if that is said.
    pub(crate) fn secrets_of(&self, tenant: &Tenant) -> Option<&[SecretGrant]> {
        let own = self.named.get(tenant).and_then(|settings| settings.secrets.as_deref());
        own.or(self.others.secrets.as_deref())
    }

    /// How much a tenant may have, if that is bounded.
    #[must_use]
    pub fn allowed(&self, tenant: &Tenant, quota: Quota) -> Option<Allowed> {
        let own = self.named.get(tenant).and_then(|settings| settings.quotas.get(&quota));
        let (limit, table) = match own {
            Some(limit) => (*limit, tenant.as_str()),
            None => (*self.others.quotas.get(&quota)?, Self::OTHERS),
        };
        Some(Allowed { limit, key: format!("tenants.{table}.{}", quota.key()) })
    }
}

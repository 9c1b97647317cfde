//! A cell: what was asked for, and what is known of it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Alias, CellId, CheckpointBefore, Isolation, Limits, Network, SecretGrant, SecretName,
    SessionBounds, Tenant, Timestamp, Workspace, WorkspaceMode,
};

/// What keeps a cell in being.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Persistent: until it is killed or its TTL is over. Sleeps while nothing runs.
    Always,
    /// As long as a process holds a link to it, and the orphan grace after that.
    Holder,
    /// As long as a server holds a link to it, and the orphan grace after that. Every server on the
    /// state directory takes over what another one leaves.
    Server,
    /// Made ahead of need: as long as a server holds a link to it, until it is given out as the cell
    /// of somebody who asks for one of its shape.
    Pool,
    /// As long as an exec runs in it.
    Exec,
    /// Until its TTL is over.
    Ttl,
}

/// Where a cell is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// Being made.
    Starting,
    /// Its supervisor answers.
    Ready,
    /// No processes, files kept; wakes at the next use.
    Asleep,
    /// Its supervisor died, the machine was restarted, or its servers left; files kept, wakes at
    /// the next use.
    Stopped,
    /// Its place cannot be reached at present.
    Unavailable,
}

impl CellState {
    /// The state as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Asleep => "asleep",
            Self::Stopped => "stopped",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Why a supervisor ended by itself; the last entry of its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// Nothing ran for a while: files are kept and the cell wakes at the next use.
    Asleep,
    /// The servers that served it have left: files are kept and the cell wakes at the next use.
    Stopped,
    /// A caller ended the cell.
    Killed,
    /// Its TTL is over.
    Expired,
    /// Nothing ran for its idle TTL.
    Idle,
    /// Its holder went away and did not come back within the grace.
    Orphaned,
    /// The exec it was made for has ended.
    ExecEnded,
}

impl CloseReason {
    /// Whether the cell's files are to be removed.
    #[must_use]
    pub fn removes_files(self) -> bool {
        match self {
            Self::Asleep | Self::Stopped => false,
            Self::Killed | Self::Expired | Self::Idle | Self::Orphaned | Self::ExecEnded => true,
        }
    }
}

/// All that is decided when a cell is spawned. It never changes afterwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellSpec {
    /// Its name for ever.
    pub id: CellId,
    /// Whose it is.
    #[serde(default)]
    pub tenant: Tenant,
    /// The name its user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<Alias>,
    /// The driver that places it.
    pub driver: String,
    /// The root file system it starts from.
    pub image: String,
    /// What keeps it in being.
    pub keep: Keep,
    /// Seconds after `created_at` at which it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<u64>,
    /// Seconds without a running exec after which it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ttl_s: Option<u64>,
    /// Seconds without a running exec after which a persistent cell falls asleep.
    pub sleep_after_s: u64,
    /// Seconds that a held cell waits for another holder.
    pub orphan_grace_s: u64,
    /// What it may use.
    pub limits: Limits,
    /// Execs that run in it at once.
    pub max_running: u32,
    /// Bytes of output kept per exec.
    pub output_bytes: u64,
    /// What sessions of code may take up in it.
    #[serde(default)]
    pub sessions: SessionBounds,
    /// What it can reach.
    pub network: Network,
    /// The directory of the host that is its workspace; none for one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// Variables that every exec in it gets.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Secrets that it is granted, by name; their values stand nowhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretGrant>,
    /// Before which of its commands a checkpoint is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_before: Option<CheckpointBefore>,
    /// Labels that its place must have, for a driver with several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub on: BTreeMap<String, String>,
    /// Notes of the front that made it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When it was spawned.
    pub created_at: Timestamp,
}

impl CellSpec {
    /// What a cell that was made ahead of need can be given out as; `None` for every other cell.
    #[must_use]
    pub fn pool_shape(&self) -> Option<String> {
        (self.keep == Keep::Pool).then(|| self.shape())
    }

    /// What has to be the same of two cells for one to be given out as the other: what its place and
    /// its processes were made by. All else is told to its supervisor.
    #[must_use]
    pub fn shape(&self) -> String {
        let Limits { memory_mb, cpus, pids, disk_mb, disk_files } = self.limits;
        let cpus = cpus.map(f64::to_bits);
        let on: String = self.on.iter().map(|(label, value)| format!("{label}={value} ")).collect();
        let Self { driver, image, .. } = self;
        format!("{driver} {on}{memory_mb} {cpus:?} {pids} {disk_mb} {disk_files} {image}")
    }

    /// The driver that has to make changes of the host visible in the cell; none where they are
    /// anyway.
    #[must_use]
    pub fn refreshed_by(&self) -> Option<&str> {
        let copies = self.workspace.as_ref().is_some_and(|it| it.mode == WorkspaceMode::Cow);
        copies.then_some(self.driver.as_str())
    }
}

/// A cell as callers see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Its id.
    pub id: CellId,
    /// Whose it is; left out for the tenant `main`.
    #[serde(default, skip_serializing_if = "Tenant::is_default")]
    #[schemars(with = "String")]
    pub tenant: Tenant,
    /// The name its user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<Alias>,
    /// Where it is in its life.
    pub state: CellState,
    /// The driver that placed it.
    pub driver: String,
    /// The root file system it started from.
    pub image: String,
    /// Whether it stays until it is killed.
    pub persistent: bool,
    /// When it was spawned.
    pub created_at: Timestamp,
    /// When its TTL is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// What it may use.
    pub limits: Limits,
    /// What it can reach.
    pub network: Network,
    /// The directory of the host that is its workspace; none for one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// The names of the secrets that it is granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub secrets: Vec<SecretName>,
    /// Before which of its commands a checkpoint is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_before: Option<CheckpointBefore>,
    /// The labels that were asked of its place.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub on: BTreeMap<String, String>,
    /// What separates it from the host; known once it has been started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
}

impl Cell {
    /// The caller's view of a cell in this state.
    #[must_use]
    pub fn from_spec(spec: &CellSpec, state: CellState, isolation: Option<Isolation>) -> Self {
        Self {
            id: spec.id.clone(),
            tenant: spec.tenant.clone(),
            alias: spec.alias.clone(),
            state,
            driver: spec.driver.clone(),
            image: spec.image.clone(),
            persistent: spec.keep == Keep::Always,
            created_at: spec.created_at,
            expires_at: spec.ttl_s.map(|ttl| spec.created_at.plus_seconds(ttl)),
            limits: spec.limits,
            network: spec.network.clone(),
            workspace: spec.workspace.clone(),
            secrets: names_of(&spec.secrets),
            checkpoint_before: spec.checkpoint_before,
            on: spec.on.clone(),
            isolation,
        }
    }
}

/// Each name once: a secret may be granted in several forms.
fn names_of(grants: &[SecretGrant]) -> Vec<SecretName> {
    let mut names: Vec<SecretName> = Vec::new();
    for grant in grants {
        if !names.contains(&grant.name) {
            names.push(grant.name.clone());
        }
    }
    names
}

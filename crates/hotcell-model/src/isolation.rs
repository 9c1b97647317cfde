//! What really separates a cell from its host: reported, never assumed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How well a cell is separated, in one word. The better level is the greater one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum IsolationLevel {
    /// No namespaces at all: commands are processes of the host, kept by Landlock and a filter of
    /// system calls. Only where an operator says that this is enough.
    Process,
    /// Namespaces keep it apart, but some limit or layer is missing; `missing` names it.
    #[default]
    Limited,
    /// Every layer that this version of Hotcell applies is in force.
    Full,
}

impl IsolationLevel {
    /// The level as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Limited => "limited",
            Self::Full => "full",
        }
    }
}

/// The names of all layers that there are.
pub const LAYER_NAMES: [&str; 19] = [
    "user_namespace",
    "mount_namespace",
    "pid_namespace",
    "network_namespace",
    "ipc_namespace",
    "uts_namespace",
    "cgroup_namespace",
    "no_capabilities",
    "no_new_privs",
    "masked_proc",
    "private_ids",
    "tree_kill",
    "memory_limit",
    "swap_limit",
    "pids_limit",
    "cpu_limit",
    "disk_limit",
    "seccomp_filter",
    "landlock",
];

/// A layer that is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layer {
    /// Its name, such as `user_namespace` or `memory_limit`.
    pub name: String,
    /// By which means, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means: Option<String>,
}

/// A layer that is not in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingLayer {
    /// Its name.
    pub name: String,
    /// Why this machine cannot enforce it.
    pub reason: String,
    /// What would change that.
    pub remedy: String,
}

/// The effective isolation of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Isolation {
    /// In one word.
    pub level: IsolationLevel,
    /// What is in force.
    pub layers: Vec<Layer>,
    /// What is not.
    pub missing: Vec<MissingLayer>,
}

/// What an operator wants every cell to have at least.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RequiredIsolation {
    /// The level.
    pub level: IsolationLevel,
    /// Layers that must be in force whatever the level, by name.
    pub layers: Vec<String>,
}

impl RequiredIsolation {
    /// Whether a cell with this isolation may be started.
    ///
    /// # Errors
    /// `unsupported` with what is missing, why, and what would change that.
    pub fn check(&self, isolation: &Isolation) -> Result<()> {
        let in_force = |name: &String| isolation.layers.iter().any(|layer| layer.name == *name);
        let absent: Vec<&String> = self.layers.iter().filter(|name| !in_force(name)).collect();
        let below = isolation.level < self.level;
        if !below && absent.is_empty() {
            return Ok(());
        }
        let concerns = |it: &&MissingLayer| below || absent.contains(&&it.name);
        let lacking: Vec<&MissingLayer> = isolation.missing.iter().filter(concerns).collect();
        let mut wanted: Vec<String> =
            absent.iter().map(|name| format!("{name} is required")).collect();
        if below {
            let (asked, given) = (self.level.as_str(), isolation.level.as_str());
            wanted.push(format!("level {asked} is required and this is {given}"));
        }
        let why = |it: &&MissingLayer| format!("no {} ({})", it.name, it.reason);
        wanted.extend(lacking.iter().map(why));
        let mut remedies: Vec<&str> = Vec::new();
        for remedy in lacking.iter().map(|it| it.remedy.as_str()) {
            if !remedies.contains(&remedy) {
                remedies.push(remedy);
            }
        }
        remedies.push("or ask for less with native.level and native.require");
        let wanted = wanted.join("; ");
        let message = format!("cells here are less isolated than they must be: {wanted}");
        Err(Error::unsupported(message).hint(remedies.join("; ")))
    }
}

impl Isolation {
    /// The isolation that follows from these layers.
    #[must_use]
    pub fn from_layers(layers: Vec<Layer>, missing: Vec<MissingLayer>) -> Self {
        let has_host_root = |it: &MissingLayer| it.name == "mount_namespace";
        let level = if missing.is_empty() {
            IsolationLevel::Full
        } else if missing.iter().any(has_host_root) {
            IsolationLevel::Process
        } else {
            IsolationLevel::Limited
        };
        Self { level, layers, missing }
    }
}

#[cfg(test)]
#[path = "isolation_tests.rs"]
mod isolation_tests;

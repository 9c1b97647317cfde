//! What a runner is told to run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One run, as JSON in the file that a runner reads first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The id of the exec.
    pub run: String,
    /// The source that is run as the module `__main__`.
    pub code: String,
    /// The whole environment; `None` keeps the one that the process has.
    pub env: Option<BTreeMap<String, String>>,
    /// The directory, as the cell sees it, for artifacts and for results that do not fit.
    pub results: String,
    /// What the run may report.
    pub limits: Limits,
    /// Whether the process takes on another run after this one.
    #[serde(default)]
    pub session: bool,
}

/// The bounds that a runner keeps by itself. They are for short answers; safety is the cell's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The most bytes of a report.
    pub report_bytes: u32,
    /// The most seconds of CPU time of each process; code cannot raise it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    /// The most bytes of data that a process may have in memory; code cannot raise it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { report_bytes: 262_144, cpu_seconds: None, memory_bytes: None }
    }
}

/// What a zygote imports ahead of need; what is absent is passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZygoteOrder {
    /// Names of modules, in this order.
    pub imports: Vec<String>,
}

/// How a runner is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmth {
    /// A process of its own, which runs one order.
    Cold,
    /// A process that imports ahead and forks the runs to come.
    Zygote,
}

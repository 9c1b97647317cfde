//! What a runner is told to run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One run, as JSON in the file that a runner reads first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The id of the exec.
    pub run: String,
    /// The source: of Python run as the module `__main__`.
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

/// Of each line of a text that was made from another one: where a part of it begins, and the line and
/// the column where that stood. All count from 0, columns in UTF-16.
pub type Places = Vec<Vec<[u32; 3]>>;

/// What was put into a line of code; both numbers count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inserted {
    /// The line.
    pub line: u32,
    /// The column before which it was put.
    pub column: u32,
    /// Its length.
    pub length: u32,
}

/// One run of JavaScript, as its runner reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptOrder {
    /// What was written.
    pub source: String,
    /// What is run: a module of JavaScript, which exports the value of its last expression.
    pub code: String,
    /// Where parts of it stood in what was written; `None` where every line is as it was.
    pub map: Option<Places>,
    /// What was put in to export that value.
    pub inserted: Option<Inserted>,
    /// As of [`Order`].
    pub results: String,
    /// As of [`Order`].
    pub limits: Limits,
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

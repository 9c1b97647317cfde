//! Tools of other servers, as callers and code ask for them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ExecId, ToolAnswer};

/// Calls a tool, on behalf of code that runs or of the caller itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolRun {
    /// The exec whose code calls; none where the caller does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecId>,
    /// The server, as code names it.
    pub server: String,
    /// The tool, as code names it.
    pub tool: String,
    /// What it is called with.
    pub arguments: Map<String, Value>,
}

impl ToolRun {
    /// The tool's full name, by which rules speak of it.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.server, self.tool)
    }

    /// How long its arguments are as JSON.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        serde_json::to_vec(&self.arguments).map_or(0, |json| json.len() as u64)
    }
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRan {
    /// Its result, or what it says of its failure.
    pub value: Value,
    /// Whether it says that it failed.
    pub failed: bool,
    /// How long the answer was as JSON.
    pub bytes: u64,
    /// What its result would cost a model, by estimate.
    pub tokens: u64,
    /// The answer as it came, where the caller itself called.
    pub answer: Option<Box<ToolAnswer>>,
}

/// Lists the tools that are handed to clients as they are, beside Hotcell's own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolList {
    /// A list that is known already: it is waited until there may be another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// How long servers may take that were never listed; the rest is listed then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

/// Tools that are handed to clients as they are.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolsListed {
    /// Which list this is; it grows with every other one.
    pub version: u64,
    /// In the order of their names.
    pub tools: Vec<PassedTool>,
}

/// A tool of another server that is handed to clients as it is. All but its names is its server's word.
#[derive(Debug, Clone, PartialEq)]
pub struct PassedTool {
    /// What clients call it.
    pub name: String,
    /// Its server, as code names it.
    pub server: String,
    /// Itself, as code names it.
    pub tool: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: String,
    /// What it takes.
    pub input_schema: Map<String, Value>,
    /// What it is said to do, where the operator takes its server at its word.
    pub hints: Option<ToolHints>,
}

/// What a tool is said to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolHints {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy something.
    pub destructive: Option<bool>,
    /// Doing it twice is the same as once.
    pub idempotent: Option<bool>,
    /// It reaches what is outside.
    pub open_world: Option<bool>,
}

/// Looks for tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSearch {
    /// Words for what is wanted.
    pub query: String,
    /// How much is told of each.
    pub detail: ToolDetail,
    /// Only in this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How many at most.
    pub limit: u32,
}

/// How much is told of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolDetail {
    /// `server.tool`.
    Name,
    /// The stub on one line.
    #[default]
    Stub,
    /// Types, words and an example, within a bound.
    Full,
    /// All of it, however long.
    Whole,
}

/// Tools that were found, the best first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ToolsFound {
    /// A line or a stub for each.
    pub tools: Vec<String>,
    /// How many tools there are in all.
    pub of: u64,
    /// Servers whose tools are not known, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Servers among these whose calls await approval, and how the operator changes that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approval: Vec<String>,
    /// What to try instead; only if no tool fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ToolsFound {
    /// The same result, with a hint if no tool fits.
    #[must_use]
    pub fn with_hint(mut self) -> Self {
        self.hint = self.tools.is_empty().then(|| {
            format!(
                "none of {} tools fits; use other words for the task, or name a `server` to see its tools",
                self.of
            )
        });
        self
    }
}

/// Lists the names that code can import: those of all servers, or of the tools of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolNames {
    /// Of which server; of all servers when left out.
    pub server: Option<String>,
}

/// Names that code can import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamesFound {
    /// In order.
    pub names: Vec<String>,
}

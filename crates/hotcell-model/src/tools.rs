//! Tools of other servers, as callers and code ask for them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ExecId;

/// Calls a tool on behalf of code that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolRun {
    /// The exec whose code calls.
    pub exec: ExecId,
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
    /// All of it.
    Full,
}

/// Tools that were found, the best first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolsFound {
    /// A line or a stub for each.
    pub tools: Vec<String>,
    /// How many tools there are in all.
    pub of: u64,
    /// Servers whose tools are not known, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
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

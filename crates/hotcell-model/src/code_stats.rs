//! What runs of code came to, all together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Anomaly, CodeTokens, Tally, Tenant, Timestamp};

/// Tells what runs of code came to, as far as the ledger goes back.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CodeStats {
    /// Only what was written down at that time or later.
    pub since: Option<Timestamp>,
    /// Only what was written down before that time.
    pub until: Option<Timestamp>,
    /// Only of this tenant.
    pub tenant: Option<Tenant>,
}

/// What runs of code came to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CodeFigures {
    /// Runs that ended.
    pub runs: u64,
    /// Those of them that came to their end with exit code 0.
    pub succeeded: u64,
    /// The share of those, if there were any runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_rate: Option<f64>,
    /// How runs ended: `ok`, `error`, or the cause.
    pub ends: Vec<Tally>,
    /// Half of the latest runs took no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<u64>,
    /// Nineteen of twenty of them took no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<u64>,
    /// The tools that code called, the most called first.
    pub tools: Vec<ToolFigures>,
    /// What was shown to callers, and what was kept out of their context.
    pub tokens: CodeTokens,
    /// Answers in which something was cut.
    pub cut: u64,
    /// What stands out.
    pub anomalies: Vec<Anomaly>,
}

/// What calls of a tool by code came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ToolFigures {
    /// Its full name.
    pub tool: String,
    /// Calls.
    pub calls: u64,
    /// Those that failed, by the server's word or without an answer.
    pub errors: u64,
    /// What the results would have cost a model.
    pub tokens: u64,
}

//! What is asked of the ledger, and how it answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CellRef, EntryKind, ExecId, LedgerRecord, Tenant, Timestamp, Verdict};

/// Reads entries of the ledger. A caller sees those of its own tenant; whoever runs `hotcell` on the
/// machine sees all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AuditQuery {
    /// Only entries after this number, the oldest first; left out, the newest ones. For whoever
    /// sees all: numbers tell how much others did.
    pub after: Option<u64>,
    /// Only entries written at that time or later.
    pub since: Option<Timestamp>,
    /// Only entries written before that time.
    pub until: Option<Timestamp>,
    /// Only about this cell.
    pub cell: Option<CellRef>,
    /// Only about this exec.
    pub exec: Option<ExecId>,
    /// Only on behalf of this principal.
    pub principal: Option<String>,
    /// Only of this tenant.
    pub tenant: Option<Tenant>,
    /// Only with this verdict.
    pub verdict: Option<Verdict>,
    /// Only of this kind.
    pub kind: Option<EntryKind>,
    /// Only with this outcome.
    pub outcome: Option<String>,
    /// Only of this call.
    pub call_id: Option<String>,
    /// How many at most.
    pub limit: u32,
}

/// Entries of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditPage {
    /// The oldest first. Without their numbers and what ties them to others for whoever sees only
    /// those of one tenant.
    pub entries: Vec<LedgerRecord>,
}

/// Tells what stands out in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AuditSummary {
    /// Only entries written at that time or later.
    pub since: Option<Timestamp>,
    /// Only entries written before that time.
    pub until: Option<Timestamp>,
    /// Only of this tenant.
    pub tenant: Option<Tenant>,
}

/// Something and how often it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// What.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// A kind of thing that is worth a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnomalyKind {
    /// Many refusals in a short time.
    DenialBurst,
    /// The same thing failed again and again.
    RepeatedFailure,
    /// A run that took much longer than others, or very long.
    SlowRun,
    /// Of the latest runs of code many more failed than before.
    FailingRuns,
    /// The same of the calls of a tool by code.
    FailingTool,
    /// Of the latest answers about code many more were cut than before.
    CutAnswers,
}

impl AnomalyKind {
    /// The kind as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DenialBurst => "denial_burst",
            Self::RepeatedFailure => "repeated_failure",
            Self::SlowRun => "slow_run",
            Self::FailingRuns => "failing_runs",
            Self::FailingTool => "failing_tool",
            Self::CutAnswers => "cut_answers",
        }
    }
}

/// One thing that is worth a look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Anomaly {
    /// What kind.
    pub kind: AnomalyKind,
    /// When it began.
    pub since: Timestamp,
    /// When it ended.
    pub until: Timestamp,
    /// How many entries it is made of.
    pub count: u64,
    /// The same in words, with who or what it is about.
    pub message: String,
}

/// What stands out in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct LedgerSummary {
    /// When the first entry that counts was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When the last one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// How many there are.
    pub entries: u64,
    /// How many of each kind.
    pub kinds: Vec<Tally>,
    /// What was refused, and limits that were hit, most often first.
    pub violations: Vec<Tally>,
    /// The rules that refused most often.
    pub rules: Vec<Tally>,
    /// Who was refused most often.
    pub refused: Vec<Tally>,
    /// What is worth a look, the newest last.
    pub anomalies: Vec<Anomaly>,
}

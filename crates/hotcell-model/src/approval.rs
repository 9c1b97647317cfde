//! A person's word on what the policy asks about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ExecId, Timestamp};

/// What an exec has to be approved for before it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalNeed {
    /// The rule that asks.
    pub rule: String,
    /// Why it asks.
    pub reason: String,
    /// On whose behalf the exec is to run.
    pub asked_by: String,
    /// Milliseconds after which no answer counts as a refusal.
    pub within_ms: u64,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalVerdict {
    /// It may start.
    Granted,
    /// It may not.
    Refused,
    /// Nobody answered in time, so it may not.
    Expired,
}

impl ApprovalVerdict {
    /// The verdict as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Refused => "refused",
            Self::Expired => "expired",
        }
    }
}

/// Somebody's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalAnswer {
    /// What was answered.
    pub verdict: ApprovalVerdict,
    /// By whom.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// The approval of an exec, pending as long as there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// The rule that asks.
    pub rule: String,
    /// Why it asks.
    pub reason: String,
    /// On whose behalf the exec is to run.
    pub asked_by: String,
    /// When no answer becomes a refusal.
    pub until: Timestamp,
    /// The answer, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<ApprovalAnswer>,
}

impl Approval {
    /// What is needed, as of now.
    #[must_use]
    pub fn pending(need: ApprovalNeed, now: Timestamp) -> Self {
        let ApprovalNeed { rule, reason, asked_by, within_ms } = need;
        Self { rule, reason, asked_by, until: now.plus_millis(within_ms), answer: None }
    }

    /// Whether a person is still waited for.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.answer.is_none()
    }
}

/// Lists the execs that wait for approval. For the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ApprovalList;

/// Answers for an exec that waits for approval. For the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalGive {
    /// Which exec.
    pub exec: ExecId,
    /// Whether it may start.
    pub grant: Grant,
}

/// What a person can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Let it start.
    Approve,
    /// Let it end without having started.
    Refuse,
}

impl Grant {
    /// What the approval comes to.
    #[must_use]
    pub fn verdict(self) -> ApprovalVerdict {
        match self {
            Self::Approve => ApprovalVerdict::Granted,
            Self::Refuse => ApprovalVerdict::Refused,
        }
    }
}

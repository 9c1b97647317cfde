//! A person's word on what the policy asks about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ApprovalId, PolicyPart, Timestamp};

/// What has to be approved before it is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalNeed {
    /// The rule that asks.
    pub rule: String,
    /// Why it asks.
    pub reason: String,
    /// On whose behalf it is to be done.
    pub asked_by: String,
    /// Milliseconds after which no answer counts as a refusal.
    pub within_ms: u64,
    /// Everything in it that rules ask about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PolicyPart>,
    /// What else a person has to know of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<AskedFact>,
}

/// Something that a person has to know of what is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskedFact {
    /// What it is: `cwd`, `path`, `env NAME`…
    pub name: String,
    /// Its value, without secrets, and only the beginning of what is long.
    pub value: String,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalVerdict {
    /// It may be done.
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

/// The approval of an exec or a call, pending as long as there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// The rule that asks.
    pub rule: String,
    /// Why it asks.
    pub reason: String,
    /// On whose behalf it is to be done.
    pub asked_by: String,
    /// When no answer becomes a refusal.
    pub until: Timestamp,
    /// Everything in it that rules ask about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PolicyPart>,
    /// What else a person has to know of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<AskedFact>,
    /// The answer, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<ApprovalAnswer>,
}

impl Approval {
    /// What is needed, as of now.
    #[must_use]
    pub fn pending(need: ApprovalNeed, now: Timestamp) -> Self {
        let ApprovalNeed { rule, reason, asked_by, within_ms, parts, facts } = need;
        let until = now.plus_millis(within_ms);
        Self { rule, reason, asked_by, until, parts, facts, answer: None }
    }

    /// Whether a person is still waited for.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.answer.is_none()
    }
}

/// Lists what waits for approval, or shows one in full. For the operator.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ApprovalList {
    /// Only this one, whether or not it was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ApprovalId>,
}

/// Answers for what waits for approval. For the operator, and never for whoever asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalGive {
    /// Which exec or call.
    pub id: ApprovalId,
    /// Whether it may be done.
    pub grant: Grant,
}

/// What a person can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Let it be done.
    Approve,
    /// Let it not be done.
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

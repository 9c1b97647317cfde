//! What callers are there for, what they may do, and to whom they belong.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, FileCall, FileStream, Request};

/// Whose cells, execs, files, secrets and entries of the ledger something is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(String);

impl Tenant {
    /// The tenant of whoever was given no other.
    pub const DEFAULT: &'static str = "main";
    /// The longest name.
    pub const MAX_LENGTH: usize = 63;

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the one of whoever was given no other.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.0 == Self::DEFAULT
    }
}

impl Default for Tenant {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Tenant {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let starts_well = text.bytes().next().is_some_and(|b| b != b'-');
        if starts_well && text.len() <= Self::MAX_LENGTH && text.bytes().all(allowed) {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::invalid(format!("{text:?} cannot be a tenant's name")).hint(
            "a name has 1 to 63 of the characters a-z 0-9 - and starts with a letter or digit",
        ))
    }
}

impl Serialize for Tenant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Tenant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What a caller is there for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Works in cells.
    #[default]
    Agent,
    /// Answers for them: approves, changes what cells may, sees everything.
    Operator,
    /// Looks at what was done, and at nothing else.
    Auditor,
}

impl Role {
    /// The role as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Operator => "operator",
            Self::Auditor => "auditor",
        }
    }

    /// What callers in it may do at most.
    #[must_use]
    pub fn scopes(self) -> &'static [Scope] {
        match self {
            Self::Agent => &[Scope::Read, Scope::Run, Scope::Metrics],
            Self::Operator => {
                &[Scope::Read, Scope::Run, Scope::Metrics, Scope::Audit, Scope::Admin]
            }
            Self::Auditor => &[Scope::Metrics, Scope::Audit],
        }
    }
}

impl FromStr for Role {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        [Self::Agent, Self::Operator, Self::Auditor]
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or_else(|| {
                Error::invalid(format!("there is no role {text:?}"))
                    .hint("use one of: agent, operator, auditor")
            })
    }
}

/// What a caller may do.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Look at cells, execs, output and files.
    Read,
    /// Make and end cells, run commands, change files.
    Run,
    /// See figures about the server as a whole.
    Metrics,
    /// Read the ledger.
    Audit,
    /// Approve, keep secrets, change what cells may, see outputs as they were.
    Admin,
}

impl Scope {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::Read, Self::Run, Self::Metrics, Self::Audit, Self::Admin];

    /// The scope as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Metrics => "metrics",
            Self::Audit => "audit",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Scope {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|scope| scope.as_str()).collect();
            Error::invalid(format!("there is no scope {text:?}"))
                .hint(format!("use one of: {}", known.join(", ")))
        })
    }
}

impl Request {
    /// What a caller needs for it; nothing for what tells nothing about anybody.
    #[must_use]
    pub fn needs(&self) -> Option<Scope> {
        match self {
            Self::CellList(_)
            | Self::CellInfo(_)
            | Self::CellAttach(_)
            | Self::VolumesList(_)
            | Self::CheckpointList(_)
            | Self::CheckpointCompare(_)
            | Self::NetShow(_)
            | Self::NetLog(_)
            | Self::ProjectDiff(_)
            | Self::ExecWait(_)
            | Self::ExecGet(_)
            | Self::PolicyCheck(_)
            | Self::ToolSearch(_)
            | Self::ToolNames(_)
            | Self::ToolList(_)
            | Self::ExecPoll(_)
            | Self::ExecFollow(_)
            | Self::ExecList(_) => Some(Scope::Read),
            Self::CellSpawn(_)
            | Self::CellKill(_)
            | Self::VolumeRestore(_)
            | Self::VolumeRemove(_)
            | Self::CheckpointCreate(_)
            | Self::CheckpointRestore(_)
            | Self::CheckpointDelete(_)
            | Self::CellFork(_)
            | Self::ProjectApply(_)
            | Self::ProjectDiscard(_)
            | Self::ExecRun(_)
            | Self::ExecInput(_)
            | Self::ToolRun(_)
            | Self::ExecCancel(_)
            | Self::PortDial(_) => Some(Scope::Run),
            Self::FileCall(FileCall { op, .. }) | Self::FileStream(FileStream { op, .. }) => {
                Some(if op.only_reads() { Scope::Read } else { Scope::Run })
            }
            Self::CellAdopt(_)
            | Self::Reconcile(_)
            | Self::Collect(_)
            | Self::ApprovalList(_)
            | Self::ApprovalGive(_)
            | Self::NetChange(_)
            | Self::SecretSet(_)
            | Self::SecretsList(_)
            | Self::SecretRemove(_)
            | Self::ImageImport(_)
            | Self::ImagePull(_)
            | Self::ImagesList(_)
            | Self::ImageRemove(_)
            | Self::TokenCreate(_)
            | Self::TokensList(_)
            | Self::TokenRevoke(_)
            | Self::Diagnose(_) => Some(Scope::Admin),
            Self::AuditQuery(_) | Self::AuditSummary(_) => Some(Scope::Audit),
            Self::CodeStats(_) => Some(Scope::Metrics),
            Self::Probe(_) => None,
        }
    }

    /// Whether it changes real files of the user, or throws away work on them. Callers other than
    /// the operator at the terminal always need a person's approval for it.
    #[must_use]
    pub fn needs_person(&self) -> bool {
        matches!(self, Self::ProjectApply(_) | Self::ProjectDiscard(_))
    }

    /// Whether it only has done at once what a server does by itself every hour.
    #[must_use]
    pub fn keeps_house(&self) -> bool {
        matches!(self, Self::Reconcile(_) | Self::Collect(_))
    }
}

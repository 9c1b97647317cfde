//! What the policy says of a command, for whoever asks before running it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// In which language a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckedLanguage {
    /// That of the cell's shell.
    #[default]
    Shell,
    /// Python.
    Python,
}

/// What is to be judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checked {
    /// Text in a language.
    Text(CheckedLanguage, String),
    /// A program and its arguments.
    Argv(Vec<String>),
    /// An image that a cell would begin with.
    Image(String),
}

/// Asks what the policy says of a command, without running it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyCheck {
    /// What is to be judged.
    pub checked: Checked,
    /// Whether it would run as uid 0 of the cell.
    pub as_root: bool,
    /// The profile to judge by; the one in force when left out.
    pub profile: Option<String>,
}

/// What the policy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyDecision {
    /// It may run.
    Allow,
    /// A person has to approve it.
    Ask,
    /// It may not run.
    Deny,
}

impl PolicyDecision {
    /// The decision as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// One thing that a command does, and what is said of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyPart {
    /// What it is.
    pub what: String,
    /// The name of the command, module or function, where it is known; the path of a command that is
    /// called by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What is said of it.
    pub decision: PolicyDecision,
    /// The rule that says so; none when it is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why.
    pub why: String,
    /// In which line of the text it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// What the policy says of a command: the strictest that it says of its parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyVerdict {
    /// The profile that it was judged by.
    pub profile: String,
    /// What is said.
    pub decision: PolicyDecision,
    /// The rule that decided; none when it was the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why.
    pub reason: String,
    /// Whether something that was there is removed.
    pub destructive: bool,
    /// Whether something that was there may be replaced.
    pub overwrites: bool,
    /// Whether something cannot be known before it runs.
    pub dynamic: bool,
    /// Everything that was found.
    pub parts: Vec<PolicyPart>,
    /// All of it in words.
    pub explanation: String,
    /// The commands that are allowed, where no others are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_commands: Vec<String>,
}

impl PolicyVerdict {
    /// The rule by which a command is refused that is none of the lines that are allowed.
    pub const LINES: &'static str = "policy.lines";
    /// The rule by which images are judged.
    pub const IMAGES: &'static str = "images";
    /// The rule by which commands as root are judged before any other.
    pub const ROOT: &'static str = "serve.as_root";
}

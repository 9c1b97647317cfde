//! Code that a cell runs, and what it tells of itself when it ends.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;

/// Code that a cell runs: the value of its last expression is its result, and it can call tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Code {
    /// What it is written in.
    pub language: CodeLanguage,
    /// The code.
    pub text: String,
    /// The session whose variables it goes on with; without one it begins with none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionTurn>,
}

/// How a run of code takes part in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionTurn {
    /// The session.
    #[schemars(with = "String")]
    pub name: SessionName,
    /// Whether what the session holds is dropped first.
    #[serde(default)]
    pub reset: bool,
}

/// The name of a session: one of its cell's own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionName(String);

impl SessionName {
    /// The longest name.
    pub const MAX_LENGTH: usize = 32;

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for SessionName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        if (1..=Self::MAX_LENGTH).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::invalid(format!("{text:?} cannot be a session's name"))
                .hint("a name has 1 to 32 of the characters a-z A-Z 0-9 _ -"))
        }
    }
}

impl TryFrom<String> for SessionName {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<SessionName> for String {
    fn from(name: SessionName) -> Self {
        name.0
    }
}

/// What a run that took part in a session found, and what it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionUse {
    /// Whether the session began with it: no variables of an earlier run were there.
    pub is_new: bool,
    /// Whether the next run finds its variables.
    pub is_kept: bool,
}

/// A session of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionInfo {
    /// Its name.
    #[schemars(with = "String")]
    pub name: SessionName,
    /// The runs that took part in it.
    pub runs: u64,
    /// Seconds since the last of them; none while one runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_s: Option<u64>,
    /// The memory that it holds between runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// What sessions of a cell may take up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionBounds {
    /// Seconds without a run after which one ends.
    pub ttl_s: u64,
    /// How many there are at most: one more ends the one that was idle longest.
    pub most: u32,
    /// Bytes of memory that one may hold between runs.
    pub memory_bytes: u64,
}

impl Default for SessionBounds {
    fn default() -> Self {
        Self { ttl_s: 1800, most: 8, memory_bytes: 1 << 30 }
    }
}

/// A language that cells run code in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CodeLanguage {
    /// The CPython of the cell's image.
    Python,
    /// The node of the cell's image, once the types are gone.
    Typescript,
    /// The node of the cell's image.
    Javascript,
}

impl CodeLanguage {
    /// The language as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Typescript => "typescript",
            Self::Javascript => "javascript",
        }
    }

    /// Whether node runs it.
    #[must_use]
    pub fn is_script(self) -> bool {
        match self {
            Self::Python => false,
            Self::Typescript | Self::Javascript => true,
        }
    }
}

impl FromStr for CodeLanguage {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        [Self::Python, Self::Typescript, Self::Javascript]
            .into_iter()
            .find(|language| language.as_str() == name)
            .ok_or_else(|| {
                let names = "python, typescript or javascript";
                Error::argument("language", names, format_args!("{name:?}"))
                    .hint("run other languages with exec_run")
            })
    }
}

/// What the operator says of a run of code.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CodeTerms {
    /// Milliseconds of CPU time that all its processes may use together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// MiB of data that each of its processes may have in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Modules that are imported ahead of it; what code usually needs when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imports: Option<Vec<String>>,
}

impl CodeTerms {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What code told when it ended. It is the code's own word: nothing may be decided by it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CodeReport {
    /// Whether it came to its end.
    pub status: CodeOutcome,
    /// The value of its last expression.
    pub result: Option<CodeValue>,
    /// What type that value had.
    pub result_type: Option<String>,
    /// Where all of it lies, if only a part of it is here.
    pub result_file: Option<String>,
    /// What ended it.
    pub error: Option<CodeError>,
    /// Files that it made for people to look at.
    pub artifacts: Vec<Artifact>,
}

/// A run of code as its caller is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeRun {
    /// Where it stands.
    pub status: CodeStatus,
    /// What it told of itself, if it has ended and did.
    pub report: Option<CodeReport>,
    /// The tools that it called so far, counted where its calls were answered.
    pub tools: Vec<ToolUse>,
    /// Those of its artifacts that are pictures and small enough to be shown, as they were read from
    /// the cell.
    pub images: Vec<CodeImage>,
    /// What is shown of it, within the budget.
    pub shown: CodeShown,
}

/// Where a run of code stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeStatus {
    /// It has not ended.
    Running,
    /// It came to its end.
    Ok,
    /// An exception ended it, or something that was not asked for.
    Error,
    /// Its time was over.
    TimedOut,
    /// A caller cancelled it.
    Cancelled,
    /// It was not approved.
    Denied,
}

impl CodeStatus {
    /// The status as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ok => "ok",
            Self::Error => "error",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Denied => "denied",
        }
    }
}

/// How what does not fit a budget is made to fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutStrategy {
    /// As fits what it is.
    #[default]
    Auto,
    /// Beginning and end.
    Truncate,
    /// What it is made of.
    Summarise,
    /// Evenly spaced parts.
    Sample,
}

impl CutStrategy {
    /// Whether nobody chose.
    #[must_use]
    pub fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// What is shown of a run of code.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CodeShown {
    /// Of what was printed.
    pub stdout: String,
    /// Of what was printed as diagnostics.
    pub stderr: String,
    /// Of the result: a value, or a text about one that was too large.
    pub result: Option<Value>,
    /// Of what ended it.
    pub error: Option<CodeError>,
    /// What was cut, and how to read it.
    pub cut: Vec<Value>,
    /// What that costs and spares a model.
    pub tokens: CodeTokens,
}

/// What a run of code costs and spares a model, by estimate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeTokens {
    /// What is shown.
    pub shown: u64,
    /// What tools answered or code printed and returned, whichever is more, without what is shown.
    pub kept_out: u64,
}

/// A picture that code made: its content is what its type says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeImage {
    /// Where it is in the cell.
    pub path: String,
    /// What it is.
    pub mime: &'static str,
    /// The file.
    pub content: Vec<u8>,
}

/// Whether code came to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CodeOutcome {
    /// It did.
    Ok,
    /// An exception ended it, or it exited with a code other than zero.
    #[default]
    Error,
}

/// A value as it can be shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodeValue {
    /// All of it.
    Json(Value),
    /// How it shows itself.
    Repr(String),
    /// A part of it.
    Preview(String),
}

/// An exception that ended code.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CodeError {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it says.
    pub message: String,
    /// The way to it, in the code.
    pub traceback: String,
    /// The line of the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// A file that code made for people to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// Where it is in the cell.
    pub path: String,
    /// What it is.
    pub mime: String,
    /// How large it is.
    pub bytes: u64,
}

/// How often code called a tool, and what that moved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolUse {
    /// The server.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// How often.
    pub calls: u64,
    /// How often it failed.
    pub errors: u64,
    /// Bytes of arguments.
    pub bytes_in: u64,
    /// Bytes of results, which the caller never saw.
    pub bytes_out: u64,
    /// What those would have cost a model, by estimate.
    #[serde(skip)]
    pub tokens: u64,
}

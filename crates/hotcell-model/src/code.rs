//! Code that a cell runs, and what it tells of itself when it ends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Code that a cell runs: the value of its last expression is its result, and it can call tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Code {
    /// What it is written in.
    pub language: CodeLanguage,
    /// The code.
    pub text: String,
}

/// A language that cells run code in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CodeLanguage {
    /// The CPython of the cell's image.
    Python,
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
    /// The tools that it called.
    pub tools: Vec<ToolUse>,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
}

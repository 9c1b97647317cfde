//! What a runner reports, read as what it is: bytes from a process that anything may have happened in.

use serde::Serialize;
use serde_json::{Map, Value};

/// The most bytes that are read as a report.
pub const MAX_REPORT_BYTES: usize = 4 << 20;
/// The most artifacts that are taken from a report.
pub const MAX_ARTIFACTS: usize = 100;
/// The most tools that are taken from a report.
pub const MAX_TOOLS: usize = 500;

const MAX_NAME: usize = 256;
const MAX_PATH: usize = 4096;

/// How a run ended and what it left. What was absent or of another type reads as its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Whether the code came to its end.
    pub status: Outcome,
    /// The value of the last expression, if there was one and it was not `None`.
    pub result: Option<RunResult>,
    /// The name of the result's type.
    pub result_type: Option<String>,
    /// Where the whole result lies, if it did not fit; a path in the cell.
    pub result_file: Option<String>,
    /// The exception that ended the code.
    pub error: Option<Failure>,
    /// Files that the run left.
    pub artifacts: Vec<Artifact>,
    /// Tools that the code called, by its own account.
    pub tools: Vec<ToolUse>,
}

/// Whether the code came to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did.
    Ok,
    /// An exception ended it, or it exited with a code other than zero.
    #[default]
    Error,
}

/// The value of the last expression.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunResult {
    /// As JSON, with nothing lost.
    Json(Value),
    /// As Python shows it.
    Repr(String),
    /// Its shape, head and tail, because it did not fit.
    Preview(String),
}

/// An exception.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Its type, with the module unless that is `builtins` or `__main__`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its text.
    pub message: String,
    /// The frames of the code and of what it called.
    pub traceback: String,
    /// The last line of the code that it passed through.
    pub line: Option<u64>,
}

/// A file that a run left in its directory of results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Artifact {
    /// Absolute, as the cell sees it, without `..`; whether it is there is not known.
    pub path: String,
    /// Its type by its name.
    pub mime: String,
    /// Its size when the run ended.
    pub bytes: u64,
}

/// What the code did with one tool, by its own account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolUse {
    /// The server's name in code.
    pub server: String,
    /// The tool's name in code.
    pub tool: String,
    /// How often it was called.
    pub calls: u64,
    /// How often that failed.
    pub errors: u64,
    /// Bytes of arguments.
    pub bytes_in: u64,
    /// Bytes of answers.
    pub bytes_out: u64,
}

/// Why bytes are no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The process ended before it wrote one.
    #[error("the run left no report: its process ended by itself or was ended")]
    Absent,
    /// More than is ever read.
    #[error("a report of {0} bytes is larger than {MAX_REPORT_BYTES}")]
    TooLarge(usize),
    /// Something that is not one JSON object.
    #[error("the report is not a JSON object: {0}")]
    Malformed(String),
}

impl Report {
    /// Reads a report. Only what is no JSON object at all is refused.
    pub fn read(bytes: &[u8]) -> Result<Self, ReportError> {
        if bytes.is_empty() {
            return Err(ReportError::Absent);
        }
        if bytes.len() > MAX_REPORT_BYTES {
            return Err(ReportError::TooLarge(bytes.len()));
        }
        let mut fields: Map<String, Value> = serde_json::from_slice(bytes)
            .map_err(|error| ReportError::Malformed(error.to_string()))?;
        let status = match fields.get("status").and_then(Value::as_str) {
            Some("ok") => Outcome::Ok,
            Some(_) | None => Outcome::Error,
        };
        Ok(Self {
            status,
            result: fields.remove("result").and_then(read_result),
            result_type: name(fields.get("result_type")),
            result_file: path(fields.get("result_file")),
            error: fields.get("error").and_then(Value::as_object).map(read_error),
            artifacts: objects(fields.get("artifacts"), MAX_ARTIFACTS, read_artifact),
            tools: objects(fields.get("tools"), MAX_TOOLS, read_tool),
        })
    }
}

fn read_result(value: Value) -> Option<RunResult> {
    let Value::Object(mut fields) = value else { return None };
    if let Some(json) = fields.remove("json") {
        return Some(RunResult::Json(json));
    }
    let mut text = |key: &str| match fields.remove(key) {
        Some(Value::String(text)) => Some(text),
        Some(_) | None => None,
    };
    text("repr").map(RunResult::Repr).or_else(|| text("preview").map(RunResult::Preview))
}

fn read_error(fields: &Map<String, Value>) -> Failure {
    let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Failure {
        kind: name(fields.get("type")).unwrap_or_else(|| "Exception".to_owned()),
        message: text("message"),
        traceback: text("traceback"),
        line: fields.get("line").and_then(Value::as_u64),
    }
}

fn read_artifact(fields: &Map<String, Value>) -> Option<Artifact> {
    Some(Artifact {
        path: path(fields.get("path"))?,
        mime: name(fields.get("mime"))
            .filter(|mime| is_mime(mime))
            .unwrap_or_else(|| "application/octet-stream".to_owned()),
        bytes: number(fields, "bytes"),
    })
}

fn read_tool(fields: &Map<String, Value>) -> Option<ToolUse> {
    Some(ToolUse {
        server: name(fields.get("server"))?,
        tool: name(fields.get("tool"))?,
        calls: number(fields, "calls"),
        errors: number(fields, "errors"),
        bytes_in: number(fields, "bytes_in"),
        bytes_out: number(fields, "bytes_out"),
    })
}

fn objects<T>(
    value: Option<&Value>,
    most: usize,
    read: fn(&Map<String, Value>) -> Option<T>,
) -> Vec<T> {
    let all = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    all.iter().take(most).filter_map(Value::as_object).filter_map(read).collect()
}

fn number(fields: &Map<String, Value>, key: &str) -> u64 {
    fields.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// A short text without control characters; a longer one is cut.
fn name(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?;
    let cleaned: String = text.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    (!cleaned.is_empty()).then_some(cleaned)
}

fn path(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?;
    let plain = text.starts_with('/')
        && text.len() <= MAX_PATH
        && !text.chars().any(char::is_control)
        && !text.split('/').any(|step| step == "..");
    plain.then(|| text.to_owned())
}

fn is_mime(text: &str) -> bool {
    let word = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    text.split_once('/').is_some_and(|(kind, rest)| word(kind) && word(rest))
}

//! What a runner reports, read as what it is: bytes from a process that anything may have happened in.

use hotcell_model::{Artifact, CodeError, CodeOutcome, CodeReport, CodeValue};
use serde_json::{Map, Value};

/// The most bytes that are read as a report.
pub const MAX_REPORT_BYTES: usize = 4 << 20;
/// The most artifacts that are taken from a report.
pub const MAX_ARTIFACTS: usize = 100;

const MAX_NAME: usize = 256;
const MAX_PATH: usize = 4096;

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

/// Reads a report. Only what is no JSON object at all is refused.
///
/// # Errors
/// There is none, or it is none.
pub fn read_report(bytes: &[u8]) -> Result<CodeReport, ReportError> {
    if bytes.is_empty() {
        return Err(ReportError::Absent);
    }
    if bytes.len() > MAX_REPORT_BYTES {
        return Err(ReportError::TooLarge(bytes.len()));
    }
    let mut fields: Map<String, Value> =
        serde_json::from_slice(bytes).map_err(|error| ReportError::Malformed(error.to_string()))?;
    let status = match fields.get("status").and_then(Value::as_str) {
        Some("ok") => CodeOutcome::Ok,
        Some(_) | None => CodeOutcome::Error,
    };
    Ok(CodeReport {
        status,
        result: fields.remove("result").and_then(read_result),
        result_type: name(fields.get("result_type")),
        result_file: path(fields.get("result_file")),
        error: fields.get("error").and_then(Value::as_object).map(read_error),
        artifacts: objects(fields.get("artifacts"), MAX_ARTIFACTS, read_artifact),
    })
}

fn read_result(value: Value) -> Option<CodeValue> {
    let Value::Object(mut fields) = value else { return None };
    if let Some(json) = fields.remove("json") {
        return Some(CodeValue::Json(json));
    }
    let mut text = |key: &str| match fields.remove(key) {
        Some(Value::String(text)) => Some(text),
        Some(_) | None => None,
    };
    text("repr").map(CodeValue::Repr).or_else(|| text("preview").map(CodeValue::Preview))
}

fn read_error(fields: &Map<String, Value>) -> CodeError {
    let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    CodeError {
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

//! One tool for files: its description, and a call of it with how its result is shown.

use hotcell_model::{
    CellRef, Error, FILE_CONTENT_BYTES, FileCall, FileDone, FileOp, Reply, Result,
};
use rmcp::model::{CallToolResult, JsonObject, Tool};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cell_tools::cell_ref;
use super::schema;
use super::tool::{Effect, ToolKind, read};
use hotcell_dialects::{Outcome, Question};

/// What a model gets of files at once unless it asks for more: about 12,000 tokens.
pub(super) const SHOWN_BYTES: usize = 48 * 1024;

/// How much content tools give and take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileBounds {
    /// The most content of one call.
    pub content_bytes: u64,
}

impl Default for FileBounds {
    fn default() -> Self {
        Self { content_bytes: FILE_CONTENT_BYTES }
    }
}

/// A tool for files.
#[derive(Debug)]
pub(super) struct FileTool {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) effect: Effect,
    pub(super) input: fn() -> JsonObject,
    pub(super) output: fn() -> JsonObject,
    pub(super) call: fn(JsonObject, FileBounds) -> Result<Question>,
}

impl FileTool {
    /// The tool as a client sees it.
    pub(super) fn describe(&self) -> Tool {
        let schemas = ((self.input)(), (self.output)());
        ToolKind::described(self.name, self.about, self.effect, schemas)
    }
}

/// The schema of what a tool takes, with the cell that every one of them takes.
pub(super) fn input<T: JsonSchema>() -> JsonObject {
    let mut schema = schema::of::<T>();
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        fields.insert("cell".to_owned(), json!({ "type": "string" }));
    }
    schema
}

/// The cell that a call names, or the caller's default one, and the rest of its arguments.
///
/// # Errors
/// `invalid`, with the name of what is wrong.
pub(super) fn asked<T: DeserializeOwned>(mut arguments: JsonObject) -> Result<(CellRef, T)> {
    let cell = match arguments.remove("cell") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name),
        Some(other) => {
            return Err(Error::invalid(format!("wrong arguments: cell is {other}, not a string")));
        }
    };
    Ok((cell_ref(cell.as_deref())?, read(arguments)?))
}

/// A call that is shown by a function.
pub(super) fn call(
    request: FileCall,
    show: impl FnOnce(FileDone) -> Option<CallToolResult> + Send + Sync + 'static,
) -> Question {
    let show = move |outcome: Outcome| {
        let other = || Error::internal("the reply to another request came");
        let Reply::FileDone(done) = outcome.reply? else { return Err(other()) };
        show(done).ok_or_else(other)
    };
    Question { request: request.into(), show: Some(Box::new(show)) }
}

/// A request that takes no content.
pub(super) fn request(cell: CellRef, op: impl Into<FileOp>, bounds: FileBounds) -> FileCall {
    FileCall { most_content: bounds.content_bytes, ..FileCall::new(cell, op.into()) }
}

/// Lines up to the bound of a text, and how many were left out.
pub(super) fn bounded(mut lines: impl ExactSizeIterator<Item = String>) -> (String, usize) {
    let mut text = String::new();
    while let Some(line) = lines.next() {
        if text.len() + line.len() >= SHOWN_BYTES {
            return (text, 1 + lines.len());
        }
        text.push_str(&line);
        text.push('\n');
    }
    (text, 0)
}

/// A value of the model as a result with a text.
pub(super) fn answer<T: Serialize>(value: &T, text: impl Into<String>) -> Option<CallToolResult> {
    Some(super::tool::answer(value, text.into()))
}

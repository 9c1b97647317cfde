//! What the tools for files share: the cell in their arguments, and a request with how its result is
//! shown.

use hotcell_model::{CellRef, Error, FileCall, FileDone, FileOp, Reply, Result};
use rmcp::model::{CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cell_tools::cell_ref;
use super::schema;
use super::tool::{self, ToolBounds, question, read};
use hotcell_dialects::Question;

/// The schema of a tool's arguments, with the cell that every one of them takes.
pub(super) fn input<T: JsonSchema>() -> JsonObject {
    let mut schema = schema::of::<T>();
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        fields.insert(
            "cell".to_owned(),
            json!({ "type": "string", "description": "default: yours" }),
        );
    }
    schema
}

/// The cell that a call names, or the caller's default one, and the rest of its arguments.
///
/// # Errors
/// `invalid`, with the name of the argument.
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
    question(request, |reply| {
        let Reply::FileDone(done) = reply else { return None };
        show(done)
    })
}

/// A request that takes no content.
pub(super) fn request(cell: CellRef, op: impl Into<FileOp>, bounds: ToolBounds) -> FileCall {
    FileCall { most_content: bounds.content_bytes, ..FileCall::new(cell, op.into()) }
}

/// A value as a result with a text.
pub(super) fn answer<T: Serialize>(value: &T, text: impl Into<String>) -> Option<CallToolResult> {
    Some(tool::answer(value, text.into()))
}

//! What tools of dialects have in common: how they are described, read and answered.

use hotcell_model::{Error, Result};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What a tool does to the world.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effect {
    /// Nothing.
    Reads,
    /// It adds or changes something.
    Adds,
    /// It may change or end anything; doing it twice does more than once.
    Changes,
    /// It ends or removes something; doing it twice is the same as once.
    Destroys,
}

/// A tool as clients see it. Its schemas are written as they stand on the wire.
pub(crate) fn described(
    (name, title): (&'static str, &'static str),
    about: &'static str,
    effect: Effect,
    (input, output): (Value, Option<Value>),
) -> Tool {
    let (reads, destroys, repeats) = match effect {
        Effect::Reads => (true, false, true),
        Effect::Adds => (false, false, false),
        Effect::Changes => (false, true, false),
        Effect::Destroys => (false, true, true),
    };
    let hints =
        ToolAnnotations::from_raw(None, Some(reads), Some(destroys), Some(repeats), Some(false));
    let mut tool = Tool::new(name, about, object(input)).with_annotations(hints);
    tool.title = Some(title.to_owned());
    match output {
        Some(output) => tool.with_raw_output_schema(object(output).into()),
        None => tool,
    }
}

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            JsonObject::new()
        }
    }
}

/// Reads the arguments of a call.
///
/// # Errors
/// `invalid`, with the name of what is wrong.
pub(crate) fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T> {
    serde_path_to_error::deserialize(Value::from(arguments)).map_err(|error| {
        let (path, error) = (error.path().to_string(), error.inner());
        // The path is a dot where all of it is meant.
        let at = if path == "." { String::new() } else { format!("{path}: ") };
        Error::invalid(format!("Input validation error: {at}{error}"))
    })
}

/// A result whose text is its JSON, too.
pub(crate) fn answer<T: Serialize>(value: &T) -> CallToolResult {
    // The text has the fields in their order.
    let text = serde_json::to_string(value).unwrap_or_default();
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = serde_json::to_value(value).ok();
    result
}

/// A result that says that the call failed.
pub(crate) fn failed(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text.into())])
}

//! One tool: its description, and the two translations.

use hotcell_model::{Error, Reply, Request, Result};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::toolsets::Toolset;

/// What a tool does to the world.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effect {
    /// Nothing.
    Reads,
    /// It adds something.
    Adds,
    /// It changes or ends something; doing it twice does more than once.
    Changes,
    /// It ends something; doing it twice is the same as once.
    Ends,
    /// It takes the place of what was there; doing it twice is the same as once.
    Replaces,
}

/// A tool of the dialect.
#[derive(Debug)]
pub(super) struct ToolKind {
    pub(super) name: &'static str,
    pub(super) toolset: Toolset,
    pub(super) about: &'static str,
    pub(super) effect: Effect,
    pub(super) input: fn() -> JsonObject,
    pub(super) output: fn() -> JsonObject,
    pub(super) request: fn(JsonObject) -> Result<Request>,
    /// `None` when the reply answers another request.
    pub(super) result: fn(Reply) -> Option<CallToolResult>,
}

impl ToolKind {
    /// The tool as a client sees it.
    pub(super) fn describe(&self) -> Tool {
        Self::described(self.name, self.about, self.effect, ((self.input)(), (self.output)()))
    }

    /// A tool as a client sees it, with the schemas of what it takes and gives.
    pub(super) fn described(
        name: &'static str,
        about: &'static str,
        effect: Effect,
        (input, output): (JsonObject, JsonObject),
    ) -> Tool {
        let (reads, destroys, repeats) = match effect {
            Effect::Reads => (true, false, true),
            Effect::Adds => (false, false, false),
            Effect::Changes => (false, true, false),
            Effect::Ends | Effect::Replaces => (false, true, true),
        };
        let hints = ToolAnnotations::from_raw(
            None,
            Some(reads),
            Some(destroys),
            Some(repeats),
            Some(false),
        );
        Tool::new(name, about, input).with_raw_output_schema(output.into()).with_annotations(hints)
    }
}

/// Reads the arguments of a call.
///
/// # Errors
/// `invalid`, with the name of what is wrong.
pub(super) fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T> {
    serde_json::from_value(arguments.into())
        .map_err(|error| Error::invalid(format!("wrong arguments: {error}")))
}

/// A result with a value for programs and a text for readers.
pub(super) fn answer<T: Serialize>(value: &T, text: String) -> CallToolResult {
    answer_value(serde_json::to_value(value).unwrap_or_default(), text)
}

/// The same of a value that is JSON already.
pub(super) fn answer_value(value: Value, text: String) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(value);
    result
}

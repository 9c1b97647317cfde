//! One tool: its description, and how its arguments become a request and the reply a result.

use hotcell_model::{Error, FILE_CONTENT_BYTES, LIMITS, Reply, Request, Result};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, Tool, ToolAnnotations};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::schema;
use crate::toolsets::Toolset;
use hotcell_dialects::{ClientTerms, Outcome, Question};

/// What a tool does, as clients need to know it before they let a model use it.
///
/// A cell is the agent's own: what happens in it is not destructive to the user. It is where a cell
/// can write to the user's files (see [`Reach`]), and where something is removed for good.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effect {
    /// It changes nothing.
    Reads,
    /// It adds something; doing it twice adds two.
    Adds,
    /// It runs or changes something inside the cell; doing it twice does more than once.
    Works,
    /// The same for files; doing it twice is the same as once.
    Replaces,
    /// The same without touching files: it only stops something.
    Stops,
    /// It may run programs that reach what the operator allowed outside the cell.
    Runs,
    /// It changes real files of the user.
    Delivers,
    /// It removes something that cannot be brought back.
    Removes,
}

/// What cells of this server can reach outside themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    /// Whether cells may write to real files of the user.
    pub writes_host_files: bool,
    /// Whether cells may have a network, or code in them may call tools of other servers.
    pub outside: bool,
}

impl Effect {
    fn annotations(self, reach: Reach) -> ToolAnnotations {
        let host = reach.writes_host_files;
        let (reads, destroys, repeats, opens) = match self {
            Self::Reads => (true, false, true, false),
            Self::Adds => (false, false, false, reach.outside),
            Self::Works => (false, host, false, false),
            Self::Replaces => (false, host, true, false),
            Self::Stops => (false, false, true, false),
            Self::Runs => (false, host, false, reach.outside),
            Self::Delivers => (false, true, false, false),
            Self::Removes => (false, true, true, false),
        };
        ToolAnnotations::from_raw(None, Some(reads), Some(destroys), Some(repeats), Some(opens))
    }
}

/// The longest time that a cell or a command can be given.
pub(super) const MAX_SECONDS: u64 = LIMITS.max_seconds;

/// How much tools give and take, and how long they wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToolBounds {
    /// The most file content of one call.
    pub content_bytes: u64,
    /// How long a command is waited for if the call does not say.
    pub wait_s: f64,
    /// The longest wait, whatever the call says.
    pub most_wait_s: f64,
}

impl Default for ToolBounds {
    fn default() -> Self {
        Self { content_bytes: FILE_CONTENT_BYTES, wait_s: 20.0, most_wait_s: 50.0 }
    }
}

impl ToolBounds {
    /// The same for a client of which something is known.
    pub(super) fn for_client(self, client: ClientTerms) -> Self {
        let most_wait_s = client.most_wait_s.unwrap_or(self.most_wait_s);
        let wait_s = client.wait_s.unwrap_or(self.wait_s).min(most_wait_s);
        Self { wait_s, most_wait_s, ..self }
    }

    /// How long a call waits that asks for this, or for nothing.
    pub(super) fn wait(self, asked_s: Option<f64>) -> f64 {
        asked_s.unwrap_or(self.wait_s).min(self.most_wait_s)
    }
}

/// A tool of the dialect.
#[derive(Debug)]
pub(super) struct ToolKind {
    pub(super) name: &'static str,
    pub(super) toolset: Toolset,
    pub(super) about: &'static str,
    /// Words that a client's own search for tools should find it by.
    pub(super) found_by: &'static str,
    pub(super) effect: Effect,
    /// Arguments that are accepted, as JSON; a refused call is shown them.
    pub(super) example: &'static str,
    pub(super) input: fn() -> JsonObject,
    pub(super) output: fn() -> JsonObject,
    pub(super) call: fn(JsonObject, ToolBounds) -> Result<Question>,
}

/// Tools that are of use in nearly every conversation: clients that load tools on demand have these
/// from the start.
const ALWAYS_LOADED: &[&str] = &["exec_run", "exec_poll", "fs_read", "fs_edit", "fs_write"];

impl ToolKind {
    /// The tool as a client sees it.
    pub(super) fn describe(&self, reach: Reach) -> Tool {
        let mut meta = MetaObject::default();
        meta.0.insert("anthropic/searchHint".to_owned(), self.found_by.into());
        if ALWAYS_LOADED.contains(&self.name) {
            meta.0.insert("anthropic/alwaysLoad".to_owned(), true.into());
        }
        // A client that checks arguments itself would refuse unknown ones without naming them.
        let input = schema::open(schema::without_ranges((self.input)()));
        let mut tool = Tool::new(self.name, self.about, input)
            .with_raw_output_schema((self.output)().into())
            .with_annotations(self.effect.annotations(reach));
        tool.meta = Some(meta);
        tool
    }
}

/// Reads the arguments of a call, which were checked against the schema before.
///
/// # Errors
/// `invalid`, with the name of the argument.
pub(super) fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let (path, inner) = (error.path().to_string(), error.inner().to_string());
        let at = if matches!(path.as_str(), "." | "?") { String::new() } else { path };
        let missing = inner.strip_prefix("missing field `").and_then(|it| it.strip_suffix('`'));
        Error::invalid(match missing {
            Some(name) if at.is_empty() => format!("{name} is missing"),
            Some(name) => format!("{at}.{name} is missing"),
            None if at.is_empty() => inner,
            None => format!("{at}: {inner}"),
        })
    })
}

/// Adds the name of the argument to the error of reading its value.
///
/// # Errors
/// The same error, with the name.
pub(super) fn named<T>(argument: &str, read: Result<T>) -> Result<T> {
    read.map_err(|error| match error.message.starts_with(argument) {
        true => error,
        false => Error { message: format!("{argument}: {}", error.message), ..error },
    })
}

/// A request whose reply is shown by a function. It returns `None` for the reply to another request.
pub(super) fn question(
    request: impl Into<Request>,
    show: impl FnOnce(Reply) -> Option<CallToolResult> + Send + Sync + 'static,
) -> Question {
    let show = move |outcome: Outcome| {
        let other = || Error::internal("received the reply to another request");
        show(outcome.reply?).ok_or_else(other)
    };
    Question { request: request.into(), show: Some(Box::new(show)) }
}

/// A result with a value for programs and a text for readers.
pub(super) fn answer<T: Serialize>(value: &T, text: String) -> CallToolResult {
    answer_value(serde_json::to_value(value).unwrap_or_default(), text)
}

/// The same for a value that is JSON already.
pub(super) fn answer_value(value: Value, text: String) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(value);
    result
}

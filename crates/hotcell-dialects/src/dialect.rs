//! What tells one set of tools from another.

use std::fmt;

use hotcell_model::{Error, ErrorCode, ExecResult, Reply, Request, Result};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, Tool};
use serde_json::Value;

use crate::starting_exec::StartingExec;
use crate::talk::Talk;

/// What a result is called that cannot be had before a person has answered.
pub const AWAITING_APPROVAL: &str = "awaiting_approval";

/// Where a failed result has its `code`, `message` and `hint`.
const ERROR_META: &str = "hotcell/error";

/// Shows what came of a call.
///
/// # Errors
/// What the caller is told instead.
pub type Show = Box<dyn FnOnce(Outcome) -> Result<CallToolResult> + Send + Sync>;

/// What came of a call, and what is known where it came from.
#[derive(Debug)]
pub struct Outcome {
    /// The answer of the engine.
    pub reply: Result<Reply>,
    /// Where the caller reaches the server over HTTP, without a slash at the end.
    pub site: Option<String>,
    /// Execs that belong to the answer and that the engine does not have yet.
    pub starting: Vec<StartingExec>,
}

/// One thing that is asked of the engine.
pub struct Question {
    /// What.
    pub request: Request,
    /// How what came of it is shown, where its arguments say that too.
    pub show: Option<Show>,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question").field("request", &self.request).finish_non_exhaustive()
    }
}

/// A call of a tool.
pub enum ToolCall {
    /// It asks one thing.
    Asks(Box<Question>),
    /// It asks one thing after another, and shows itself what came of them.
    Talks(Talk),
}

impl From<Question> for ToolCall {
    fn from(question: Question) -> Self {
        Self::Asks(Box::new(question))
    }
}

impl fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asks(question) => question.fmt(f),
            Self::Talks(_) => f.write_str("Talks"),
        }
    }
}

/// What is known of the client that makes a call.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClientTerms {
    /// How long a command is waited for if the call does not say; `None` for the dialect's own.
    pub wait_s: Option<f64>,
    /// The longest wait, for clients that give up early; `None` for the dialect's own.
    pub most_wait_s: Option<f64>,
}

/// A set of tool names and shapes on top of the engine. It only translates: a call into a request
/// of the engine, a reply into a result.
pub trait Dialect: fmt::Debug + Send + Sync {
    /// How to work with the tools, for a model that has just connected.
    fn instructions(&self) -> Option<&str> {
        None
    }

    /// The tools, always in the same order.
    fn tools(&self) -> &[Tool];

    /// The tools as they are described to a client.
    fn tools_for(&self, client: ClientTerms) -> Vec<Tool> {
        let _ = client;
        self.tools().to_vec()
    }

    /// The tool that a client means by a name.
    fn find(&self, name: &str) -> Option<&Tool> {
        self.tools().iter().find(|tool| tool.name == name)
    }

    /// Whether a command that takes long becomes a task for clients that know tasks.
    fn has_tasks(&self) -> bool {
        false
    }

    /// Whether tools of other servers may stand beside its own. None of those has `__` in its name.
    fn passes_tools(&self) -> bool {
        false
    }

    /// Whether there is a cell that is meant by whoever names none.
    fn has_default_cell(&self) -> bool {
        true
    }

    /// What a call of a tool asks of the engine.
    ///
    /// # Errors
    /// There is no such tool, or its arguments are wrong.
    fn call(&self, tool: &str, arguments: JsonObject) -> Result<ToolCall>;

    /// The same for a client of which something is known.
    ///
    /// # Errors
    /// Those of [`Dialect::call`].
    fn call_for(&self, client: ClientTerms, tool: &str, arguments: JsonObject) -> Result<ToolCall> {
        let _ = client;
        self.call(tool, arguments)
    }

    /// What the caller of a tool sees of the reply to a question that does not say so itself.
    fn result(&self, tool: &str, reply: Reply) -> CallToolResult {
        let _ = reply;
        self.failure(tool, &Error::internal(format!("{tool} got the reply to another request")))
    }

    /// What the owner of a task sees of its exec, whichever tool began it: the records do not say.
    fn exec_result(&self, result: ExecResult) -> CallToolResult {
        self.result("a task", Reply::ExecResult(result))
    }

    /// The result of a call about an exec that the engine does not have yet.
    fn starting(&self, tool: &str, exec: &StartingExec) -> CallToolResult {
        let error = exec.failure().unwrap_or_else(|| {
            Error::unavailable(format!("exec {} is {}", exec.exec, exec.status()))
        });
        self.failure(tool, &error)
    }

    /// What is told while a command runs, in the words of the dialect: what came out of it, or nothing
    /// for a while.
    fn progress(&self, output: Option<String>) -> Option<String> {
        output.or_else(|| Some("running".to_owned()))
    }

    /// The number of the error that whoever is refused over HTTP is told, before any tool is called.
    fn refusal_number(&self, status: u16, usual: i32) -> i32 {
        let _ = status;
        usual
    }

    /// Arguments that a tool accepts, as JSON, for a caller whose call was refused with this message.
    fn example(&self, tool: &str, refusal: &str) -> Option<String> {
        let _ = (tool, refusal);
        None
    }

    /// A hint in the words of the dialect; the engine's name commands of the command line.
    fn hint(&self, hint: &str) -> String {
        hint.to_owned()
    }

    /// What the caller of a tool sees of an error: a text for its model, and the same for programs
    /// beside the result, where no output schema applies. Clients hold whatever is structured
    /// content against the schema, and would show its fault instead of ours.
    fn failure(&self, tool: &str, error: &Error) -> CallToolResult {
        let hint = error.hint.as_deref().map(|hint| self.hint(hint));
        let hint = match (error.code, self.example(tool, &error.message), hint) {
            (ErrorCode::Invalid, Some(example), Some(hint)) => {
                Some(format!("{hint}; example: {example}"))
            }
            (ErrorCode::Invalid, Some(example), None) => Some(format!("example: {example}")),
            (_, _, hint) => hint,
        };
        let error = Error { hint, ..error.clone() };
        let text = match (&error.held, &error.hint) {
            (Some(held), _) => format!(
                "{AWAITING_APPROVAL}: {}\nhint: ask the user to run `hotcell approve {held}`, then \
                 make the same call again",
                error.message
            ),
            (None, Some(hint)) => format!("{}: {}\nhint: {hint}", error.code, error.message),
            (None, None) => format!("{}: {}", error.code, error.message),
        };
        let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
        let mut meta = MetaObject::default();
        let is_held = error.held.is_some();
        let mut shown = serde_json::to_value(error).unwrap_or_default();
        if let Value::Object(shown) = &mut shown
            && is_held
        {
            // It was neither done nor refused: none of the codes fits.
            shown.remove("code");
            shown.insert("status".to_owned(), AWAITING_APPROVAL.into());
        }
        meta.0.insert(ERROR_META.to_owned(), shown);
        result.meta = Some(meta);
        result
    }
}

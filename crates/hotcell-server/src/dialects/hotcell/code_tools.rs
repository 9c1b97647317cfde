//! `code_run` and `tool_search`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hotcell_model::{
    Artifact, Code, CodeError, CodeImage, CodeLanguage, CodeRun, CodeShown, CodeTokens, Command,
    CutStrategy, Error, Exec, ExecResult, ExecRun, Reply, Request, Result, SessionTurn, SessionUse,
    ToolDetail, ToolSearch, ToolUse, ToolsFound, Usage,
};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cell_tools::cell_ref;
use super::exec_tools::{self, MOST_WAIT_S, wait};
use super::schema::{self, Anything, Object};
use super::tool::{Effect, ToolKind, answer, read};
use super::views::told;
use crate::toolsets::Toolset;

/// What the engine is asked for: far more than is shown, so that what is shown is chosen well.
const RESULT_BYTES: u64 = 1 << 20;

pub(super) const TOOLS: &[ToolKind] = &[
    ToolKind {
        name: "code_run",
        toolset: Toolset::Code,
        about: "Run Python, typescript or javascript in a cell; the last expression is the result. Tools: \
                `from tools.SERVER import TOOL`; only what you print or return comes back. Past wait_s \
                poll exec_id.",
        effect: Effect::Changes,
        input: schema::of::<Run>,
        output: schema::of::<Ran>,
        request: run,
        result: |reply| {
            let Reply::ExecResult(result) = reply else { return None };
            Some(ran(result))
        },
    },
    ToolKind {
        name: "tool_search",
        toolset: Toolset::Code,
        about: "Find tools that code can import.",
        effect: Effect::Reads,
        input: schema::of::<Search>,
        output: schema::of::<ToolsFound>,
        request: search,
        result: |reply| {
            let Reply::ToolsFound(found) = reply else { return None };
            let text = lines(&found);
            Some(answer(&found, text))
        },
    },
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Run {
    /// id or alias; your default cell when left out
    cell: Option<String>,
    code: String,
    #[serde(default = "python")]
    language: String,
    #[serde(default = "timeout")]
    timeout_s: f64,
    /// at most 50
    #[serde(default = "wait")]
    wait_s: f64,
    /// auto, truncate, summarise, sample
    #[serde(default = "auto")]
    strategy: String,
    /// keeps variables
    session: Option<String>,
    #[serde(default)]
    reset: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    /// name, stub or full
    #[serde(default = "stub")]
    detail: String,
    server: Option<String>,
    #[serde(default = "few")]
    limit: u32,
}

fn python() -> String {
    "python".to_owned()
}

fn timeout() -> f64 {
    30.0
}

fn auto() -> String {
    "auto".to_owned()
}

fn stub() -> String {
    "stub".to_owned()
}

fn few() -> u32 {
    5
}

fn run(arguments: JsonObject) -> Result<Request> {
    let asked: Run = read(arguments)?;
    let strategy = strategy_of(&asked.strategy)?;
    let language: CodeLanguage = asked.language.parse()?;
    let session = match (asked.session, asked.reset) {
        (Some(name), reset) => Some(SessionTurn { name: name.parse()?, reset }),
        (None, false) => None,
        (None, true) => {
            return Err(Error::invalid("reset was given without a session")
                .hint("name the session that is to begin anew"));
        }
    };
    let command = Command::Code(Code { language, text: asked.code, session });
    Ok(ExecRun {
        timeout_s: (asked.timeout_s != 0.0).then_some(asked.timeout_s),
        wait_s: asked.wait_s.min(MOST_WAIT_S),
        result_bytes: RESULT_BYTES,
        strategy,
        ..ExecRun::new(cell_ref(asked.cell.as_deref())?, command)
    }
    .into())
}

fn strategy_of(name: &str) -> Result<CutStrategy> {
    serde_json::from_value(Value::String(name.to_owned())).map_err(|_| {
        Error::invalid(format!("there is no strategy {name:?}"))
            .hint("use auto, truncate, summarise or sample")
    })
}

fn search(arguments: JsonObject) -> Result<Request> {
    let Search { query, detail, server, limit } = read(arguments)?;
    let detail: ToolDetail =
        serde_json::from_value(Value::String(detail.clone())).map_err(|_| {
            Error::invalid(format!("there is no detail {detail:?}"))
                .hint("use name, stub, full or whole")
        })?;
    Ok(ToolSearch { query, detail, server, limit }.into())
}

fn lines(found: &ToolsFound) -> String {
    let mut text = if found.tools.is_empty() {
        format!("none of {} tools fits", found.of)
    } else {
        found.tools.join("\n")
    };
    for fault in &found.faults {
        text.push_str("\nnot known: ");
        text.push_str(fault);
    }
    text
}

#[derive(Debug, Serialize, JsonSchema)]
struct Ran {
    cell: String,
    exec_id: String,
    /// ok, running, error, timed_out, cancelled, denied
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<String>,
    stdout: String,
    stderr: String,
    #[serde(flatten)]
    code: CodeView,
    next_seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    usage: Option<Spent>,
}

/// The session that code took part in.
#[derive(Debug, Serialize)]
struct SessionView {
    name: String,
    /// Whether no variables of an earlier run were there.
    is_new: bool,
    /// Whether the next run finds its variables.
    is_kept: bool,
}

impl SessionView {
    fn of(exec: &Exec) -> Option<Self> {
        let Command::Code(Code { session: Some(turn), .. }) = &exec.command else { return None };
        let SessionUse { is_new, is_kept } = exec.end.as_ref()?.session?;
        Some(Self { name: turn.name.to_string(), is_new, is_kept })
    }

    /// The same for readers.
    fn told(&self) -> String {
        let found = if self.is_new { "new" } else { "went on" };
        let left = if self.is_kept { "" } else { "; it has ended, the next run begins anew" };
        format!("{}: {found}{left}", self.name)
    }
}

/// What code gave back, within its budget.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CodeView {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Anything>")]
    result: Option<Value>,
    /// the whole result
    #[serde(skip_serializing_if = "Option::is_none")]
    result_file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    error: Option<CodeError>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Object>>")]
    artifacts: Vec<Artifact>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Object>>")]
    tools_called: Vec<ToolUse>,
    /// how to read the rest
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Object>>")]
    cut: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    session: Option<SessionView>,
    /// Where nothing else tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    tokens: Option<CodeTokens>,
}

#[derive(Debug, Serialize)]
struct Spent {
    #[serde(flatten)]
    usage: Usage,
    tokens: CodeTokens,
}

/// What came of running code.
pub(super) fn ran(result: ExecResult) -> CallToolResult {
    let ExecResult { exec, next_seq, code: Some(code), .. } = result else {
        return exec_tools::ran(result);
    };
    let (tokens, status) = (code.shown.tokens, code.status.as_str().to_owned());
    let Parts { stdout, stderr, view, images } = Parts::of(*code, &exec);
    let view = Ran {
        cell: exec.cell.to_string(),
        exec_id: exec.id.to_string(),
        status,
        approval: exec.approval.as_deref().map(told),
        checkpoint: exec.checkpoint.as_ref().map(ToString::to_string),
        stdout,
        stderr,
        code: view,
        next_seq,
        usage: exec.end.as_ref().map(|end| Spent { usage: end.usage, tokens }),
    };
    let text = view.text();
    with_images(answer(&view, text), &images)
}

/// The same with pictures beside it, which clients show to their models.
pub(super) fn with_images(mut result: CallToolResult, images: &[CodeImage]) -> CallToolResult {
    let blocks = images
        .iter()
        .map(|image| ContentBlock::image(BASE64_STANDARD.encode(&image.content), image.mime));
    result.content.extend(blocks);
    result
}

/// A run of code, taken apart for whoever shows it.
struct Parts {
    stdout: String,
    stderr: String,
    view: CodeView,
    images: Vec<CodeImage>,
}

impl Parts {
    fn of(code: CodeRun, exec: &Exec) -> Self {
        let CodeRun { report, tools, images, shown, .. } = code;
        let CodeShown { stdout, stderr, result, error, cut, .. } = shown;
        let report = report.unwrap_or_default();
        let (result_file, artifacts) = (report.result_file, report.artifacts);
        let view = CodeView {
            result,
            result_file,
            error,
            artifacts,
            tools_called: tools,
            cut,
            session: SessionView::of(exec),
            tokens: None,
        };
        Self { stdout, stderr, view, images }
    }
}

impl CodeView {
    /// What is told of a run whose output stands elsewhere.
    pub(super) fn beside(code: CodeRun, exec: &Exec) -> Self {
        let tokens = Some(code.shown.tokens);
        Self { tokens, ..Parts::of(code, exec).view }
    }

    /// Adds it to a text for readers.
    pub(super) fn add_to(&self, text: &mut String) {
        match &self.result {
            Some(Value::String(result)) => add_part(text, "result", result),
            Some(result) => add_part(text, "result", &result.to_string()),
            None => {}
        }
        if let Some(error) = &self.error {
            let told = format!("{}: {}", error.kind, error.message);
            let told = if error.traceback.is_empty() { &told } else { &error.traceback };
            add_part(text, "error", told);
        }
        for artifact in &self.artifacts {
            add_part(text, "artifact", &format!("{} ({})", artifact.path, artifact.mime));
        }
        if let Some(file) = &self.result_file {
            add_part(text, "whole result", file);
        }
        if let Some(session) = &self.session {
            add_part(text, "session", &session.told());
        }
    }
}

fn add_part(text: &mut String, name: &str, content: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("[{name}] {content}"));
}

impl Ran {
    /// The same for readers.
    fn text(&self) -> String {
        let mut text = self.stdout.clone();
        if !self.stderr.is_empty() {
            add_part(&mut text, "stderr", &self.stderr);
        }
        self.code.add_to(&mut text);
        if let Some(approval) = &self.approval {
            add_part(&mut text, "approval", approval);
        }
        add_part(&mut text, &self.status, &self.exec_id);
        text
    }
}

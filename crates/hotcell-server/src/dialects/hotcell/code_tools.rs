//! `code_run` and `tool_search`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hotcell_model::{
    Artifact, Code, CodeError, CodeImage, CodeLanguage, CodeRun, CodeShown, CodeTokens, Command,
    CutStrategy, Error, Exec, ExecResult, ExecRun, Reply, Result, SessionTurn, SessionUse,
    ToolDetail, ToolSearch, ToolUse, ToolsFound, Usage,
};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cell_tools::cell_ref;
use super::exec_tools;
use super::schema::{self, Anything, Object};
use super::tool::{Effect, MAX_SECONDS, ToolBounds, ToolKind, answer, named, question, read};
use super::views::{Detail, approval_of, ended_with, plain};
use crate::toolsets::Toolset;
use hotcell_dialects::{AWAITING_APPROVAL, Question, StartingExec};

/// What the engine is asked for: far more than is shown, so that what is shown is chosen well.
const RESULT_BYTES: u64 = 1 << 20;

pub(super) const TOOLS: &[ToolKind] = &[
    ToolKind {
        name: "code_run",
        toolset: Toolset::Code,
        about: "Run Python, typescript or javascript in a cell; the last expression is the result, \
                figures come back as images. Tools of other servers: `from tools.SERVER import \
                TOOL`. Only what you print or return comes back.",
        found_by: "run Python code, JavaScript, TypeScript, data analysis, plot, call many tools",
        effect: Effect::Runs,
        example: r#"{"code": "import sys\nsys.version"}"#,
        input: schema::of::<Run>,
        output: schema::output::<Ran>,
        call: run,
    },
    ToolKind {
        name: "tool_search",
        toolset: Toolset::Code,
        about: "Find tools of other servers that code_run can import.",
        found_by: "find tools, integrations, APIs of other MCP servers",
        effect: Effect::Reads,
        example: r#"{"query": "create an issue"}"#,
        input: schema::of::<Search>,
        output: schema::output::<ToolsFound>,
        call: search,
    },
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Run {
    /// id or alias; default: yours
    cell: Option<String>,
    code: String,
    /// python (default), typescript, javascript
    #[serde(default = "python")]
    language: String,
    /// ends it; default 30, at most 31536000, 0: none
    #[serde(default = "timeout")]
    #[schemars(range(min = 0, max = MAX_SECONDS))]
    timeout_s: f64,
    /// for the end: default 20, at most 50
    #[schemars(range(min = 0))]
    wait_s: Option<f64>,
    /// of long results: auto (default), truncate, summarise, sample
    #[serde(default = "auto")]
    strategy: String,
    /// name; runs of one session share variables
    session: Option<String>,
    /// start the session afresh
    #[serde(default)]
    reset: bool,
    /// add usage
    #[serde(default)]
    details: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    /// name, stub (default) or full
    #[serde(default = "stub")]
    detail: String,
    server: Option<String>,
    /// default 5
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

fn run(arguments: JsonObject, bounds: ToolBounds) -> Result<Question> {
    let asked: Run = read(arguments)?;
    let detail = Detail::of(asked.details);
    let strategy = strategy_of(&asked.strategy)?;
    let language: CodeLanguage = named("language", asked.language.parse())?;
    let session = match (asked.session, asked.reset) {
        (Some(name), reset) => Some(SessionTurn { name: named("session", name.parse())?, reset }),
        (None, false) => None,
        (None, true) => {
            return Err(Error::invalid("reset was given without a session")
                .hint("name the session to reset"));
        }
    };
    let command = Command::Code(Code { language, text: asked.code, session });
    let run = ExecRun {
        timeout_s: (asked.timeout_s != 0.0).then_some(asked.timeout_s),
        wait_s: bounds.wait(asked.wait_s),
        result_bytes: RESULT_BYTES,
        strategy,
        ..ExecRun::new(cell_ref(asked.cell.as_deref())?, command)
    };
    Ok(question(run, move |reply| {
        let Reply::ExecResult(result) = reply else { return None };
        Some(ran(result, detail))
    }))
}

fn strategy_of(name: &str) -> Result<CutStrategy> {
    serde_json::from_value(Value::String(name.to_owned())).map_err(|_| {
        let names = "auto, truncate, summarise or sample";
        Error::argument("strategy", names, format!("{name:?}"))
    })
}

fn search(arguments: JsonObject, _: ToolBounds) -> Result<Question> {
    let Search { query, detail, server, limit } = read(arguments)?;
    let detail: ToolDetail =
        serde_json::from_value(Value::String(detail.clone())).map_err(|_| {
            Error::argument("detail", "name, stub, full or whole", format!("{detail:?}"))
        })?;
    Ok(question(ToolSearch { query, detail, server, limit }, |reply| {
        let Reply::ToolsFound(found) = reply else { return None };
        let text = lines(&found);
        Some(answer(&found, text))
    }))
}

fn lines(found: &ToolsFound) -> String {
    let mut text = found.hint.clone().unwrap_or_else(|| found.tools.join("\n"));
    for fault in &found.faults {
        text.push_str("\nnot known: ");
        text.push_str(fault);
    }
    for approval in &found.approval {
        text.push_str(&format!("\n[{approval}]"));
    }
    text
}

#[derive(Debug, Serialize, JsonSchema)]
struct Ran {
    cell: String,
    exec_id: String,
    /// ok, running, awaiting_approval, error, …
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<String>,
    stdout: String,
    stderr: String,
    #[serde(flatten)]
    code: CodeView,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_seq: Option<u64>,
    /// Processes that were ended with it, and how to keep them running.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    ended_with: Option<String>,
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
        let left = if self.is_kept { "" } else { "; it has ended, the next run starts afresh" };
        format!("{}: {found}{left}", self.name)
    }
}

/// What code gave back, within its budget.
#[derive(Debug, Default, Serialize, JsonSchema)]
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

#[derive(Debug, Clone, Serialize)]
struct Spent {
    #[serde(flatten)]
    usage: Usage,
    tokens: CodeTokens,
}

/// What came of running code.
pub(super) fn ran(result: ExecResult, detail: Detail) -> CallToolResult {
    let ExecResult { exec, next_seq, code: Some(code), awaiting, .. } = result else {
        return exec_tools::ran(result, detail);
    };
    let awaits = exec.awaits_approval() || !awaiting.is_empty();
    let status = if awaits { AWAITING_APPROVAL } else { code.status.as_str() }.to_owned();
    let tokens = code.shown.tokens;
    let Parts { stdout, stderr, view, images } = Parts::of(*code, &exec);
    let view = Ran {
        cell: exec.cell.to_string(),
        exec_id: exec.id.to_string(),
        status,
        approval: approval_of(&exec, &awaiting),
        checkpoint: exec.checkpoint.as_ref().map(ToString::to_string),
        stdout,
        stderr,
        code: view,
        next_seq: exec.end.is_none().then_some(next_seq),
        ended_with: ended_with(&exec),
        usage: exec
            .end
            .as_ref()
            .and_then(|end| detail.only_full(|| Spent { usage: end.usage, tokens })),
    };
    let text = view.text();
    with_images(answer(&view, text), &images)
}

/// The result of running code that the engine does not have yet.
pub(super) fn starting(exec: &StartingExec) -> CallToolResult {
    let view = Ran {
        cell: exec.cell.to_string(),
        exec_id: exec.exec.to_string(),
        status: exec.end_cause().unwrap_or(exec.status()).to_owned(),
        approval: None,
        checkpoint: None,
        stdout: String::new(),
        stderr: String::new(),
        code: CodeView::default(),
        next_seq: exec.end_cause().is_none().then_some(0),
        ended_with: None,
        usage: None,
    };
    let text = view.text();
    answer(&view, text)
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
    pub(super) fn beside(code: CodeRun, exec: &Exec, detail: Detail) -> Self {
        let tokens = detail.only_full(|| code.shown.tokens);
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
        for tool in &self.tools_called {
            add_part(text, "called", &plain(tool));
        }
        for cut in &self.cut {
            add_part(text, "cut", &plain(cut));
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
        match self.next_seq {
            Some(next) => {
                let how = format!("{}; next_seq {next}: continue with exec_poll", self.exec_id);
                add_part(&mut text, &self.status, &how);
            }
            None => add_part(&mut text, &self.status, &self.exec_id),
        }
        if let Some(ended_with) = &self.ended_with {
            add_part(&mut text, "note", ended_with);
        }
        if let Some(usage) = &self.usage {
            add_part(&mut text, "usage", &plain(usage));
        }
        text
    }
}

//! `code_run` and `tool_search`.

use hotcell_brief::{
    Brief, Cut, DEFAULT_BUDGET, ErrorPart, Parts, ResultContent, ResultPart, Shown, ShownResult,
    Strategy, Text,
};
use hotcell_model::{
    Artifact, Code, CodeError, CodeLanguage, CodeOutcome, CodeReport, CodeValue, Command, EndCause,
    Error, Exec, ExecResult, ExecRun, ExecState, Record, Reply, Request, Result, Stream,
    ToolDetail, ToolSearch, ToolUse, ToolsFound, Usage,
};
use rmcp::model::{CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cell_tools::cell_ref;
use super::exec_tools::{MOST_WAIT_S, wait};
use super::schema::{self, Anything, Object};
use super::tool::{Effect, ToolKind, answer, read};
use super::views::told;
use crate::dialect::{Outcome, Show};
use crate::toolsets::Toolset;

/// What the engine is asked for: far more than is shown, so that what is shown is chosen well.
const RESULT_BYTES: u64 = 1 << 20;

pub(super) const TOOLS: &[ToolKind] = &[
    ToolKind {
        name: "code_run",
        toolset: Toolset::Code,
        about: "Run Python in a cell. The last expression's value is the result. Tools are functions: \
                `from tools.SERVER import TOOL`; only what you print or return comes back. Past wait_s \
                it goes on: poll exec_id.",
        effect: Effect::Changes,
        input: schema::of::<Run>,
        output: schema::of::<Ran>,
        request: run,
        result: |reply| {
            let Reply::ExecResult(result) = reply else { return None };
            Some(ran(result, Strategy::Auto))
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
    /// how long output is cut: auto, truncate, summarise, sample
    #[serde(default = "auto")]
    strategy: String,
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
    strategy_of(&asked.strategy)?;
    let language = match asked.language.as_str() {
        "python" => CodeLanguage::Python,
        other => {
            return Err(Error::invalid(format!("no cell runs {other:?} as code"))
                .hint("use python; run other languages with exec_run"));
        }
    };
    let command = Command::Code(Code { language, text: asked.code });
    Ok(ExecRun {
        timeout_s: (asked.timeout_s != 0.0).then_some(asked.timeout_s),
        wait_s: asked.wait_s.min(MOST_WAIT_S),
        result_bytes: RESULT_BYTES,
        ..ExecRun::new(cell_ref(asked.cell.as_deref())?, command)
    }
    .into())
}

fn strategy_of(name: &str) -> Result<Strategy> {
    serde_json::from_value(Value::String(name.to_owned())).map_err(|_| {
        Error::invalid(format!("there is no strategy {name:?}"))
            .hint("use auto, truncate, summarise or sample")
    })
}

/// How a run is shown, where its arguments say that.
pub(super) fn show(arguments: &JsonObject) -> Option<Show> {
    let strategy = strategy_of(arguments.get("strategy")?.as_str()?).ok()?;
    Some(Box::new(move |outcome: Outcome| {
        let Reply::ExecResult(result) = outcome.reply? else {
            return Err(Error::internal("code_run got the reply to another request"));
        };
        Ok(ran(result, strategy))
    }))
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

/// What code gave back, within its budget.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CodeView {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Anything")]
    result: Option<Value>,
    /// all of a result that is shown in part
    #[serde(skip_serializing_if = "Option::is_none")]
    result_file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    error: Option<CodeError>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Object>")]
    artifacts: Vec<Artifact>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Object>")]
    tools_called: Vec<ToolUse>,
    /// what was cut, and how to read it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Object>")]
    cut: Vec<Cut>,
}

#[derive(Debug, Serialize)]
struct Spent {
    #[serde(flatten)]
    usage: Usage,
    tokens: Tokens,
}

#[derive(Debug, Serialize)]
struct Tokens {
    /// What this answer costs.
    shown: usize,
}

/// What came of running code.
pub(super) fn ran(result: ExecResult, strategy: Strategy) -> CallToolResult {
    let ExecResult { exec, records, next_seq, report, .. } = result;
    let usage = exec.end.as_ref().map(|end| end.usage);
    let status = status_of(&exec, report.as_deref());
    let mut report = report.map_or_else(CodeReport::default, |report| *report);
    report.error = report.error.take().or_else(|| ended_by_force(&exec, status));
    let more = format!("exec_poll exec_id={}", exec.id);
    let streams = [Stream::Stdout, Stream::Stderr].map(|stream| pieces(&records, stream));
    let totals = usage.map_or([0; 2], |usage| [usage.stdout_bytes, usage.stderr_bytes]);
    let [stdout, stderr] = [0, 1].map(|at| {
        let (head, tail) = &streams[at];
        let lines = [head, tail].map(|part| part.iter().filter(|byte| **byte == b'\n').count());
        Text::pieces(head, tail, totals[at], lines.iter().sum::<usize>() as u64).read_by(&more)
    });
    let shown = briefed(&report, Parts { stdout, stderr, ..Parts::default() }, strategy);
    let tokens = Tokens { shown: shown.tokens };
    let view = Ran {
        cell: exec.cell.to_string(),
        exec_id: exec.id.to_string(),
        status: status.to_owned(),
        approval: exec.approval.as_deref().map(told),
        checkpoint: exec.checkpoint.as_ref().map(ToString::to_string),
        stdout: shown.stdout.clone(),
        stderr: shown.stderr.clone(),
        code: CodeView::new(report, shown),
        next_seq,
        usage: usage.map(|usage| Spent { usage, tokens }),
    };
    let text = view.text();
    answer(&view, text)
}

/// A report within the budget, together with what else is shown.
fn briefed<'a>(report: &'a CodeReport, streams: Parts<'a>, strategy: Strategy) -> Shown {
    let file = report.result_file.as_ref().map(|path| format!("fs_read {path}"));
    let parts = Parts {
        result: report.result.as_ref().map(|value| ResultPart {
            content: match value {
                CodeValue::Json(value) => ResultContent::Json(value),
                CodeValue::Repr(text) | CodeValue::Preview(text) => {
                    ResultContent::Text(Text::whole(text))
                }
            },
            more: file.as_deref(),
        }),
        error: report.error.as_ref().map(|error| ErrorPart {
            kind: &error.kind,
            message: &error.message,
            traceback: &error.traceback,
            more: None,
        }),
        ..streams
    };
    Brief::new(DEFAULT_BUDGET, strategy).show(&parts)
}

impl CodeView {
    /// A report alone.
    pub(super) fn of(report: CodeReport) -> Self {
        let shown = briefed(&report, Parts::default(), Strategy::Auto);
        Self::new(report, shown)
    }

    fn new(report: CodeReport, shown: Shown) -> Self {
        let line = report.error.as_ref().and_then(|error| error.line);
        Self {
            result: shown.result.map(|shown| match shown {
                ShownResult::Json(value) => value,
                ShownResult::Text(text) => Value::String(text),
            }),
            result_file: report.result_file,
            error: shown.error.map(|shown| CodeError {
                kind: shown.kind,
                message: shown.message,
                traceback: shown.traceback,
                line,
            }),
            artifacts: report.artifacts,
            tools_called: report.tools,
            cut: shown.cut,
        }
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
    }
}

fn add_part(text: &mut String, name: &str, content: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("[{name}] {content}"));
}

/// The beginning and the end of a stream; the end is empty where nothing is missing between them.
fn pieces(records: &[Record], stream: Stream) -> (Vec<u8>, Vec<u8>) {
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    let mut last = 0;
    let mut after_gap = false;
    for record in records {
        after_gap |= record.seq > last + 1;
        last = record.seq;
        if record.stream == stream {
            let part = if after_gap { &mut tail } else { &mut head };
            part.extend_from_slice(&record.bytes);
        }
    }
    (head, tail)
}

fn status_of(exec: &Exec, report: Option<&CodeReport>) -> &'static str {
    match (exec.state, exec.end.as_ref().map(|end| (end.cause, end.exit_code))) {
        (ExecState::Queued | ExecState::Running, _) | (ExecState::Ended, None) => "running",
        (ExecState::Ended, Some((EndCause::TimedOut, _))) => "timed_out",
        (ExecState::Ended, Some((EndCause::Cancelled, _))) => "cancelled",
        (ExecState::Ended, Some((EndCause::Denied, _))) => "denied",
        (ExecState::Ended, Some((EndCause::Exited, Some(0))))
            if report.is_none_or(|report| report.status == CodeOutcome::Ok) =>
        {
            "ok"
        }
        (
            ExecState::Ended,
            Some((EndCause::Exited | EndCause::Signaled | EndCause::OomKilled | EndCause::Lost, _)),
        ) => "error",
    }
}

/// What stands for an error of code that could not report one.
fn ended_by_force(exec: &Exec, status: &str) -> Option<CodeError> {
    let end = exec.end.as_ref().filter(|_| status != "ok")?;
    let message = match (end.exit_code, end.signal) {
        (Some(code), _) => format!("the process exited with code {code}"),
        (None, Some(signal)) => format!("the process was ended by {signal}"),
        (None, None) => "the process never ran or was lost".to_owned(),
    };
    Some(CodeError { kind: end.cause.as_str().to_owned(), message, ..CodeError::default() })
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

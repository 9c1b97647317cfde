//! `exec_run`, `exec_poll`, `exec_input`, `exec_cancel`, `exec_list`.

use std::collections::BTreeMap;

use hotcell_model::{
    CancelStatus, Error, ExecCancel, ExecInput, ExecList, ExecPage, ExecPoll, ExecResult, ExecRun,
    ExecState, ExecStatusFilter, OutputFilter, Reply, Request, Result, Signal, Stream,
    TerminalSize, Usage,
};
use rmcp::model::{CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cell_tools::cell_ref;
use super::code_tools::with_images;
use super::schema::{self, Object};
use super::text::{self, STREAM_BYTES};
use super::tool::{Effect, ToolKind, answer, read};
use super::views::{ExecView, PageView, Standing};
use crate::exec_parts::{self, terminal_size};
use crate::toolsets::Toolset;

/// The longest a call waits: clients give up after a minute.
pub(super) const MOST_WAIT_S: f64 = 50.0;
/// What the engine is asked for: enough for both streams of a result.
const RESULT_BYTES: u64 = 8 * STREAM_BYTES as u64;

pub(super) const TOOLS: &[ToolKind] = &[
    ToolKind {
        name: "exec_run",
        toolset: Toolset::Exec,
        about: "Run a command in a cell. Past wait_s it goes on: poll it by exec_id.",
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
        name: "exec_poll",
        toolset: Toolset::Exec,
        about: "Read an exec's output after a seq; wait_s waits for new output or the end.",
        effect: Effect::Reads,
        input: schema::of::<Poll>,
        output: schema::of::<PageView>,
        request: poll,
        result: |reply| {
            let Reply::ExecPage(page) = reply else { return None };
            Some(page_result(page))
        },
    },
    ToolKind {
        name: "exec_input",
        toolset: Toolset::Exec,
        about: "Send text, end of file, a signal or a terminal size to a running exec.",
        effect: Effect::Changes,
        input: schema::of::<Input>,
        output: schema::of::<PageView>,
        request: input,
        result: |reply| {
            let Reply::InputAccepted(accepted) = reply else { return None };
            accepted.output.map(page_result)
        },
    },
    ToolKind {
        name: "exec_cancel",
        toolset: Toolset::Exec,
        about: "End an exec and all its descendants: the signal, then KILL after grace_s.",
        effect: Effect::Ends,
        input: schema::of::<Cancel>,
        output: schema::of::<Cancelled>,
        request: cancel,
        result: cancelled,
    },
    ToolKind {
        name: "exec_list",
        toolset: Toolset::Exec,
        about: "List execs, newest first.",
        effect: Effect::Reads,
        input: schema::of::<List>,
        output: schema::of::<Listed>,
        request: list,
        result: listed,
    },
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Run {
    /// id or alias; your default cell when left out
    cell: Option<String>,
    /// shell text
    command: Option<String>,
    /// instead of command: program and arguments, no shell
    argv: Option<Vec<String>>,
    #[serde(default = "workspace")]
    cwd: String,
    env: Option<BTreeMap<String, String>>,
    /// sent, then EOF
    stdin: Option<String>,
    /// keep stdin open for exec_input
    #[serde(default)]
    stdin_open: bool,
    #[serde(default)]
    pty: bool,
    rows: Option<u16>,
    cols: Option<u16>,
    /// 0: none
    #[serde(default = "timeout")]
    timeout_s: f64,
    /// at most 50
    #[serde(default = "wait")]
    wait_s: f64,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    as_root: bool,
    idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Poll {
    exec_id: String,
    #[serde(default)]
    after_seq: u64,
    /// at most 50
    #[serde(default)]
    wait_s: f64,
    tail_lines: Option<u64>,
    /// regular expression
    grep: Option<String>,
    /// stdout, stderr or pty
    stream: Option<String>,
    max_bytes: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    exec_id: String,
    text: Option<String>,
    #[serde(default)]
    eof: bool,
    /// INT, TERM, …
    signal: Option<String>,
    rows: Option<u16>,
    cols: Option<u16>,
    /// for the answer
    #[serde(default = "short_wait")]
    wait_s: f64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Cancel {
    exec_id: String,
    #[serde(default = "term")]
    signal: String,
    #[serde(default = "grace")]
    grace_s: f64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    cell: Option<String>,
    /// live or ended
    status: Option<String>,
    #[serde(default = "limit")]
    limit: u32,
    cursor: Option<String>,
}

fn workspace() -> String {
    "/workspace".to_owned()
}

fn timeout() -> f64 {
    600.0
}

pub(super) fn wait() -> f64 {
    20.0
}

fn short_wait() -> f64 {
    0.1
}

fn term() -> String {
    "TERM".to_owned()
}

fn grace() -> f64 {
    5.0
}

fn limit() -> u32 {
    50
}

fn run(arguments: JsonObject) -> Result<Request> {
    let asked: Run = read(arguments)?;
    let command = exec_parts::command(asked.command, asked.argv)?;
    let size = terminal_size(asked.rows, asked.cols);
    let pty = size.or(asked.pty.then(TerminalSize::default));
    let stdin = exec_parts::stdin(asked.stdin, asked.stdin_open || pty.is_some())?;
    Ok(ExecRun {
        cwd: asked.cwd,
        env: asked.env.unwrap_or_default(),
        stdin,
        pty,
        timeout_s: (asked.timeout_s != 0.0).then_some(asked.timeout_s),
        wait_s: asked.wait_s.min(MOST_WAIT_S),
        result_bytes: RESULT_BYTES,
        priority: asked.priority,
        as_root: asked.as_root,
        idempotency_key: asked.idempotency_key,
        ..ExecRun::new(cell_ref(asked.cell.as_deref())?, command)
    }
    .into())
}

#[derive(Debug, Serialize, JsonSchema)]
struct Ran {
    #[serde(flatten)]
    standing: Standing,
    stdout: String,
    stderr: String,
    next_seq: u64,
    /// read the rest with exec_poll
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    usage: Option<Usage>,
}

/// An exec with its first output.
pub(super) fn ran(result: ExecResult) -> CallToolResult {
    let ExecResult { exec, records, truncated, next_seq, .. } = result;
    let stdout = text::of_stream(&records, &[Stream::Stdout, Stream::Pty], truncated);
    let stderr = text::of_stream(&records, &[Stream::Stderr], truncated);
    let view = Ran {
        standing: (&exec).into(),
        truncated: truncated || stdout.cut || stderr.cut,
        stdout: stdout.text,
        stderr: stderr.text,
        next_seq,
        usage: exec.end.as_ref().map(|end| end.usage),
    };
    let mut shown = view.stdout.clone();
    end_line(&mut shown);
    if !view.stderr.is_empty() {
        shown.push_str("[stderr]\n");
        shown.push_str(&view.stderr);
        end_line(&mut shown);
    }
    shown.push_str(&view.standing.line());
    answer(&view, shown)
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

fn poll(arguments: JsonObject) -> Result<Request> {
    let asked: Poll = read(arguments)?;
    Ok(ExecPoll {
        exec: asked.exec_id.parse()?,
        after_seq: asked.after_seq,
        wait_s: asked.wait_s.min(MOST_WAIT_S),
        filter: OutputFilter {
            tail_lines: asked.tail_lines,
            grep: asked.grep,
            stream: asked.stream.as_deref().map(stream).transpose()?,
        },
        max_bytes: asked.max_bytes.unwrap_or(2 * STREAM_BYTES as u64),
    }
    .into())
}

fn stream(name: &str) -> Result<Stream> {
    let all = [Stream::Stdout, Stream::Stderr, Stream::Pty];
    all.into_iter().find(|stream| stream.as_str() == name).ok_or_else(|| {
        Error::invalid(format!("there is no stream {name:?}")).hint("use stdout, stderr or pty")
    })
}

fn page_result(mut page: ExecPage) -> CallToolResult {
    let images = page.code.as_deref_mut().map(|code| std::mem::take(&mut code.images));
    let view = PageView::from(page);
    let text = view.text();
    with_images(answer(&view, text), &images.unwrap_or_default())
}

fn input(arguments: JsonObject) -> Result<Request> {
    let asked: Input = read(arguments)?;
    Ok(ExecInput {
        data: asked.text.unwrap_or_default().into_bytes(),
        eof: asked.eof,
        signal: asked.signal.as_deref().map(str::parse).transpose()?,
        size: terminal_size(asked.rows, asked.cols),
        wait_s: Some(asked.wait_s.min(MOST_WAIT_S)),
        ..ExecInput::to(asked.exec_id.parse()?)
    }
    .into())
}

fn cancel(arguments: JsonObject) -> Result<Request> {
    let asked: Cancel = read(arguments)?;
    let signal: Signal = asked.signal.parse()?;
    Ok(ExecCancel { exec: asked.exec_id.parse()?, signal, grace_s: asked.grace_s }.into())
}

#[derive(Debug, Serialize, JsonSchema)]
struct Cancelled {
    exec_id: String,
    /// cancelled, already_ended or not_found
    status: &'static str,
}

fn cancelled(reply: Reply) -> Option<CallToolResult> {
    let Reply::ExecCancelled(cancelled) = reply else { return None };
    let status = match cancelled.status {
        CancelStatus::Cancelled => "cancelled",
        CancelStatus::AlreadyEnded => "already_ended",
        CancelStatus::NotFound => "not_found",
    };
    let view = Cancelled { exec_id: cancelled.exec.to_string(), status };
    let text = format!("{} {status}", view.exec_id);
    Some(answer(&view, text))
}

fn list(arguments: JsonObject) -> Result<Request> {
    let asked: List = read(arguments)?;
    let status = match asked.status.as_deref() {
        None => None,
        Some("live") => Some(ExecStatusFilter::Live),
        Some(name) if name == ExecState::Ended.as_str() => Some(ExecStatusFilter::Ended),
        Some(other) => {
            return Err(
                Error::invalid(format!("there is no status {other:?}")).hint("use live or ended")
            );
        }
    };
    Ok(ExecList {
        cell: asked.cell.as_deref().map(str::parse).transpose()?,
        status,
        limit: asked.limit,
        cursor: asked.cursor,
    }
    .into())
}

#[derive(Debug, Serialize, JsonSchema)]
struct Listed {
    #[schemars(with = "Vec<Object>")]
    execs: Vec<ExecView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

fn listed(reply: Reply) -> Option<CallToolResult> {
    let Reply::Execs(execs) = reply else { return None };
    let view = Listed {
        execs: execs.execs.iter().map(ExecView::from).collect(),
        next_cursor: execs.next_cursor,
    };
    let text = match view.execs.as_slice() {
        [] => "no execs".to_owned(),
        execs => execs.iter().map(ExecView::line).collect::<Vec<_>>().join("\n"),
    };
    Some(answer(&view, text))
}

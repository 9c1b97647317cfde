//! `exec_run`, `exec_poll`, `exec_input`, `exec_cancel`, `exec_list`.

use std::collections::BTreeMap;

use hotcell_model::{
    CancelStatus, Error, ExecCancel, ExecInput, ExecList, ExecPage, ExecPoll, ExecResult, ExecRun,
    ExecState, ExecStatusFilter, Execs, OutputFilter, Reply, Result, Signal, Stream, TerminalSize,
    Usage,
};
use rmcp::model::{CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::MOST_DETAILED_EXECS;
use super::cell_tools::cell_ref;
use super::code_tools::with_images;
use super::schema::{self, Object};
use super::text::{self, STREAM_BYTES, end_line};
use super::tool::{Effect, MAX_SECONDS, ToolBounds, ToolKind, answer, named, question, read};
use super::views::{Detail, ExecView, LeftOut, PageView, Rest, Standing, ended_with, plain};
use crate::exec_parts::{self, terminal_size};
use crate::terminal_args::{UntilName, input_wait, output_view, poll_wait};
use crate::toolsets::Toolset;
use hotcell_dialects::{Outcome, Question, StartPhase, StartingExec};

/// What the engine is asked for: enough for both streams of a result.
const RESULT_BYTES: u64 = 16 * STREAM_BYTES as u64;
/// How much output a page has by default: the longest record, or several shorter ones.
const PAGE_BYTES: u64 = 16 << 10;

pub(super) const TOOLS: &[ToolKind] = &[
    ToolKind {
        name: "exec_run",
        toolset: Toolset::Exec,
        about: "Run a shell command in a cell and return its output and exit code. A command that \
                takes longer than wait_s keeps running: continue with exec_poll.",
        found_by: "run a shell command, bash terminal, execute program, build, test, install, git",
        effect: Effect::Runs,
        example: r#"{"command": "make test", "wait_s": 30}"#,
        input: schema::of::<Run>,
        output: schema::output::<Ran>,
        call: run,
    },
    ToolKind {
        name: "exec_poll",
        toolset: Toolset::Exec,
        about: "Read the output of a running or ended exec after a seq; wait for more with wait_s.",
        found_by: "background process logs, follow a long job, tail output, status of a command",
        effect: Effect::Reads,
        example: r#"{"exec_id": "e_0123456789", "after_seq": 0, "wait_s": 20}"#,
        input: schema::of::<Poll>,
        output: schema::output::<PageView>,
        call: poll,
    },
    ToolKind {
        name: "exec_input",
        toolset: Toolset::Exec,
        about: "Send text, keys, end of input, a signal or a terminal size to a running exec; returns \
                its answer.",
        found_by: "type into a terminal, stdin, answer a prompt, REPL, interactive program, ctrl-c",
        effect: Effect::Runs,
        example: r#"{"exec_id": "e_0123456789", "text": "yes\n"}"#,
        input: schema::of::<Input>,
        output: schema::output::<PageView>,
        call: input,
    },
    ToolKind {
        name: "exec_cancel",
        toolset: Toolset::Exec,
        about: "Stop an exec and all its processes: the signal, then KILL after grace_s.",
        found_by: "stop, kill or terminate a process or background job",
        effect: Effect::Stops,
        example: r#"{"exec_id": "e_0123456789"}"#,
        input: schema::of::<Cancel>,
        output: schema::output::<Cancelled>,
        call: cancel,
    },
    ToolKind {
        name: "exec_list",
        toolset: Toolset::Exec,
        about: "List execs, newest first.",
        found_by: "list running processes, background jobs, command history",
        effect: Effect::Reads,
        example: r#"{"status": "live"}"#,
        input: schema::of::<List>,
        output: schema::output::<Listed>,
        call: list,
    },
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Run {
    /// id or alias; default: yours
    cell: Option<String>,
    /// shell text
    command: Option<String>,
    /// instead of command, without a shell
    argv: Option<Vec<String>>,
    /// default /workspace
    #[serde(default = "workspace")]
    cwd: String,
    env: Option<BTreeMap<String, String>>,
    /// sent, then EOF
    stdin: Option<String>,
    /// keep stdin open for exec_input
    #[serde(default)]
    stdin_open: bool,
    /// run in a terminal; keeps stdin open
    #[serde(default)]
    pty: bool,
    /// 1-1000, default 24
    #[schemars(range(min = 1, max = 1000))]
    rows: Option<u16>,
    /// 1-1000, default 80
    #[schemars(range(min = 1, max = 1000))]
    cols: Option<u16>,
    /// ends it; default 600, at most 31536000, 0: none
    #[serde(default = "timeout")]
    #[schemars(range(min = 0, max = MAX_SECONDS))]
    timeout_s: f64,
    /// for the end: default 20, at most 50
    #[schemars(range(min = 0))]
    wait_s: Option<f64>,
    /// higher starts first, default 0
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    as_root: bool,
    /// within 24 h returns the first run
    idempotency_key: Option<String>,
    /// add usage
    #[serde(default)]
    details: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Poll {
    exec_id: String,
    /// next_seq of the last result; default 0
    #[serde(default)]
    after_seq: u64,
    /// at most 50; default 0, with until 10
    #[schemars(range(min = 0))]
    wait_s: Option<f64>,
    /// what to wait for; default output, in a terminal settled: waits for input or is quiet
    until: Option<UntilName>,
    /// regular expression for until match
    pattern: Option<String>,
    /// the terminal's screen instead
    #[serde(default)]
    screen: bool,
    tail_lines: Option<u64>,
    /// regular expression
    grep: Option<String>,
    /// stdout, stderr or pty; default all
    stream: Option<String>,
    /// default 16384, at most 1000000
    #[schemars(range(min = 1, max = 1_000_000))]
    max_bytes: Option<u64>,
    /// add times and usage
    #[serde(default)]
    details: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    exec_id: String,
    /// end a line with \n
    text: Option<String>,
    /// after text: down, enter, ctrl-c, esc, f1, alt-x, a, …
    #[serde(default)]
    keys: Vec<String>,
    /// then close stdin
    #[serde(default)]
    eof: bool,
    /// INT, TERM, …; in a terminal INT is for the foreground program
    signal: Option<String>,
    /// new size: 1-1000
    #[schemars(range(min = 1, max = 1000))]
    rows: Option<u16>,
    /// 1-1000
    #[schemars(range(min = 1, max = 1000))]
    cols: Option<u16>,
    /// for the answer, at most 50; default 0.1, in a terminal or with until 10
    #[schemars(range(min = 0))]
    wait_s: Option<f64>,
    /// as in exec_poll
    until: Option<UntilName>,
    pattern: Option<String>,
    #[serde(default)]
    screen: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Cancel {
    exec_id: String,
    /// default TERM
    #[serde(default = "term")]
    signal: String,
    /// default 5, at most 3600
    #[serde(default = "grace")]
    #[schemars(range(min = 0, max = 3600))]
    grace_s: f64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// default: all cells
    cell: Option<String>,
    /// live or ended; default both
    status: Option<String>,
    /// default 50, at most 150, with details 40
    #[serde(default = "limit")]
    #[schemars(range(min = 1, max = 150))]
    limit: u32,
    /// a next_cursor
    cursor: Option<String>,
    /// add times and usage
    #[serde(default)]
    details: bool,
}

fn workspace() -> String {
    "/workspace".to_owned()
}

fn timeout() -> f64 {
    600.0
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

fn run(arguments: JsonObject, bounds: ToolBounds) -> Result<Question> {
    let asked: Run = read(arguments)?;
    let detail = Detail::of(asked.details);
    let command = exec_parts::command(asked.command, asked.argv)?;
    let size = terminal_size(asked.rows, asked.cols);
    let pty = size.or(asked.pty.then(TerminalSize::default));
    let stdin = exec_parts::stdin(asked.stdin, asked.stdin_open || pty.is_some())?;
    let run = ExecRun {
        cwd: asked.cwd,
        env: asked.env.unwrap_or_default(),
        stdin,
        pty,
        timeout_s: (asked.timeout_s != 0.0).then_some(asked.timeout_s),
        wait_s: bounds.wait(asked.wait_s),
        result_bytes: RESULT_BYTES,
        priority: asked.priority,
        as_root: asked.as_root,
        idempotency_key: asked.idempotency_key,
        ..ExecRun::new(cell_ref(asked.cell.as_deref())?, command)
    };
    Ok(question(run, move |reply| {
        let Reply::ExecResult(result) = reply else { return None };
        Some(ran(result, detail))
    }))
}

#[derive(Debug, Serialize, JsonSchema)]
struct Ran {
    #[serde(flatten)]
    standing: Standing,
    stdout: String,
    stderr: String,
    /// pass it to exec_poll as after_seq
    next_seq: u64,
    /// read the rest with exec_poll
    truncated: bool,
    /// Processes that were ended with it, and how to keep them running.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    ended_with: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    usage: Option<Usage>,
}

/// An exec with its first output.
pub(super) fn ran(result: ExecResult, detail: Detail) -> CallToolResult {
    let ExecResult { exec, records, truncated, next_seq, awaiting, waiting_for_input, .. } = result;
    let stdout = text::of_stream(&exec, &records, &[Stream::Stdout, Stream::Pty], truncated);
    let stderr = text::of_stream(&exec, &records, &[Stream::Stderr], truncated);
    let view = Ran {
        standing: Standing::new(&exec, &awaiting).asking(waiting_for_input),
        truncated: truncated || stdout.cut || stderr.cut,
        stdout: stdout.text,
        stderr: stderr.text,
        next_seq,
        ended_with: ended_with(&exec),
        usage: exec.end.as_ref().and_then(|end| detail.only_full(|| end.usage)),
    };
    let mut shown = view.stdout.clone();
    end_line(&mut shown);
    if !view.stderr.is_empty() {
        shown.push_str("[stderr]\n");
        shown.push_str(&view.stderr);
        end_line(&mut shown);
    }
    let rest = if exec.state == ExecState::Ended { Rest::None } else { Rest::MayCome };
    shown.push_str(&view.standing.line_at(next_seq, rest));
    if let Some(ended_with) = &view.ended_with {
        shown.push_str(&format!("\n[{ended_with}]"));
    }
    if let Some(usage) = &view.usage {
        shown.push_str(&format!("\n[{}]", plain(usage)));
    }
    answer(&view, shown)
}

/// The result of a tool about an exec that the engine does not have yet.
pub(super) fn starting(tool: &str, exec: &StartingExec) -> CallToolResult {
    let standing = Standing::of_starting(exec);
    let text = match exec.phase {
        StartPhase::Starting => standing.line_at(0, Rest::MayCome),
        StartPhase::Cancelled | StartPhase::Failed(_) => standing.line(),
    };
    if tool == "exec_run" {
        let (stdout, stderr) = (String::new(), String::new());
        let (ended_with, usage) = (None, None);
        let ran =
            Ran { standing, stdout, stderr, next_seq: 0, truncated: false, ended_with, usage };
        return answer(&ran, text);
    }
    answer(&PageView::of_starting(exec), text)
}

fn poll(arguments: JsonObject, bounds: ToolBounds) -> Result<Question> {
    let asked: Poll = read(arguments)?;
    let detail = Detail::of(asked.details);
    let view = output_view(asked.until, asked.pattern, asked.screen)?;
    let max_bytes = asked.max_bytes.unwrap_or(PAGE_BYTES);
    let is_tail = asked.tail_lines.is_some();
    let poll = ExecPoll {
        exec: named("exec_id", asked.exec_id.parse())?,
        after_seq: asked.after_seq,
        wait_s: poll_wait(asked.wait_s, &view).min(bounds.most_wait_s),
        filter: OutputFilter {
            tail_lines: asked.tail_lines,
            grep: asked.grep,
            stream: asked.stream.as_deref().map(stream).transpose()?,
        },
        max_bytes,
        view,
    };
    Ok(question(poll, move |reply| {
        let Reply::ExecPage(mut page) = reply else { return None };
        let left_out = match is_tail {
            true => text::begin_with_a_line(&mut page.records, max_bytes),
            false => LeftOut::Nothing,
        };
        Some(page_result(page, left_out, detail))
    }))
}

fn stream(name: &str) -> Result<Stream> {
    let all = [Stream::Stdout, Stream::Stderr, Stream::Pty];
    all.into_iter()
        .find(|stream| stream.as_str() == name)
        .ok_or_else(|| Error::argument("stream", "stdout, stderr or pty", format!("{name:?}")))
}

fn page_result(mut page: ExecPage, left_out: LeftOut, detail: Detail) -> CallToolResult {
    let images = page.code.as_deref_mut().map(|code| std::mem::take(&mut code.images));
    let view = PageView::new(page, left_out, detail);
    let text = view.text();
    with_images(answer(&view, text), &images.unwrap_or_default())
}

fn input(arguments: JsonObject, bounds: ToolBounds) -> Result<Question> {
    let asked: Input = read(arguments)?;
    let mut view = output_view(asked.until, asked.pattern, asked.screen)?;
    let wait_s = input_wait(asked.wait_s, &mut view).min(bounds.most_wait_s);
    let input = ExecInput {
        data: asked.text.unwrap_or_default().into_bytes(),
        eof: asked.eof,
        signal: asked.signal.map(|it| named("signal", it.parse())).transpose()?,
        size: terminal_size(asked.rows, asked.cols),
        wait_s: Some(wait_s),
        keys: asked.keys,
        view,
        ..ExecInput::to(named("exec_id", asked.exec_id.parse())?)
    };
    Ok(question(input, |reply| {
        let Reply::InputAccepted(accepted) = reply else { return None };
        accepted.output.map(|page| page_result(page, LeftOut::Nothing, Detail::Brief))
    }))
}

fn cancel(arguments: JsonObject, _: ToolBounds) -> Result<Question> {
    let asked: Cancel = read(arguments)?;
    let signal: Signal = named("signal", asked.signal.parse())?;
    let exec = named("exec_id", asked.exec_id.parse())?;
    let cancel = ExecCancel { exec, signal, grace_s: asked.grace_s };
    Ok(question(cancel, cancelled))
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

fn list(arguments: JsonObject, _: ToolBounds) -> Result<Question> {
    let asked: List = read(arguments)?;
    let detail = Detail::of(asked.details);
    let status = match asked.status.as_deref() {
        None => None,
        Some("live") => Some(ExecStatusFilter::Live),
        Some(name) if name == ExecState::Ended.as_str() => Some(ExecStatusFilter::Ended),
        Some(other) => {
            return Err(Error::argument("status", "live or ended", format!("{other:?}")));
        }
    };
    // So many fit into a result.
    let most = match detail {
        Detail::Brief => 150,
        Detail::Full => MOST_DETAILED_EXECS,
    };
    let list = ExecList {
        cell: asked.cell.map(|cell| named("cell", cell.parse())).transpose()?,
        status,
        limit: asked.limit.min(most),
        cursor: asked.cursor,
    };
    let show = move |outcome: Outcome| {
        let Reply::Execs(execs) = outcome.reply? else {
            return Err(Error::internal("received the reply to another request"));
        };
        Ok(listed(execs, &outcome.starting, detail))
    };
    Ok(Question { request: list.into(), show: Some(Box::new(show)) })
}

#[derive(Debug, Serialize, JsonSchema)]
struct Listed {
    #[schemars(with = "Vec<Object>")]
    execs: Vec<ExecView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Execs one per line, with their cell where it changes.
fn exec_lines(execs: &[ExecView]) -> Vec<String> {
    let mut cell = "";
    let mut lines = Vec::with_capacity(execs.len());
    for exec in execs {
        let line = exec.line();
        lines.push(if exec.cell() == cell {
            line
        } else {
            format!("cell {}\n{line}", exec.cell())
        });
        cell = exec.cell();
    }
    lines
}

fn listed(execs: Execs, starting: &[StartingExec], detail: Detail) -> CallToolResult {
    let starting = starting.iter().map(|exec| ExecView::of_starting(exec, detail));
    let view = Listed {
        execs: starting
            .chain(execs.execs.iter().map(|it| ExecView::new(it, &execs.awaiting, detail)))
            .collect(),
        next_cursor: execs.next_cursor,
    };
    let mut text = match view.execs.is_empty() {
        true => "no execs\n".to_owned(),
        false => exec_lines(&view.execs).join("\n") + "\n",
    };
    if let Some(cursor) = &view.next_cursor {
        text.push_str(&format!("[more: continue with cursor {cursor}]\n"));
    }
    answer(&view, text)
}

//! The tools of vibesbox: commands behind an allow-list, and processes by their pids.
//!
//! A process is an exec in the caller's default cell; its pid is the one it has there.

mod lines;
mod redacted;
mod tools;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_model::{
    CellRef, Checked, Command, EndCause, Error, ErrorCode, Exec, ExecBounds, ExecCancel, ExecId,
    ExecList, ExecPoll, ExecResult, ExecRun, ExecState, ExecStatusFilter, ExecWait, OutputFilter,
    OutputView, PolicyCheck, PolicyDecision, PolicyVerdict, Result, Signal,
};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::lines::Beginnings;
use self::redacted::redacted;
use crate::as_meant::arguments_of;
use crate::dialect::{Dialect, ToolCall};
use crate::talk::{Asking, Progress, Told};
use crate::tool::{failed, read};

const SHELL: &str = "/bin/sh";
const MOST_CHARS: usize = 10_000;
const TIMEOUT_S: u64 = 30;
const MOST_TIMEOUT_S: u64 = 300;
/// Between the request to end and the end.
const GRACE_MS: u64 = 1000;
/// By then a command whose time is over has ended.
const ENDED_WITHIN_S: f64 = 10.0;
const SIGTERM: &str = "SIGTERM";
const SIGKILL: &str = "SIGKILL";
/// Processes that have ended and are still known.
const MOST_ENDED: u32 = 100;
const PAGE_BYTES: u64 = 4 << 20;
/// Output that is taken with the result of a run, without asking again.
const RESULT_BYTES: u64 = 256 << 10;
const KILL_GRACE_S: f64 = 5.0;

/// What rules of the block list are called by in the original.
const PATTERNS: &[(&str, &str)] = &[
    ("block-rm-root", "rm -rf /"),
    ("block-rm-root-by-code", "rm -rf /"),
    ("block-no-preserve-root", "rm -rf /"),
    ("block-dd-zero", "dd if=/dev/zero"),
    ("block-dd-endless", "dd if=/dev/zero"),
    ("block-fork-bomb", ":(){ :|:& };:"),
    ("block-chmod-root", "chmod -R 777 /"),
    ("block-mkfs", "mkfs"),
    ("block-devices", "> /dev/sda"),
];

/// The dialect.
#[derive(Debug)]
pub struct Vibesbox {
    tools: Vec<Tool>,
    seen: Arc<Seen>,
}

impl Default for Vibesbox {
    fn default() -> Self {
        Self { tools: tools::all(), seen: Arc::default() }
    }
}

/// How far the output of processes was read.
#[derive(Debug, Default)]
struct Seen(Mutex<VecDeque<(ExecId, u64)>>);

impl Seen {
    const MOST: usize = 1000;

    fn of(&self, exec: &ExecId) -> u64 {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().find(|(known, _)| known == exec).map_or(0, |(_, seq)| *seq)
    }

    /// Notes what was read, unless somebody else has read it meanwhile.
    fn advance(&self, exec: &ExecId, from: u64, to: u64) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = seen.iter().position(|(known, _)| known == exec);
        if at.and_then(|at| seen.get(at)).map_or(0, |(_, seq)| *seq) != from {
            return false;
        }
        if let Some(at) = at {
            seen.remove(at);
        }
        seen.push_back((exec.clone(), to));
        if seen.len() > Self::MOST {
            seen.pop_front();
        }
        true
    }
}

impl Dialect for Vibesbox {
    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn call(&self, tool: &str, arguments: JsonObject) -> Result<ToolCall> {
        let arguments = arguments_of(self.find(tool), arguments);
        let asked = Asked::read(tool, arguments)?;
        let seen = Arc::clone(&self.seen);
        Ok(ToolCall::Talks(Box::new(move |asking| {
            Box::pin(async move { asked.answer(Shell { asking, seen }).await })
        })))
    }

    /// Clients put together what they are told: it is output and nothing else.
    fn progress(&self, output: Option<String>) -> Option<String> {
        output.map(|output| redacted(&output))
    }

    fn failure(&self, _: &str, error: &Error) -> CallToolResult {
        failed(&error.message)
    }
}

enum Asked {
    Execute(Execute),
    Manage(Manage),
    Health,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Execute {
    command: String,
    #[serde(default = "shell")]
    shell: String,
    #[serde(default = "timeout")]
    timeout: u64,
    #[serde(default = "yes")]
    stream: bool,
    #[serde(default)]
    background: bool,
}

fn shell() -> String {
    SHELL.to_owned()
}

fn timeout() -> u64 {
    TIMEOUT_S
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manage {
    action: String,
    pid: Option<u32>,
    #[serde(default = "sigterm")]
    signal: String,
}

fn sigterm() -> String {
    SIGTERM.to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Asked {
    fn read(tool: &str, arguments: JsonObject) -> Result<Self> {
        let refused = |why: String| Err(Error::invalid(format!("Input validation error: {why}")));
        match tool {
            tools::EXECUTE => {
                let execute: Execute = read(arguments)?;
                let chars = execute.command.chars().count();
                match (chars > MOST_CHARS, execute.timeout) {
                    (true, _) => {
                        refused(format!("command: {chars} characters are more than {MOST_CHARS}"))
                    }
                    (false, 1..=MOST_TIMEOUT_S) => Ok(Self::Execute(execute)),
                    (false, other) => {
                        refused(format!("timeout: {other} is not from 1 to {MOST_TIMEOUT_S}"))
                    }
                }
            }
            tools::MANAGE => {
                let manage: Manage = read(arguments)?;
                match manage.signal.as_str() {
                    SIGTERM | SIGKILL => Ok(Self::Manage(manage)),
                    other => refused(format!("signal: '{other}' is not {SIGTERM} or {SIGKILL}")),
                }
            }
            tools::HEALTH => read(arguments).map(|Nothing {}| Self::Health),
            _ => Err(Error::not_found(format!("Unknown tool: '{tool}'"))),
        }
    }

    async fn answer(self, shell: Shell) -> Told {
        Ok(match self {
            Self::Execute(execute) => text_of(&shell.execute(execute).await),
            Self::Manage(manage) => shell.manage(manage).await,
            Self::Health => text_of(&json!({
                "status": "healthy",
                "service": "vibesbox",
                "version": env!("CARGO_PKG_VERSION"),
            })),
        })
    }
}

/// A JSON text, and the same in a field.
fn text_of<T: Serialize>(value: &T) -> CallToolResult {
    let text = serde_json::to_string(value).unwrap_or_default();
    let structured = json!({ "result": text });
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(structured);
    result
}

#[derive(Serialize, Default)]
struct Executed {
    success: bool,
    exit_code: Option<i32>,
    stdout: String,
    stderr: String,
    truncated: bool,
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
}

impl Executed {
    fn refused(error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::default() }
    }
}

#[derive(Serialize)]
struct Process {
    pid: u32,
    command: String,
    started_at: String,
    status: &'static str,
}

/// The commands of a caller.
struct Shell {
    asking: Box<dyn Asking>,
    seen: Arc<Seen>,
}

impl Shell {
    async fn execute(&self, asked: Execute) -> Executed {
        if asked.command.trim().is_empty() {
            return Executed::refused("Command cannot be empty");
        }
        let argv = vec![asked.shell, "-c".to_owned(), asked.command];
        let timeout_s = (!asked.background).then_some(asked.timeout as f64);
        let run = ExecRun {
            timeout_s,
            wait_s: timeout_s.map_or(0.0, |timeout_s| timeout_s + ENDED_WITHIN_S),
            result_bytes: RESULT_BYTES,
            bounds: ExecBounds { grace_ms: Some(GRACE_MS), ..ExecBounds::default() },
            ..ExecRun::new(CellRef::Default, Command::Argv(argv.clone()))
        };
        let progress = if asked.stream { Progress::Shown } else { Progress::Silent };
        match self.asking.run(run, progress).await {
            Ok(begun) if asked.background && begun.exec.pid.is_some() => {
                Executed { success: true, pid: begun.exec.pid, ..Executed::default() }
            }
            Ok(ran) => self.shown(ran, asked.timeout).await,
            Err(error) if error.code == ErrorCode::Denied => {
                Executed::refused(self.refusal(argv, error).await)
            }
            Err(error) => Executed::refused(error.message),
        }
    }

    /// Why a command is not run, in the words of the original.
    async fn refusal(&self, argv: Vec<String>, error: Error) -> String {
        let check = PolicyCheck { checked: Checked::Argv(argv), as_root: false, profile: None };
        let Ok(verdict) = self.asking.ask(check).await else { return error.message };
        let PolicyVerdict { rule, reason, parts, allowed_commands, .. } = verdict;
        let known = PATTERNS.iter().find(|(id, _)| rule.as_deref() == Some(*id));
        if let Some((_, pattern)) = known {
            return format!("Command blocked: matches dangerous pattern '{pattern}'");
        }
        let is_listed = |name: &str| {
            let name = name.rsplit('/').next().unwrap_or_default();
            allowed_commands.iter().any(|allowed| allowed == name)
        };
        let unlisted = parts.iter().find_map(|part| {
            let name = part.name.as_deref()?;
            let is_denied = part.decision == PolicyDecision::Deny;
            // A file elsewhere that has the name of a program is not that program.
            (is_denied && (part.rule.is_none() || !is_listed(name))).then_some(name)
        });
        match unlisted {
            Some(name) if !allowed_commands.is_empty() => {
                let allowed = allowed_commands.join(", ");
                format!("Command '{name}' not in allowlist. Allowed commands: {allowed}")
            }
            Some(_) | None => format!("Command blocked: matches dangerous pattern '{reason}'"),
        }
    }

    async fn shown(&self, ran: ExecResult, timeout_s: u64) -> Executed {
        let mut beginnings = Beginnings::default();
        if ran.truncated {
            if let Err(error) = self.read_all(&ran.exec.id, &mut beginnings).await {
                return Executed::refused(error.message);
            }
        } else {
            beginnings.take(&ran.records);
        }
        let (stdout, stderr) = beginnings.shown();
        let (exit_code, error) = how_it_ended(&ran.exec, timeout_s);
        Executed {
            success: exit_code == Some(0),
            exit_code,
            truncated: stdout.is_cut || stderr.is_cut,
            stdout: stdout.text,
            stderr: stderr.text,
            error,
            pid: None,
        }
    }

    async fn read_all(&self, exec: &ExecId, beginnings: &mut Beginnings) -> Result<()> {
        let mut after_seq = 0;
        loop {
            let page = self.asking.ask(page_after(exec, after_seq)).await?;
            let is_last = page.complete || page.next_seq == after_seq;
            after_seq = page.next_seq;
            beginnings.take(&page.records);
            if is_last {
                return Ok(());
            }
        }
    }

    async fn manage(&self, asked: Manage) -> CallToolResult {
        let done = match (asked.action.as_str(), asked.pid) {
            ("list", _) => self.list().await,
            ("kill", Some(pid)) => self.kill(pid, &asked.signal).await,
            ("read", Some(pid)) => self.read(pid).await,
            (action, _) => Ok(text_of(&json!({
                "success": false,
                "error": format!("Invalid action '{action}' or missing PID for '{action}' action"),
                "suggestion": "Use action 'list', or 'kill' or 'read' with the pid of a process",
            }))),
        };
        done.unwrap_or_else(|error| {
            text_of(&json!({ "success": false, "error": error.message, "suggestion": error.hint }))
        })
    }

    /// What runs, and the last of what has ended, newest first.
    async fn processes(&self) -> Result<Vec<Exec>> {
        let mut execs = Vec::new();
        for (status, limit) in
            [(ExecStatusFilter::Live, 1000), (ExecStatusFilter::Ended, MOST_ENDED)]
        {
            let cell = Some(CellRef::Default);
            let list = ExecList { cell, status: Some(status), limit, cursor: None };
            match self.asking.ask(list).await {
                Ok(page) => execs.extend(page.execs),
                // Nothing was run so far.
                Err(error) if error.code == ErrorCode::NotFound => return Ok(execs),
                Err(error) => return Err(error),
            }
        }
        execs.sort_by(|one, other| (other.queued_at, &other.id).cmp(&(one.queued_at, &one.id)));
        execs.dedup_by(|one, other| one.id == other.id);
        Ok(execs)
    }

    async fn list(&self) -> Result<CallToolResult> {
        let execs = self.processes().await?;
        let processes = execs.iter().filter_map(|exec| {
            Some(Process {
                pid: exec.pid?,
                command: redacted(&text_of_command(&exec.command)),
                started_at: exec.started_at.unwrap_or(exec.queued_at).to_string(),
                status: if exec.state == ExecState::Ended { "completed" } else { "running" },
            })
        });
        let processes: Vec<Process> = processes.collect();
        let count = processes.len();
        Ok(text_of(&json!({ "success": true, "processes": processes, "count": count })))
    }

    async fn kill(&self, pid: u32, signal: &str) -> Result<CallToolResult> {
        let execs = self.processes().await?;
        let live = execs.iter().find(|exec| exec.pid == Some(pid) && exec.end.is_none());
        let Some(Exec { id, .. }) = live else { return Ok(unknown(pid)) };
        let (sent, grace_s) = match signal {
            SIGKILL => (Signal::KILL, 0.0),
            _ => (Signal::TERM, KILL_GRACE_S),
        };
        self.asking.ask(ExecCancel { exec: id.clone(), signal: sent, grace_s }).await?;
        let wait_s = grace_s + ENDED_WITHIN_S;
        self.asking.ask(ExecWait { exec: id.clone(), wait_s, result_bytes: 0 }).await?;
        let message = format!("Process {pid} terminated with {signal}");
        Ok(text_of(&json!({ "success": true, "message": message, "pid": pid })))
    }

    async fn read(&self, pid: u32) -> Result<CallToolResult> {
        let execs = self.processes().await?;
        let found = execs.iter().find(|exec| exec.pid == Some(pid));
        let Some(Exec { id, .. }) = found else { return Ok(unknown(pid)) };
        let page = loop {
            let from = self.seen.of(id);
            let page = self.asking.ask(page_after(id, from)).await?;
            if self.seen.advance(id, from, page.next_seq) {
                break page;
            }
        };
        let bytes: Vec<u8> = page.records.into_iter().flat_map(|record| record.bytes).collect();
        let output = redacted(&String::from_utf8_lossy(&bytes));
        let has_new_output = !output.is_empty();
        Ok(text_of(&json!({
            "success": true,
            "pid": pid,
            "output": output,
            "has_new_output": has_new_output,
        })))
    }
}

fn page_after(exec: &ExecId, after_seq: u64) -> ExecPoll {
    ExecPoll {
        exec: exec.clone(),
        after_seq,
        wait_s: 0.0,
        filter: OutputFilter::default(),
        max_bytes: PAGE_BYTES,
        view: OutputView::first_output(),
    }
}

fn unknown(pid: u32) -> CallToolResult {
    text_of(&json!({
        "success": false,
        "error": format!("Process {pid} not found in active sessions"),
        "suggestion": "Use action 'list' to see the processes that there are",
    }))
}

/// What was to be run, without the shell that it was run by.
fn text_of_command(command: &Command) -> String {
    match command {
        Command::Argv(argv) => match argv.as_slice() {
            [_, flag, text] if flag == "-c" => text.clone(),
            _ => command.to_string(),
        },
        Command::Shell(_) | Command::Code(_) => command.to_string(),
    }
}

/// The exit code, as a parent sees it, and what else there is to say.
fn how_it_ended(exec: &Exec, timeout_s: u64) -> (Option<i32>, Option<String>) {
    let Some(end) = &exec.end else {
        return (None, Some("Command is still running".to_owned()));
    };
    match end.cause {
        EndCause::Exited => (end.exit_code, None),
        EndCause::Signaled => (end.signal.map(|signal| -signal.number()), None),
        EndCause::TimedOut => (None, Some(format!("Command timed out after {timeout_s} seconds"))),
        EndCause::Cancelled => (None, Some("Command was cancelled".to_owned())),
        EndCause::OomKilled => (None, Some("Command was killed: out of memory".to_owned())),
        EndCause::Lost => (None, Some("Command was lost with its cell".to_owned())),
        EndCause::Denied => (None, Some("Command was not approved".to_owned())),
    }
}

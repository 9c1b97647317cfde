//! The tools of `mcp-background-job`: commands that run in the background, as jobs.
//!
//! A job is an exec in the caller's default cell.

mod job_id;
mod output;
mod tools;

use std::time::{Duration, Instant};

use hotcell_model::{
    CancelStatus, CellRef, Checked, CheckedLanguage, Command, EndCause, Error, ErrorCode, Exec,
    ExecBounds, ExecCancel, ExecGet, ExecId, ExecInput, ExecList, ExecPage, ExecPoll, ExecRun,
    ExecState, ExecStatusFilter, ExecWait, LIMITS, OutputFilter, OutputView, PolicyCheck,
    PolicyVerdict, Result, Signal, Stdin, Stream, Timestamp,
};
use rmcp::model::{CallToolResult, JsonObject, Tool};
use serde::{Deserialize, Serialize};

use self::job_id::JobId;
use self::output::{Gathered, Output};
use crate::as_meant::arguments_of;
use crate::dialect::{Dialect, ToolCall};
use crate::talk::{Asking, Told};
use crate::tool::{answer, failed, read};

/// Lines of a tail unless told.
const TAIL_LINES: u64 = 50;
const MOST_LINES: u64 = 1000;
/// How long the answer to an input is waited for.
const ANSWERS_WITHIN: Duration = Duration::from_millis(100);
/// Between the request to end and the end.
const KILL_GRACE_S: f64 = 5.0;
/// Within that a job that is killed has ended.
const KILLED_WITHIN_S: f64 = KILL_GRACE_S + 5.0;
/// How much output is asked for at once.
const PAGE_BYTES: u64 = 4 << 20;
const LISTED_AT_ONCE: u32 = 1000;
/// The bound of jobs, as the engine calls it.
const MAX_RUNNING: &str = "max_running";

/// What the variables of the original say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobSettings {
    /// Jobs that run at once; the next one is refused.
    pub most_jobs: u32,
    /// Bytes that are shown of each stream of a job: its end.
    pub output_bytes: u64,
    /// Seconds after which a job is ended.
    pub timeout_s: Option<u64>,
    /// Seconds after its end at which a job is forgotten.
    pub keep_s: u64,
}

impl Default for JobSettings {
    fn default() -> Self {
        Self { most_jobs: 10, output_bytes: 10 << 20, timeout_s: None, keep_s: 300 }
    }
}

/// The dialect.
#[derive(Debug)]
pub struct BackgroundJob {
    settings: JobSettings,
    tools: Vec<Tool>,
}

impl BackgroundJob {
    /// With what the variables say.
    #[must_use]
    pub fn new(settings: JobSettings) -> Self {
        Self { settings, tools: tools::all() }
    }
}

impl Dialect for BackgroundJob {
    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn find(&self, name: &str) -> Option<&Tool> {
        let name = tools::wire_name(name);
        self.tools.iter().find(|tool| tool.name == name)
    }

    fn call(&self, tool: &str, arguments: JsonObject) -> Result<ToolCall> {
        let arguments = arguments_of(self.find(tool), arguments);
        let asked = Asked::read(tools::wire_name(tool), arguments)?;
        let settings = self.settings;
        Ok(ToolCall::Talks(Box::new(move |asking| {
            Box::pin(async move { asked.answer(Jobs { asking, settings }).await })
        })))
    }

    fn failure(&self, _: &str, error: &Error) -> CallToolResult {
        failed(&error.message)
    }
}

/// What is asked of jobs.
enum Asked {
    Execute(Execute),
    List,
    Status(OfJob),
    Output(OfJob),
    Tail(Tail),
    Interact(Interact),
    Kill(OfJob),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Execute {
    command: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfJob {
    job_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tail {
    job_id: String,
    #[serde(default = "tail_lines")]
    lines: u64,
}

fn tail_lines() -> u64 {
    TAIL_LINES
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Interact {
    job_id: String,
    input: String,
}

impl Asked {
    fn read(tool: &str, arguments: JsonObject) -> Result<Self> {
        Ok(match tool {
            tools::EXECUTE => Self::Execute(read(arguments)?),
            tools::LIST => read(arguments).map(|Nothing {}| Self::List)?,
            tools::STATUS => Self::Status(read(arguments)?),
            tools::OUTPUT => Self::Output(read(arguments)?),
            tools::TAIL => {
                let tail: Tail = read(arguments)?;
                let refused = |bound: String| {
                    Err(Error::invalid(format!("Input validation error: lines: {bound}")))
                };
                match tail.lines {
                    0 => return refused("0 is less than the minimum of 1".to_owned()),
                    1..=MOST_LINES => Self::Tail(tail),
                    more => {
                        return refused(format!(
                            "{more} is greater than the maximum of {MOST_LINES}"
                        ));
                    }
                }
            }
            tools::INTERACT => Self::Interact(read(arguments)?),
            tools::KILL => Self::Kill(read(arguments)?),
            _ => return Err(Error::not_found(format!("Unknown tool: '{tool}'"))),
        })
    }

    async fn answer(self, jobs: Jobs) -> Told {
        let answered = match self {
            Self::Execute(Execute { command }) => jobs.execute(command.trim()).await,
            Self::List => jobs.list().await,
            Self::Status(OfJob { job_id }) => jobs.status(&job_id).await,
            Self::Output(OfJob { job_id }) => jobs.output(&job_id).await,
            Self::Tail(Tail { job_id, lines }) => jobs.tail(&job_id, lines).await,
            Self::Interact(Interact { job_id, input }) => jobs.interact(&job_id, input).await,
            Self::Kill(OfJob { job_id }) => jobs.kill(&job_id).await,
        };
        Ok(answered.unwrap_or_else(failed))
    }
}

/// An answer, or the text of an error.
type Answered = std::result::Result<CallToolResult, String>;

#[derive(Serialize)]
struct Executed {
    job_id: String,
}

#[derive(Serialize)]
struct Listed {
    jobs: Vec<Job>,
}

#[derive(Serialize)]
struct Job {
    job_id: String,
    #[serde(flatten)]
    standing: Standing,
    command: String,
    started: String,
}

#[derive(Serialize)]
struct Standing {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
}

#[derive(Serialize)]
struct Killed {
    status: &'static str,
}

/// The jobs of a caller.
struct Jobs {
    asking: Box<dyn Asking>,
    settings: JobSettings,
}

impl Jobs {
    async fn execute(&self, command: &str) -> Answered {
        if command.is_empty() {
            return Err("Invalid command: Command cannot be empty".to_owned());
        }
        let run = ExecRun {
            stdin: Stdin::Open,
            timeout_s: self.settings.timeout_s.map(|seconds| seconds as f64),
            bounds: self.settings.bounds(),
            ..ExecRun::new(CellRef::Default, Command::Shell(command.to_owned()))
        };
        match self.asking.ask(run).await {
            Ok(begun) => Ok(answer(&Executed { job_id: JobId::of(&begun.exec.id).to_string() })),
            Err(error) => Err(self.refusal(command, error).await),
        }
    }

    /// Why a command was not run, in the words of the original.
    async fn refusal(&self, command: &str, error: Error) -> String {
        match error.code {
            ErrorCode::Denied => match self.is_unlisted(command).await {
                true => format!("Invalid command: Command not in allowed patterns: {command}"),
                false => format!(
                    "Invalid command: Command contains dangerous pattern and is not allowed: {command}"
                ),
            },
            ErrorCode::LimitExceeded => {
                match error.quota.filter(|quota| quota.key == MAX_RUNNING) {
                    Some(quota) => format!(
                        "Job limit reached: Maximum concurrent jobs limit ({}) reached",
                        quota.limit
                    ),
                    None => format!("Job limit reached: {}", error.message),
                }
            }
            ErrorCode::Invalid => format!("Invalid command: {}", error.message),
            ErrorCode::NotFound
            | ErrorCode::Conflict
            | ErrorCode::Timeout
            | ErrorCode::Cancelled
            | ErrorCode::Unsupported
            | ErrorCode::Unavailable
            | ErrorCode::Internal => match error.hint {
                Some(hint) => format!("Failed to execute command: {} ({hint})", error.message),
                None => format!("Failed to execute command: {}", error.message),
            },
        }
    }

    /// Whether a command is refused for not being among those that are allowed.
    async fn is_unlisted(&self, command: &str) -> bool {
        let checked = Checked::Text(CheckedLanguage::Shell, command.to_owned());
        let check = PolicyCheck { checked, as_root: false, profile: None };
        let verdict = self.asking.ask(check).await;
        verdict.is_ok_and(|verdict| verdict.rule.is_none_or(|rule| rule == PolicyVerdict::LINES))
    }

    async fn list(&self) -> Answered {
        let mut execs = self.listed(ExecStatusFilter::Live).await?;
        let since = Timestamp(Timestamp::now().0.saturating_sub(self.settings.keep_s * 1000));
        for ended in self.listed(ExecStatusFilter::EndedSince(since)).await? {
            if !execs.iter().any(|exec| exec.id == ended.id) {
                execs.push(ended);
            }
        }
        execs.sort_by_key(|exec| std::cmp::Reverse(exec.queued_at));
        let jobs = execs.into_iter().map(|exec| Job {
            job_id: JobId::of(&exec.id).to_string(),
            standing: Standing::of(&exec),
            started: exec.started_at.unwrap_or(exec.queued_at).to_string(),
            command: exec.command.to_string(),
        });
        Ok(answer(&Listed { jobs: jobs.collect() }))
    }

    async fn listed(&self, status: ExecStatusFilter) -> std::result::Result<Vec<Exec>, String> {
        let mut found = Vec::new();
        let mut cursor = None;
        loop {
            let cell = Some(CellRef::Default);
            let page = ExecList { cell, status: Some(status), limit: LISTED_AT_ONCE, cursor };
            match self.asking.ask(page).await {
                Ok(page) => {
                    found.extend(page.execs);
                    cursor = page.next_cursor;
                }
                // Nothing was run so far.
                Err(error) if error.code == ErrorCode::NotFound => return Ok(found),
                Err(error) => return Err(error.message),
            }
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }

    async fn status(&self, job: &str) -> Answered {
        let exec = self.find(job).await?;
        Ok(answer(&Standing::of(&exec)))
    }

    /// The exec of a job that is not forgotten.
    async fn find(&self, job: &str) -> std::result::Result<Exec, String> {
        let Some(exec) = JobId::exec(job) else { return Err(unknown(job)) };
        match self.asking.ask(ExecGet { exec }).await {
            Ok(exec) if self.is_forgotten(&exec) => Err(unknown(job)),
            Ok(exec) => Ok(exec),
            Err(error) => Err(told(job, error)),
        }
    }

    fn is_forgotten(&self, exec: &Exec) -> bool {
        let end = exec.end.as_ref();
        end.is_some_and(|end| end.ended_at.plus_seconds(self.settings.keep_s) <= Timestamp::now())
    }

    async fn output(&self, job: &str) -> Answered {
        let exec = self.find(job).await?.id;
        let mut gathered = Gathered::new(self.settings.output_bytes);
        // A job may write faster than it can be read: its end is where it was when it was asked for.
        let last_line = OutputFilter { tail_lines: Some(1), ..OutputFilter::default() };
        let end = self.page(job, &exec, 0, last_line).await?.next_seq;
        let mut after_seq = 0;
        loop {
            let page = self.page(job, &exec, after_seq, OutputFilter::default()).await?;
            let is_last = page.complete || page.next_seq >= end || page.next_seq == after_seq;
            after_seq = page.next_seq;
            gathered.take(page.records, page.dropped);
            if let (true, Some(end)) = (page.complete, &page.exec.end) {
                gathered.finish(end);
            }
            if is_last {
                return Ok(answer(&gathered.shown()));
            }
        }
    }

    async fn tail(&self, job: &str, lines: u64) -> Answered {
        let exec = self.find(job).await?.id;
        let last = async |stream| {
            let filter = OutputFilter { tail_lines: Some(lines), grep: None, stream: Some(stream) };
            let page = self.page(job, &exec, 0, filter).await?;
            let mut gathered = Gathered::new(self.settings.output_bytes);
            gathered.take(page.records, page.dropped);
            Ok::<Output, String>(gathered.last(lines))
        };
        let (stdout, stderr) =
            (last(Stream::Stdout).await?.stdout, last(Stream::Stderr).await?.stderr);
        Ok(answer(&Output { stdout, stderr }))
    }

    async fn page(
        &self,
        job: &str,
        exec: &ExecId,
        after_seq: u64,
        filter: OutputFilter,
    ) -> std::result::Result<ExecPage, String> {
        let exec = exec.clone();
        let poll = ExecPoll {
            exec,
            after_seq,
            wait_s: 0.0,
            filter,
            max_bytes: PAGE_BYTES,
            view: OutputView::first_output(),
        };
        self.asking.ask(poll).await.map_err(|error| told(job, error))
    }

    async fn interact(&self, job: &str, mut input: String) -> Answered {
        let exec = self.find(job).await?.id;
        if !input.ends_with('\n') {
            input.push('\n');
        }
        let until = Instant::now() + ANSWERS_WITHIN;
        let sent = ExecInput {
            data: input.into_bytes(),
            wait_s: Some(ANSWERS_WITHIN.as_secs_f64()),
            view: OutputView::first_output(),
            ..ExecInput::to(exec.clone())
        };
        let sent = match self.asking.ask(sent).await {
            Ok(sent) => sent,
            Err(error) => return Err(self.untaken(job, &exec, error).await),
        };
        let mut gathered = Gathered::new(self.settings.output_bytes);
        let Some(page) = sent.output else { return Ok(answer(&gathered.shown())) };
        let mut after_seq = page.next_seq;
        let mut is_over = page.complete;
        gathered.take(page.records, page.dropped);
        while let (false, Some(left)) = (is_over, until.checked_duration_since(Instant::now())) {
            let poll = ExecPoll {
                exec: exec.clone(),
                after_seq,
                wait_s: left.as_secs_f64(),
                filter: OutputFilter::default(),
                max_bytes: PAGE_BYTES,
                view: OutputView::first_output(),
            };
            let page = self.asking.ask(poll).await.map_err(|error| told(job, error))?;
            (after_seq, is_over) = (page.next_seq, page.complete);
            gathered.take(page.records, page.dropped);
        }
        Ok(answer(&gathered.shown()))
    }

    /// Why a job was not given its input: it has ended, or does not want any.
    async fn untaken(&self, job: &str, exec: &ExecId, error: Error) -> String {
        let found = self.asking.ask(ExecGet { exec: exec.clone() }).await;
        match found.is_ok_and(|exec| exec.state != ExecState::Ended) {
            true => format!("Failed to interact with job: {}", error.message),
            false => told(job, error),
        }
    }

    async fn kill(&self, job: &str) -> Answered {
        let told = |status| Ok(answer(&Killed { status }));
        let Ok(Exec { id: exec, .. }) = self.find(job).await else { return told("not_found") };
        let cancel = ExecCancel { exec: exec.clone(), signal: Signal::TERM, grace_s: KILL_GRACE_S };
        match self.asking.ask(cancel).await.map_err(|error| error.message)?.status {
            CancelStatus::NotFound => told("not_found"),
            CancelStatus::AlreadyEnded => told("already_terminated"),
            CancelStatus::Cancelled => {
                let wait = ExecWait { exec, wait_s: KILLED_WITHIN_S, result_bytes: 0 };
                self.asking.ask(wait).await.map_err(|error| error.message)?;
                told("killed")
            }
        }
    }
}

impl JobSettings {
    /// Of streams that are longer than what is kept, all that is shown is kept where they come side by
    /// side: a log that is full keeps seven of sixteen parts of its end, for both of them.
    fn bounds(&self) -> ExecBounds {
        let output_bytes = self.output_bytes.saturating_mul(5);
        ExecBounds {
            most_live: Some(self.most_jobs),
            output_bytes: Some(
                output_bytes.clamp(LIMITS.min_output_bytes, LIMITS.max_output_bytes),
            ),
            keep_s: Some(self.keep_s),
            grace_ms: None,
        }
    }
}

impl Standing {
    fn of(exec: &Exec) -> Self {
        let Some(end) = exec.end.as_ref().filter(|_| exec.state == ExecState::Ended) else {
            return Self { status: "running", exit_code: None };
        };
        let status = match (end.cause, end.exit_code) {
            (EndCause::Exited, Some(0)) => "completed",
            (EndCause::Cancelled | EndCause::TimedOut, _) => "killed",
            (
                EndCause::Exited
                | EndCause::Signaled
                | EndCause::OomKilled
                | EndCause::Lost
                | EndCause::Denied,
                _,
            ) => "failed",
        };
        let by_signal = || end.signal.map(|signal| -signal.number());
        Self { status, exit_code: end.exit_code.or_else(by_signal) }
    }
}

fn unknown(job: &str) -> String {
    format!("Job {job} not found")
}

/// What is told of a job with which something could not be done.
fn told(job: &str, error: Error) -> String {
    match error.code {
        ErrorCode::NotFound => unknown(job),
        ErrorCode::Conflict => format!("Job {job} is not running and cannot accept input"),
        ErrorCode::Invalid
        | ErrorCode::Denied
        | ErrorCode::LimitExceeded
        | ErrorCode::Timeout
        | ErrorCode::Cancelled
        | ErrorCode::Unsupported
        | ErrorCode::Unavailable
        | ErrorCode::Internal => error.message,
    }
}

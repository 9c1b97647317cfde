//! What a request may say.

use std::collections::BTreeMap;

use hotcell_model::{
    Alias, CellRef, CellSpawn, CheckpointBefore, CheckpointId, Error, ExecId, ExecInput, ExecList,
    ExecPoll, ExecRun, ExecStatusFilter, Grant, Keep, Network, OutputFilter, Priority,
    RESULT_BYTES, RequestedLimits, Result, SecretGrant, Signal, Stream, TerminalSize, Workspace,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::exec_parts::{self, terminal_size};
use crate::terminal_args::{DEFAULT_WAIT_S, UntilName, output_view, poll_wait};

/// Which cells to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListCells {
    /// Also those whose supervisor died or whose machine was restarted.
    #[serde(default)]
    pub(super) include_stopped: bool,
}

/// A cell to make.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SpawnCell {
    /// The root file system; `host` shows the programs of the machine.
    #[serde(default = "host")]
    image: String,
    /// A name for it.
    alias: Option<Alias>,
    /// Keep it until it is killed; otherwise it ends by its TTL.
    #[serde(default)]
    persistent: bool,
    /// Seconds after which it ends.
    ttl_s: Option<u64>,
    /// Seconds without a running exec after which it ends.
    idle_ttl_s: Option<u64>,
    /// What it may use.
    #[serde(default)]
    limits: RequestedLimits,
    /// What it can reach.
    #[serde(default)]
    network: Network,
    /// A directory of the host, of those that the operator allowed, as its workspace.
    workspace: Option<Workspace>,
    /// Variables that every exec in it gets.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Secrets, of those that the operator allowed: a name stands for what was allowed under it, a
    /// variable of its name in capitals or a header that is added outside of the cell; or a grant in
    /// full, as `--secret` takes it.
    #[serde(default, deserialize_with = "grants")]
    #[schemars(with = "Vec<String>")]
    secrets: Vec<SecretGrant>,
    /// Before which of its commands a checkpoint is made.
    checkpoint_before: Option<CheckpointBefore>,
    /// The driver that places it.
    driver: Option<String>,
    /// Labels that its place must have, where the driver has several: `{"gpu": "yes"}`; `engine` stands
    /// for the place's name.
    #[serde(default)]
    on: BTreeMap<String, String>,
    /// A second request with this key within 24 hours is answered with the first one's cell.
    idempotency_key: Option<String>,
}

fn grants<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SecretGrant>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let parsed = texts.iter().map(|text| text.parse::<SecretGrant>());
    parsed.collect::<Result<_, _>>().map_err(serde::de::Error::custom)
}

impl From<SpawnCell> for CellSpawn {
    fn from(asked: SpawnCell) -> Self {
        Self {
            image: asked.image,
            alias: asked.alias,
            reuse_alias: false,
            keep: if asked.persistent { Keep::Always } else { Keep::Ttl },
            ttl_s: asked.ttl_s,
            idle_ttl_s: asked.idle_ttl_s,
            limits: asked.limits,
            network: asked.network,
            workspace: asked.workspace,
            env: asked.env,
            secrets: asked.secrets,
            checkpoint_before: asked.checkpoint_before,
            driver: asked.driver,
            on: asked.on,
            labels: BTreeMap::new(),
            idempotency_key: asked.idempotency_key,
        }
    }
}

/// A person's word.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GiveApproval {
    /// Whether it may be done.
    pub(super) grant: Grant,
}

/// How a cell is ended.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KillCell {
    /// End what runs in it, too; otherwise that is a conflict.
    #[serde(default)]
    pub(super) force: bool,
    /// Remove the files of a persistent cell, too.
    #[serde(default)]
    pub(super) volumes: bool,
}

/// What is removed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CollectGarbage {
    /// Only tell what would be removed.
    #[serde(default)]
    pub(super) dry_run: bool,
}

/// How much of a comparison.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CompareCheckpoint {
    /// How many changes at most.
    #[serde(default = "changes")]
    pub(super) limit: u32,
    /// Also what changed in files, in the form of `git diff`.
    #[serde(default)]
    pub(super) content: bool,
}

/// How a cell goes back to a checkpoint.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestoreCheckpoint {
    /// End what runs in it; otherwise that is a conflict.
    #[serde(default)]
    pub(super) force: bool,
}

/// Cells to make from another.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkCell {
    /// As its files were then; as they are now when left out.
    pub(super) checkpoint: Option<CheckpointId>,
    /// A name; several get a number after it.
    pub(super) alias: Option<Alias>,
    /// How many.
    #[serde(default = "one")]
    pub(super) count: u32,
    /// Seconds after which they end; as long as the other one lasts when left out.
    pub(super) ttl_s: Option<u64>,
    /// A second request with this key within 24 hours is answered with the first one's cell.
    pub(super) idempotency_key: Option<String>,
}

/// A command to run: `command` or `argv`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunExec {
    /// Where; the caller's default cell when left out.
    cell: Option<CellRef>,
    /// Text for the cell's shell.
    command: Option<String>,
    /// A program and its arguments.
    argv: Option<Vec<String>>,
    /// The directory to start in; relative to /workspace.
    #[serde(default = "workspace")]
    cwd: String,
    /// Variables on top of the cell's.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Its standard input, up to its end.
    stdin: Option<String>,
    /// Keep its standard input open instead.
    #[serde(default)]
    stdin_open: bool,
    /// Give it a terminal.
    #[serde(default)]
    pty: bool,
    /// Lines of the terminal.
    rows: Option<u16>,
    /// Columns of the terminal.
    cols: Option<u16>,
    /// Seconds after which it is ended; 0 for never.
    #[serde(default = "timeout")]
    timeout_s: f64,
    /// Seconds to wait for its end before it is handed back.
    #[serde(default = "wait")]
    wait_s: f64,
    /// How much output the answer holds at most, half of it from each end.
    #[serde(default = "result_bytes")]
    max_bytes: u64,
    /// Its place in the queue: higher first.
    #[serde(default)]
    priority: Priority,
    /// Run as uid 0 of the cell.
    #[serde(default)]
    as_root: bool,
    /// A second request with this key within 24 hours is the same exec.
    idempotency_key: Option<String>,
}

impl TryFrom<RunExec> for ExecRun {
    type Error = Error;

    fn try_from(asked: RunExec) -> Result<Self> {
        let command = exec_parts::command(asked.command, asked.argv)?;
        let size = terminal_size(asked.rows, asked.cols);
        let pty = size.or(asked.pty.then(TerminalSize::default));
        let stdin = exec_parts::stdin(asked.stdin, asked.stdin_open || pty.is_some())?;
        Ok(Self {
            cwd: asked.cwd,
            env: asked.env,
            stdin,
            pty,
            timeout_s: (asked.timeout_s != 0.0).then_some(asked.timeout_s),
            wait_s: asked.wait_s,
            result_bytes: asked.max_bytes,
            priority: asked.priority,
            as_root: asked.as_root,
            idempotency_key: asked.idempotency_key,
            ..Self::new(asked.cell.unwrap_or(CellRef::Default), command)
        })
    }
}

/// Which execs of a list.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ExecStatus")]
enum Status {
    /// Those that have not ended.
    Live,
    /// Those that have.
    Ended,
}

/// Which execs to list, the newest first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListExecs {
    /// Only those of this cell.
    cell: Option<CellRef>,
    /// Only those in this status.
    status: Option<Status>,
    /// How many at most.
    #[serde(default = "limit")]
    limit: u32,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

impl From<ListExecs> for ExecList {
    fn from(asked: ListExecs) -> Self {
        let status = asked.status.map(|status| match status {
            Status::Live => ExecStatusFilter::Live,
            Status::Ended => ExecStatusFilter::Ended,
        });
        Self { cell: asked.cell, status, limit: asked.limit, cursor: asked.cursor }
    }
}

/// What to send to an exec.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SendInput {
    /// Text for its standard input or terminal.
    text: Option<String>,
    /// End its standard input after that.
    #[serde(default)]
    eof: bool,
    /// A signal for its process group.
    signal: Option<Signal>,
    /// Lines of its terminal.
    rows: Option<u16>,
    /// Columns of its terminal.
    cols: Option<u16>,
    /// Keys by name, sent after the text: `down`, `enter`, `ctrl-c`, `esc`, `f1`, `alt-x`, `a`.
    #[serde(default)]
    keys: Vec<String>,
    /// Seconds to wait for what it prints upon that; not looked at when left out, unless `until`,
    /// `pattern` or `screen` is given: then 10.
    wait_s: Option<f64>,
    /// What to wait for.
    until: Option<UntilName>,
    /// The regular expression for `until=match`.
    pattern: Option<String>,
    /// Return the screen of its terminal instead of messages.
    #[serde(default)]
    screen: bool,
}

impl SendInput {
    pub(super) fn to(self, exec: ExecId) -> Result<ExecInput> {
        let view = output_view(self.until, self.pattern, self.screen)?;
        let is_awaited = view.until.is_some() || self.screen;
        Ok(ExecInput {
            data: self.text.unwrap_or_default().into_bytes(),
            eof: self.eof,
            signal: self.signal,
            size: terminal_size(self.rows, self.cols),
            wait_s: self.wait_s.or(is_awaited.then_some(DEFAULT_WAIT_S)),
            keys: self.keys,
            view,
            ..ExecInput::to(exec)
        })
    }
}

/// How an exec is ended.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelExec {
    /// The signal that asks it to end.
    #[serde(default = "term")]
    pub(super) signal: Signal,
    /// Seconds until it and all its descendants are killed.
    #[serde(default = "grace")]
    pub(super) grace_s: f64,
}

/// Which part of an exec's output.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadOutput {
    /// The `next_seq` of the page before; 0 for the beginning.
    #[serde(default)]
    after_seq: u64,
    /// Seconds to wait for output or the end when there is none yet. Default: 0; 10 with `until`.
    wait_s: Option<f64>,
    /// What to wait for. Default: `output`; `settled` if the exec has a terminal.
    until: Option<UntilName>,
    /// The regular expression for `until=match`.
    pattern: Option<String>,
    /// Return the screen of its terminal instead of messages.
    #[serde(default)]
    screen: bool,
    /// Only the last lines, this many.
    tail_lines: Option<u64>,
    /// Only lines that this regular expression matches.
    grep: Option<String>,
    /// Only this stream.
    stream: Option<Stream>,
    /// How much at most.
    #[serde(default = "result_bytes")]
    max_bytes: u64,
    /// Also what has the form of a secret, as it was printed; for operators.
    #[serde(default)]
    pub(super) raw: bool,
}

impl ReadOutput {
    pub(super) fn of(self, exec: ExecId) -> Result<ExecPoll> {
        let view = output_view(self.until, self.pattern, self.screen)?;
        Ok(ExecPoll {
            exec,
            after_seq: self.after_seq,
            wait_s: poll_wait(self.wait_s, &view),
            filter: OutputFilter {
                tail_lines: self.tail_lines,
                grep: self.grep,
                stream: self.stream,
            },
            max_bytes: self.max_bytes,
            view,
        })
    }
}

/// Where a stream of output begins.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FollowOutput {
    /// The last seq already seen; the header `Last-Event-ID` wins.
    #[serde(default)]
    pub(super) after_seq: u64,
    /// Also what has the form of a secret, as it was printed; for operators.
    #[serde(default)]
    pub(super) raw: bool,
}

/// Nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

fn host() -> String {
    "host".to_owned()
}

fn workspace() -> String {
    "/workspace".to_owned()
}

fn timeout() -> f64 {
    600.0
}

fn wait() -> f64 {
    20.0
}

fn result_bytes() -> u64 {
    RESULT_BYTES
}

fn changes() -> u32 {
    1000
}

fn one() -> u32 {
    1
}

fn limit() -> u32 {
    50
}

fn term() -> Signal {
    Signal::TERM
}

fn grace() -> f64 {
    5.0
}

//! An exec: what was asked for, where it stands, how it ended.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    Approval, ApprovalNeed, CellId, CheckpointId, Code, CodeTerms, Error, ExecId, Pace, SessionUse,
    Timestamp,
};

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Text for the cell's shell: bash where there is one, else sh; never a login shell.
    Shell(String),
    /// A program and its arguments.
    Argv(Vec<String>),
    /// Code, for the cell's interpreter of its language.
    Code(Code),
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shell(text) | Self::Code(Code { text, .. }) => f.write_str(text),
            Self::Argv(words) => {
                for (place, word) in words.iter().enumerate() {
                    let space = if place == 0 { "" } else { " " };
                    let plain = !word.is_empty()
                        && word
                            .bytes()
                            .all(|b| b.is_ascii_alphanumeric() || b"-_./=:,+@%".contains(&b));
                    if plain {
                        write!(f, "{space}{word}")?;
                    } else {
                        write!(f, "{space}'{}'", word.replace('\'', r"'\''"))?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// What the exec reads as its standard input.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// Nothing: end of file at once.
    #[default]
    Empty,
    /// This text, then end of file.
    Text(String),
    /// What `exec_input` sends, until it sends end of file.
    Open,
}

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self { rows: 24, cols: 80 }
    }
}

/// Where an exec stands in a cell's queue: higher first, then in order of arrival.
pub type Priority = i32;

/// All that is decided when an exec is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecSpec {
    /// Its name for ever; a second start with the same id is the same exec.
    pub id: ExecId,
    /// What to run.
    pub command: Command,
    /// The directory it starts in; relative to `/workspace`.
    pub cwd: String,
    /// Variables on top of the cell's.
    pub env: BTreeMap<String, String>,
    /// Its standard input.
    pub stdin: Stdin,
    /// A terminal of this size instead of pipes.
    pub pty: Option<TerminalSize>,
    /// Milliseconds after its start at which it is ended; none when left out.
    pub timeout_ms: Option<u64>,
    /// Its place in the queue.
    pub priority: Priority,
    /// Whether it runs as uid 0 of the cell.
    pub as_root: bool,
    /// Whether it waits from its start on for whoever is going to follow it.
    #[serde(default)]
    pub pace: Pace,
    /// Its bounds, where they are not the cell's.
    #[serde(default, skip_serializing_if = "ExecBounds::are_usual")]
    pub bounds: ExecBounds,
    /// What it has to be approved for before it takes its place in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalNeed>,
    /// The checkpoint that was made before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointId>,
    /// What is said of it if it is code.
    #[serde(default, skip_serializing_if = "CodeTerms::is_nothing")]
    pub code: CodeTerms,
}

/// Bounds of one exec, where they are not those of its cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecBounds {
    /// It is refused where this many execs of its cell have not ended, instead of waiting for its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_live: Option<u32>,
    /// Bytes of its output that are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// Seconds that its output is kept after its end; never longer than the operator says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_s: Option<u64>,
    /// Milliseconds between the request to end and the end, once its timeout is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

impl ExecBounds {
    /// Whether all of them are those of the cell.
    #[must_use]
    pub fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// Where an exec is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecState {
    /// Waiting for approval, or for a place among those that run.
    Queued,
    /// Its process runs.
    Running,
    /// It and all its descendants are gone and its output is complete.
    Ended,
}

impl ExecState {
    /// The state as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Ended => "ended",
        }
    }
}

/// Why an exec ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// It exited by itself; there is an exit code.
    Exited,
    /// A signal that Hotcell did not send ended it.
    Signaled,
    /// Its timeout was over.
    TimedOut,
    /// A caller cancelled it, or its cell was ended.
    Cancelled,
    /// The kernel ended it because the cell was out of memory.
    OomKilled,
    /// Its supervisor died: how it would have ended is not known.
    Lost,
    /// It needed an approval that was refused or did not come: it never started.
    Denied,
}

impl EndCause {
    /// The cause as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::Signaled => "signaled",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::OomKilled => "oom_killed",
            Self::Lost => "lost",
            Self::Denied => "denied",
        }
    }
}

/// A limit of the cell that it came up against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitHit {
    /// The cell had written more than its disk limit.
    Disk,
    /// The cell had made more files than it may.
    DiskFiles,
    /// The kernel killed a process of the cell for want of memory.
    Memory,
    /// The kernel refused the cell another process or thread.
    Pids,
    /// More was printed than is kept: its middle was dropped.
    Output,
    /// It had used the CPU time that it may.
    Cpu,
}

impl LimitHit {
    /// The limit as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::DiskFiles => "disk_files",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Output => "output",
            Self::Cpu => "cpu",
        }
    }
}

/// What an exec used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// From start to end.
    pub wall_ms: u64,
    /// CPU time of it and its descendants.
    pub cpu_ms: u64,
    /// The largest resident size of one of its processes.
    pub max_rss_kb: u64,
    /// Bytes it wrote to stdout or its terminal.
    pub stdout_bytes: u64,
    /// Bytes it wrote to stderr.
    pub stderr_bytes: u64,
}

/// How an exec ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecEnd {
    /// Why.
    pub cause: EndCause,
    /// Its exit code, when there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended its main process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Signal>,
    /// The limit because of which Hotcell ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitHit>,
    /// The limits that its cell came up against while it ran, also those that it lived through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits_hit: Vec<LimitHit>,
    /// Descendants that were still there when the main process had ended, and were killed.
    #[serde(default)]
    pub killed_descendants: u32,
    /// When.
    pub ended_at: Timestamp,
    /// What it used.
    pub usage: Usage,
    /// What it found and left, for code in a session that was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionUse>,
}

impl ExecEnd {
    /// The end of an exec that never had a process, or of whose process nothing is known.
    #[must_use]
    pub fn without_process(cause: EndCause, ended_at: Timestamp) -> Self {
        Self {
            cause,
            exit_code: None,
            signal: None,
            limit: None,
            limits_hit: Vec::new(),
            killed_descendants: 0,
            ended_at,
            usage: Usage::default(),
            session: None,
        }
    }
}

/// An exec as callers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exec {
    /// Its id.
    pub id: ExecId,
    /// The cell it runs in.
    pub cell: CellId,
    /// Where it is in its life.
    pub state: ExecState,
    /// What was run.
    pub command: Command,
    /// Whether it has a terminal.
    pub pty: bool,
    /// Whether it runs as uid 0 of the cell.
    pub as_root: bool,
    /// When it was asked for.
    pub queued_at: Timestamp,
    /// When its process was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Its main process, as the cell sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Seconds that its output is kept after its end, where it was asked for less than usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_s: Option<u64>,
    /// The approval that it needed before it could start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<Approval>>,
    /// The checkpoint that was made before it, to go back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointId>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<ExecEnd>,
}

impl Exec {
    /// Whether a person has to approve it before it starts.
    #[must_use]
    pub fn awaits_approval(&self) -> bool {
        self.end.is_none() && self.approval.as_ref().is_some_and(|approval| approval.is_pending())
    }
}

/// A signal by number; written and read by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signal(i32);

/// The signals of Linux that have one number on every architecture Hotcell runs on.
const SIGNALS: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];

impl Signal {
    /// Whether a key of a terminal sends it: to the program in the foreground.
    #[must_use]
    pub fn is_of_keyboard(self) -> bool {
        const QUIT: i32 = 3;
        const TSTP: i32 = 20;
        self == Self::INT || matches!(self.0, QUIT | TSTP)
    }

    /// Hang-up.
    pub const HUP: Self = Self(1);
    /// Interrupt, as Ctrl-C sends it.
    pub const INT: Self = Self(2);
    /// The one that cannot be caught.
    pub const KILL: Self = Self(9);
    /// The polite request to end.
    pub const TERM: Self = Self(15);
    /// The CPU time that it may use is over.
    pub const XCPU: Self = Self(24);

    /// The signal with this number, if there is one; real-time signals included.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        (1..=64).contains(&number).then_some(Self(number))
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SIGNALS.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for Signal {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let by_name = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
        by_name.or_else(|| name.parse().ok()).and_then(Self::from_number).ok_or_else(|| {
            let names = "a name such as TERM, INT, HUP, KILL, USR1, or a number from 1 to 64";
            Error::argument("signal", names, format_args!("{text:?}"))
        })
    }
}

impl Serialize for Signal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Signal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

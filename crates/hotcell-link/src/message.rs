//! What is asked of a supervisor and what it tells.

use hotcell_model::{
    Approval, ApprovalAnswer, CancelStatus, CellSpec, CellStats, CheckpointId, CloseReason, Error,
    ExecEnd, ExecId, ExecSpec, ExecState, FileOp, FileResult, FileScope, LimitHit, Signal, Stream,
    TerminalSize, Timestamp,
};
use serde::{Deserialize, Serialize};

/// A question; each is answered by exactly one [`Tell`] on its channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Start an exec. A second start of the same id answers like the first. With a window, its
    /// output follows on the same channel from the beginning.
    Start {
        /// What to run.
        spec: Box<ExecSpec>,
        /// How many bytes of output may be under way; none to not follow.
        window: Option<u32>,
        /// Secrets that it gets as variables; they are masked in whatever the cell prints.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        secrets: Vec<GivenSecret>,
    },
    /// Send output after a seq, then go on as it comes, then the end.
    Follow {
        /// Of which exec.
        exec: ExecId,
        /// The last seq already seen.
        after_seq: u64,
        /// How many bytes of output may be under way.
        window: u32,
    },
    /// Let the exec wait whenever this connection's followers of it fall behind.
    Pace {
        /// Which exec.
        exec: ExecId,
    },
    /// Write the blob to the exec's input.
    Input {
        /// Of which exec.
        exec: ExecId,
        /// Whether the input ends after it.
        eof: bool,
    },
    /// Change the size of the exec's terminal.
    Resize {
        /// Of which exec.
        exec: ExecId,
        /// The new size.
        size: TerminalSize,
    },
    /// Report whether the exec's foreground program is blocked reading its input. Output that was
    /// printed before is in the log by then.
    InputState {
        /// Of which exec.
        exec: ExecId,
    },
    /// Send a signal to the exec's process group.
    Signal {
        /// To which exec.
        exec: ExecId,
        /// Which signal.
        signal: Signal,
    },
    /// Ask the exec to end, and kill it with all its descendants after the grace.
    Cancel {
        /// Which exec.
        exec: ExecId,
        /// The signal that asks.
        signal: Signal,
        /// The grace.
        grace_ms: u64,
    },
    /// Let an exec that waits for approval start, or end.
    Answer {
        /// Which exec.
        exec: ExecId,
        /// What was answered.
        answer: ApprovalAnswer,
        /// The checkpoint that was made before it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<CheckpointId>,
    },
    /// Count this connection among the holders of the cell.
    Hold,
    /// Send [`crate::FrameKind::Activity`] frames while something runs.
    Watch,
    /// The cell has written this much.
    Disk(DiskState),
    /// Let nothing change the cell's files, and nothing new begin, until told to go on.
    Pause(Stillness),
    /// Go on.
    Resume,
    /// How the cell stands.
    Stats,
    /// Connect to a port of the cell's own loopback. Once that was done, data frames go both ways
    /// on the channel, each way to its own end; a second answer says that the connection is over.
    Dial {
        /// Which port.
        port: u16,
        /// How many bytes may be under way to the engine.
        window: u32,
    },
    /// Carry the calls that code makes: data frames go both ways on the channel, as for a port. Each
    /// exec's calls are carried once.
    Calls {
        /// Of which exec.
        exec: ExecId,
        /// How many bytes may be under way to the engine.
        window: u32,
    },
    /// Take the next program that calls tools and belongs to an exec that this connection started.
    /// It is answered once there is one: the exec's id and a line feed come first on the channel, then
    /// data frames go both ways, as for a port.
    Accept {
        /// How many bytes may be under way to the engine.
        window: u32,
    },
    /// Be this cell from now on, which is of the same id, tenant and shape. Only of a cell that was made
    /// ahead of need; nobody holds it then. Idempotent.
    Assign {
        /// What it is.
        spec: Box<CellSpec>,
    },
    /// End the cell.
    Close {
        /// As what.
        reason: CloseReason,
        /// Whether running execs are ended too; otherwise they make it a conflict.
        force: bool,
    },
}

/// A secret with its value, on its way to an exec. The value is not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenSecret {
    /// Its name.
    pub name: String,
    /// The variable that has its value.
    pub variable: String,
    /// Its value.
    pub value: String,
}

impl std::fmt::Debug for GivenSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GivenSecret").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How still a cell is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stillness {
    /// Nothing but pid 1 holds on to its files; a conflict while something runs. Sessions of code
    /// end. If the connection goes away before the cell is told to go on it falls asleep: what with
    /// is not known.
    Empty,
    /// The same, and a conflict also while there are sessions of code.
    Vacant,
    /// What runs is frozen. If the connection goes away it goes on.
    Frozen,
}

/// How much a cell has written, as its keeper measured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskState {
    /// Bytes on disk.
    pub used_bytes: u64,
    /// Files and directories.
    #[serde(default)]
    pub used_files: u64,
    /// The limit that was exceeded, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<LimitHit>,
    /// Whether the execs that run must end: over the limit, and growing.
    pub end_execs: bool,
}

/// What the foreground program of an exec is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramState {
    /// It is blocked reading its terminal or standard input, and there is no input for it.
    Waiting,
    /// It is blocked on something else: a timer, a child, the network.
    Blocked,
    /// It runs, or has input that it has not read yet.
    Running,
    /// It cannot be known.
    #[serde(other)]
    Unknown,
}

/// The answer to [`Ask::InputState`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputState {
    /// What the program is doing.
    pub program: ProgramState,
    /// Identifies one wait for input: it changes whenever the waiting program has been awake.
    #[serde(default)]
    pub mark: u64,
    /// Whether it waits only for a time, after which it goes on without input.
    #[serde(default)]
    pub timed: bool,
    /// Whether it is inside a read of its input, so that it does nothing else meanwhile.
    #[serde(default)]
    pub reading: bool,
    /// Whether there is input that it has not read yet.
    #[serde(default)]
    pub unread: bool,
    /// The last seq of its output when this was found out.
    pub last_seq: u64,
}

/// The state of an exec right after it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Whether it waits, runs or has ended.
    pub state: ExecState,
    /// When it was asked for.
    pub queued_at: Timestamp,
    /// When its process was started.
    pub started_at: Option<Timestamp>,
    /// Its main process, as the cell sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The approval that it needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// How it ended, when it was started before and has.
    #[serde(default)]
    pub end: Option<ExecEnd>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tell {
    /// It was done, and there is nothing more to say.
    Done,
    /// The exec was started or queued.
    Started(Started),
    /// What the foreground program of an exec is doing.
    InputState(InputState),
    /// What became of a cancel.
    Cancelled(CancelStatus),
    /// How the cell stands.
    Stats(CellStats),
    /// What came of doing something with files.
    File(Box<FileResult>),
    /// It was not done.
    Failed(Error),
}

/// The head of a record frame; the blob is its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordHead {
    /// Its place among all output of the exec.
    pub seq: u64,
    /// When it was read.
    pub ts: Timestamp,
    /// Where it came from.
    pub stream: Stream,
}

/// What a record of `bytes` counts against a window: its bytes and a share for its frame, so that
/// a flood of tiny records is bounded too.
#[must_use]
pub fn record_cost(bytes: usize) -> u32 {
    const FRAME_SHARE: usize = 64;
    u32::try_from(bytes + FRAME_SHARE).unwrap_or(u32::MAX)
}

/// The head of a file frame: content for it follows in data frames on its channel, content of the
/// answer comes in such frames, and the answer comes last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAsk {
    /// What to do.
    pub op: FileOp,
    /// Which files may be touched.
    #[serde(default, skip_serializing_if = "FileScope::is_cell")]
    pub scope: FileScope,
    /// How many bytes of content may be under way to the engine.
    pub window: u32,
}

/// The head of a data frame, of files and of connections to ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataHead {
    /// Whether no content comes after it.
    pub last: bool,
}

/// How many bytes of content may be under way to the cell before the first credit.
pub const UPLOAD_WINDOW: u32 = 512 * 1024;

/// The most content that one data frame holds.
pub const DATA_BYTES: usize = 64 * 1024;

/// What a data frame of `bytes` counts against a window.
#[must_use]
pub fn data_cost(bytes: usize) -> u32 {
    record_cost(bytes)
}

//! Everything a caller can ask of the engine, in one enum.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    AccessToken, AccessTokens, Alias, ApprovalGive, ApprovalList, Approvals, Asked, AuditPage,
    AuditQuery, AuditSummary, CellAttach, CellDetails, CellFork, CellKilled, CellRef, Cells,
    Checkpoint, CheckpointBefore, CheckpointCompare, CheckpointCreate, CheckpointDelete,
    CheckpointDiff, CheckpointList, CheckpointRestore, Checkpoints, CodeFigures, CodeStats,
    Collect, Collected, Command, CutStrategy, Diagnoses, Exec, ExecBounds, ExecCancelled, ExecId,
    ExecPage, ExecResult, Execs, FileCall, FileDone, FileStream, Image, ImageImport, ImageList,
    ImagePull, ImageRemove, ImagesList, InputAccepted, Keep, LedgerSummary, NamesFound, NetChange,
    NetLog, NetRecords, NetShow, Network, NetworkState, OutputView, PolicyCheck, PolicyVerdict,
    Priority, Probed, ProjectApplied, ProjectApply, ProjectChanges, ProjectDiff, ProjectDiscard,
    ProjectDiscarded, Reconcile, Reconciled, Reply, RequestedLimits, Secret, SecretGrant,
    SecretList, SecretRemove, SecretSet, SecretsList, Signal, Stdin, Stream, TerminalSize,
    Timestamp, TokenCreate, TokenCreated, TokenRevoke, TokensList, ToolList, ToolNames, ToolRan,
    ToolRun, ToolSearch, ToolsFound, ToolsListed, Volume, VolumeList, VolumeRemove, VolumeRestore,
    VolumesList, Workspace,
};

/// A request type and the reply that answers it.
pub trait Query: Into<Request> {
    /// What answers it.
    type Answer;

    /// Takes the answer out of a reply; `None` when the reply answers another request.
    fn answer(reply: Reply) -> Option<Self::Answer>;
}

macro_rules! requests {
    ($($(#[doc = $doc:literal])* $word:literal $name:ident => $answer:ident($reply:ty)),* $(,)?) => {
        /// Every action of the product.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Request {
            $($(#[doc = $doc])* $name($name),)*
            /// Follows an exec's output as it comes; answered by a stream.
            ExecFollow(ExecFollow),
            /// Does something with files whose content comes or goes piece by piece; answered by a
            /// stream.
            FileStream(FileStream),
            /// Connects to a service in a cell; answered by a stream. Wakes a sleeping cell.
            PortDial(PortDial),
        }

        impl Request {
            /// What each of them is called.
            pub const NAMES: &'static [&'static str] =
                &[$($word,)* "exec_follow", "file_stream", "port_dial"];

            /// What it is called in the ledger and in errors.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $word,)*
                    Self::ExecFollow(_) => "exec_follow",
                    Self::FileStream(_) => "file_stream",
                    Self::PortDial(_) => "port_dial",
                }
            }
        }

        impl From<PortDial> for Request {
            fn from(request: PortDial) -> Self {
                Self::PortDial(request)
            }
        }

        impl From<FileStream> for Request {
            fn from(request: FileStream) -> Self {
                Self::FileStream(request)
            }
        }

        impl From<ExecFollow> for Request {
            fn from(request: ExecFollow) -> Self {
                Self::ExecFollow(request)
            }
        }

        $(
            impl From<$name> for Request {
                fn from(request: $name) -> Self {
                    Self::$name(request)
                }
            }

            impl Query for $name {
                type Answer = $reply;

                fn answer(reply: Reply) -> Option<$reply> {
                    match reply {
                        Reply::$answer(answer) => Some(answer),
                        _ => None,
                    }
                }
            }
        )*
    };
}

requests! {
    /// Makes a cell. Legal at any time; the alias must be free unless `reuse_alias`.
    "cell_spawn" CellSpawn => Cell(crate::Cell),
    /// Lists cells. Legal at any time.
    "cell_list" CellList => Cells(Cells),
    /// Shows one cell with its use of resources. Legal for any cell that exists.
    "cell_info" CellInfo => CellDetails(Box<CellDetails>),
    /// Notes that a client works in a cell, and shows it as [`CellInfo`] does.
    "cell_attach" CellAttach => CellDetails(Box<CellDetails>),
    /// Ends a cell; the files of a persistent one are kept unless told otherwise. Legal for any cell;
    /// with running execs only by force.
    "cell_kill" CellKill => CellKilled(CellKilled),
    /// Lists the files that persistent cells left when they were ended.
    "volumes_list" VolumesList => Volumes(VolumeList),
    /// Brings such a cell back with its files.
    "volume_restore" VolumeRestore => Cell(crate::Cell),
    /// Removes such files.
    "volume_remove" VolumeRemove => Volume(Volume),
    /// Holds every cell that servers keep, so that none ends with the server that made it.
    "cell_adopt" CellAdopt => Cells(Cells),
    /// Keeps the present state of a cell's files. Legal for any cell whose driver can.
    "checkpoint_create" CheckpointCreate => Checkpoint(Checkpoint),
    /// Lists a cell's checkpoints.
    "checkpoint_list" CheckpointList => Checkpoints(Checkpoints),
    /// Tells what changed since a checkpoint.
    "checkpoint_compare" CheckpointCompare => CheckpointDiff(CheckpointDiff),
    /// Brings a cell's files back to a checkpoint; with running execs only by force.
    "checkpoint_restore" CheckpointRestore => Checkpoint(Checkpoint),
    /// Forgets a checkpoint.
    "checkpoint_delete" CheckpointDelete => Checkpoint(Checkpoint),
    /// Makes cells that begin with the files of another.
    "cell_fork" CellFork => Cells(Cells),
    /// Shows what a cell may reach over the network.
    "net_show" NetShow => NetworkState(NetworkState),
    /// Changes that. For the operator: nothing in a cell may ask for it.
    "net_change" NetChange => NetworkState(NetworkState),
    /// Tells what a cell did over the network.
    "net_log" NetLog => NetRecords(NetRecords),
    /// Tells what a cell has changed in the directory of the host that is its workspace.
    "project_diff" ProjectDiff => ProjectChanges(ProjectChanges),
    /// Brings such changes to the real files. For people: nothing in a cell may ask for it.
    "project_apply" ProjectApply => ProjectApplied(ProjectApplied),
    /// Forgets such changes.
    "project_discard" ProjectDiscard => ProjectDiscarded(ProjectDiscarded),
    /// Starts an exec and waits a while for its end. Wakes a sleeping cell.
    "exec_run" ExecRun => ExecResult(ExecResult),
    /// Waits a while for the end of an exec, and answers as the run that began it would.
    "exec_wait" ExecWait => ExecResult(ExecResult),
    /// Shows one exec. Legal until 24 h after its cell is gone.
    "exec_get" ExecGet => Exec(Exec),
    /// Reads output after a point, waiting for some if asked. Legal as long as `ExecGet` is.
    "exec_poll" ExecPoll => ExecPage(ExecPage),
    /// Sends input, end of file, a signal or a new size. Legal while the exec runs.
    "exec_input" ExecInput => InputAccepted(InputAccepted),
    /// Tells what the policy says of a command. Nothing is run.
    "policy_check" PolicyCheck => PolicyVerdict(PolicyVerdict),
    /// Lists what waits for approval. For the operator.
    "approval_list" ApprovalList => Approvals(Approvals),
    /// Lets what waits for approval be done, or not. For the operator.
    "approval_give" ApprovalGive => Asked(Box<Asked>),
    /// Calls a tool of another server, on behalf of code that runs or of the caller itself.
    "tool_run" ToolRun => ToolRan(ToolRan),
    /// Looks for tools.
    "tool_search" ToolSearch => ToolsFound(ToolsFound),
    /// Lists the names that code can import.
    "tool_names" ToolNames => NamesFound(NamesFound),
    /// Lists the tools that are handed to clients as they are.
    "tool_list" ToolList => ToolsListed(ToolsListed),
    /// Ends an exec and all its descendants. Legal at any time; what has ended stays as it is.
    "exec_cancel" ExecCancel => ExecCancelled(ExecCancelled),
    /// Lists execs, newest first.
    "exec_list" ExecList => Execs(Execs),
    /// Does something with the files of a cell. Wakes a sleeping cell.
    "file_call" FileCall => FileDone(FileDone),
    /// Keeps a secret. For people: nothing in a cell may ask for it.
    "secret_set" SecretSet => Secret(Secret),
    /// Lists the names of secrets. For people.
    "secrets_list" SecretsList => Secrets(SecretList),
    /// Forgets a secret; the next exec of a cell that is granted it is refused. For people.
    "secret_remove" SecretRemove => Secret(Secret),
    /// Takes an image from a file of this machine. For people.
    "image_import" ImageImport => Image(Image),
    "image_pull" ImagePull => Image(Image),
    /// Lists images. For people.
    "images_list" ImagesList => Images(ImageList),
    /// Forgets an image. For people.
    "image_remove" ImageRemove => Image(Image),
    /// Makes a token for callers over HTTP; told once. For people.
    "token_create" TokenCreate => TokenCreated(TokenCreated),
    /// Lists tokens, without what opens the door. For people.
    "tokens_list" TokensList => Tokens(AccessTokens),
    /// Ends a token, at every server on the state directory. For people.
    "token_revoke" TokenRevoke => Token(AccessToken),
    /// Reads entries of the ledger.
    "audit_query" AuditQuery => AuditPage(AuditPage),
    /// Tells what stands out in the ledger.
    "audit_summary" AuditSummary => LedgerSummary(LedgerSummary),
    /// Tells what runs of code came to.
    "code_stats" CodeStats => CodeFigures(Box<CodeFigures>),
    /// Brings the index and what drivers have together.
    "reconcile" Reconcile => Reconciled(Reconciled),
    /// Removes what is over or that nobody needs.
    "collect" Collect => Collected(Collected),
    /// Looks at everything that cells need on this machine. Slow; for people.
    "diagnose" Diagnose => Diagnoses(Diagnoses),
    /// Looks whether the store can be reached and drivers be used. Cheap; for probes.
    "probe" Probe => Probed(Probed),
}

/// Makes a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellSpawn {
    /// The root file system: `host`, or an image by name.
    pub image: String,
    /// A name for the cell.
    pub alias: Option<Alias>,
    /// Whether an existing cell of that alias is the answer instead of a conflict.
    pub reuse_alias: bool,
    /// What keeps the cell in being.
    pub keep: Keep,
    /// Seconds after which the cell ends.
    pub ttl_s: Option<u64>,
    /// Seconds without a running exec after which the cell ends.
    pub idle_ttl_s: Option<u64>,
    /// What it may use.
    pub limits: RequestedLimits,
    /// What it can reach.
    pub network: Network,
    /// A directory of the host as its workspace; one of its own when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// Variables that every exec in it gets.
    pub env: BTreeMap<String, String>,
    /// Secrets that it is granted, of those that the operator allows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretGrant>,
    /// Before which of its commands a checkpoint is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_before: Option<CheckpointBefore>,
    /// The driver that places it; the engine's default when left out.
    pub driver: Option<String>,
    /// Labels that the place of the cell must have, for a driver with several: `engine` is the name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub on: BTreeMap<String, String>,
    /// Notes of the front that asks for it. Forks inherit them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// A second spawn with the same key within 24 h answers with the first one's cell. One that
    /// was made for one command is answered as stopped when it has ended and something ran in it:
    /// a run in it with the key of the first is answered from its records.
    pub idempotency_key: Option<String>,
}

impl Default for CellSpawn {
    fn default() -> Self {
        Self {
            image: "host".to_owned(),
            alias: None,
            reuse_alias: false,
            keep: Keep::Ttl,
            ttl_s: None,
            idle_ttl_s: None,
            limits: RequestedLimits::default(),
            network: Network::None,
            workspace: None,
            env: BTreeMap::new(),
            secrets: Vec::new(),
            checkpoint_before: None,
            driver: None,
            on: BTreeMap::new(),
            labels: BTreeMap::new(),
            idempotency_key: None,
        }
    }
}

/// Lists cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CellList {
    /// Whether stopped cells are listed too, whose supervisor died or whose machine was restarted.
    pub include_stopped: bool,
}

/// Holds every cell that servers keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CellAdopt;

/// Shows one cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellInfo {
    /// Which.
    pub cell: CellRef,
}

/// How long the end of a cell is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillWait {
    /// Until everything of it is gone.
    #[default]
    Removed,
    /// Until its processes are; its files go afterwards, whoever asked may be gone by then.
    Ended,
}

/// Ends a cell. The files of a persistent one are kept as a volume unless told otherwise; those of any
/// other are removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellKill {
    /// Which.
    pub cell: CellRef,
    /// Whether running execs are ended too; otherwise they make it a conflict.
    pub force: bool,
    /// Whether the files of a persistent cell are removed, too.
    #[serde(default)]
    pub volumes: bool,
    /// How long to wait.
    #[serde(default)]
    pub wait: KillWait,
}

/// Starts an exec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecRun {
    /// The id it is to have, fresh from the engine, for a caller that has to know it beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecId>,
    /// The cell to run in.
    pub cell: CellRef,
    /// What to run.
    pub command: Command,
    /// The directory to start in; relative to `/workspace`.
    pub cwd: String,
    /// Variables on top of the cell's.
    pub env: BTreeMap<String, String>,
    /// Its standard input.
    pub stdin: Stdin,
    /// A terminal of this size instead of pipes.
    pub pty: Option<TerminalSize>,
    /// Seconds after which it is ended; never when left out.
    pub timeout_s: Option<f64>,
    /// Seconds to wait for its end before the exec is handed back to poll.
    pub wait_s: f64,
    /// How much output the result holds at most, half of it from each end.
    pub result_bytes: u64,
    /// Its place in the queue.
    pub priority: Priority,
    /// Whether it runs as uid 0 of the cell.
    pub as_root: bool,
    /// A second run with the same key in the same cell within 24 h is the same exec.
    pub idempotency_key: Option<String>,
    /// Whether it waits for whoever is going to follow it.
    #[serde(default)]
    pub pace: Pace,
    /// Its bounds, where they are not the cell's.
    #[serde(default, skip_serializing_if = "ExecBounds::are_usual")]
    pub bounds: ExecBounds,
    /// How what code left behind is made to fit its budget.
    #[serde(default, skip_serializing_if = "CutStrategy::is_auto")]
    pub strategy: CutStrategy,
}

impl ExecRun {
    /// A run of `command` in `cell` with every other choice at its default and no wait.
    #[must_use]
    pub fn new(cell: impl Into<CellRef>, command: Command) -> Self {
        Self {
            exec: None,
            cell: cell.into(),
            command,
            cwd: "/workspace".to_owned(),
            env: BTreeMap::new(),
            stdin: Stdin::Empty,
            pty: None,
            timeout_s: None,
            wait_s: 0.0,
            result_bytes: RESULT_BYTES,
            priority: 0,
            as_root: false,
            idempotency_key: None,
            pace: Pace::Free,
            bounds: ExecBounds::default(),
            strategy: CutStrategy::Auto,
        }
    }
}

/// How much output a result holds unless told.
pub const RESULT_BYTES: u64 = 1 << 20;

/// Waits for the end of an exec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecWait {
    /// Which.
    pub exec: ExecId,
    /// Seconds to wait.
    pub wait_s: f64,
    /// How much output the result holds at most, half of it from each end.
    pub result_bytes: u64,
}

/// Shows one exec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecGet {
    /// Which.
    pub exec: ExecId,
}

/// Which part of the output is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutputFilter {
    /// Only the last lines, this many.
    pub tail_lines: Option<u64>,
    /// Only lines that this regular expression matches.
    pub grep: Option<String>,
    /// Only this stream.
    pub stream: Option<Stream>,
}

/// Reads output after a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecPoll {
    /// Of which exec.
    pub exec: ExecId,
    /// The last seq already seen; 0 for none.
    pub after_seq: u64,
    /// Seconds to wait for output or the end when there is none yet.
    pub wait_s: f64,
    /// Which part is wanted.
    pub filter: OutputFilter,
    /// How much at most; raised to one record.
    pub max_bytes: u64,
    /// What to wait for, and the form of the output.
    #[serde(default)]
    pub view: OutputView,
}

/// What happens when an exec prints faster than its output is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// It goes on; past its bound the middle of the output is dropped.
    #[default]
    Free,
    /// It waits, as it would for the reader of a pipe, as long as the follower is there.
    Follower,
}

/// Follows output as it comes; answered by a stream, not by a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecFollow {
    /// Of which exec.
    pub exec: ExecId,
    /// The last seq already seen; 0 for none.
    pub after_seq: u64,
    /// Whether the exec waits for whoever follows.
    #[serde(default)]
    pub pace: Pace,
}

/// Connects to a port of a cell's own loopback; answered by a stream, not by a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortDial {
    /// In which cell.
    pub cell: CellRef,
    /// At which port the service listens.
    pub port: u16,
}

/// Sends something to a running exec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecInput {
    /// To which exec.
    pub exec: ExecId,
    /// Bytes for its standard input or terminal.
    pub data: Vec<u8>,
    /// Whether its standard input ends after them.
    pub eof: bool,
    /// A signal for its process group.
    pub signal: Option<Signal>,
    /// A new size for its terminal.
    pub size: Option<TerminalSize>,
    /// Seconds to wait for what it prints upon that; left out, what it prints is not looked at. Who waits
    /// is not held up by an exec that does not read: bytes up to 1 MiB are then kept for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<f64>,
    /// Keys by name, such as `down` or `ctrl-c`, sent after `data` as the exec's terminal would.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// What to wait for, and the form of the output.
    #[serde(default)]
    pub view: OutputView,
}

impl ExecInput {
    /// Nothing yet for `exec`; set what is to be sent.
    #[must_use]
    pub fn to(exec: ExecId) -> Self {
        Self {
            exec,
            data: Vec::new(),
            eof: false,
            signal: None,
            size: None,
            wait_s: None,
            keys: Vec::new(),
            view: OutputView::default(),
        }
    }
}

/// Ends an exec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecCancel {
    /// Which.
    pub exec: ExecId,
    /// The signal that asks it to end.
    pub signal: Signal,
    /// Seconds until it and all its descendants are killed.
    pub grace_s: f64,
}

/// Which execs to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecStatusFilter {
    /// Those that have not ended.
    Live,
    /// Those that have.
    Ended,
    /// Those that have, at this time or later.
    EndedSince(Timestamp),
}

/// Lists execs, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecList {
    /// Only those of this cell.
    pub cell: Option<CellRef>,
    /// Only those in this status.
    pub status: Option<ExecStatusFilter>,
    /// How many at most.
    pub limit: u32,
    /// Where the page before this one ended.
    pub cursor: Option<String>,
}

/// Looks at the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnose;

/// Looks whether cells can be found and made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe;

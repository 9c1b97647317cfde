//! Everything the engine can answer, in one enum.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    AccessToken, AccessTokens, Approvals, Asked, Attachment, AuditPage, Cell, CellId, Checkpoint,
    CheckpointDiff, Checkpoints, CodeFigures, CodeRun, Collected, Diagnosis, Dropped, Error, Exec,
    ExecId, FileDone, Image, ImageList, LedgerSummary, NamesFound, NetRecords, NetworkState,
    NetworkStats, PolicyVerdict, ProjectApplied, ProjectChanges, ProjectDiscarded, Reconciled,
    Record, Secret, SecretList, SessionInfo, Tenant, TerminalScreen, TokenCreated, ToolRan,
    ToolsFound, ToolsListed, Volume, VolumeList,
};

/// Every answer of the product.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A cell.
    Cell(Cell),
    /// Several cells.
    Cells(Cells),
    /// A cell with its use of resources.
    CellDetails(Box<CellDetails>),
    /// What became of a cell that was to end.
    CellKilled(CellKilled),
    /// What ended cells left.
    Volumes(VolumeList),
    /// What one of them left.
    Volume(Volume),
    /// A checkpoint.
    Checkpoint(Checkpoint),
    /// Several checkpoints.
    Checkpoints(Checkpoints),
    /// What a tool answered.
    ToolRan(ToolRan),
    /// Tools that were found.
    ToolsFound(ToolsFound),
    /// Names that code can import.
    NamesFound(NamesFound),
    /// Tools that are handed to clients as they are.
    ToolsListed(ToolsListed),
    /// What changed since a checkpoint.
    CheckpointDiff(CheckpointDiff),
    /// What a cell may reach over the network.
    NetworkState(NetworkState),
    /// What a cell did over the network.
    NetRecords(NetRecords),
    /// What a cell has changed in its project.
    ProjectChanges(ProjectChanges),
    /// What of it was applied.
    ProjectApplied(ProjectApplied),
    /// What of it was discarded.
    ProjectDiscarded(ProjectDiscarded),
    /// An exec with its first output.
    ExecResult(ExecResult),
    /// An exec.
    Exec(Exec),
    /// Part of an exec's output.
    ExecPage(ExecPage),
    /// Input was taken.
    InputAccepted(InputAccepted),
    /// What became of an exec that was to end.
    ExecCancelled(ExecCancelled),
    /// Several execs.
    Execs(Execs),
    /// What waits for approval.
    Approvals(Approvals),
    /// What a person was asked about.
    Asked(Box<Asked>),
    /// What the policy says of a command.
    PolicyVerdict(PolicyVerdict),
    /// What came of doing something with files.
    FileDone(FileDone),
    /// A secret, by name.
    Secret(Secret),
    /// Several secrets, by name.
    Secrets(SecretList),
    /// An image.
    Image(Image),
    /// Images.
    Images(ImageList),
    /// A token that was made, with what opens the door.
    TokenCreated(TokenCreated),
    /// Several tokens.
    Tokens(AccessTokens),
    /// A token.
    Token(AccessToken),
    /// Entries of the ledger.
    AuditPage(AuditPage),
    /// What stands out in the ledger.
    LedgerSummary(LedgerSummary),
    /// What runs of code came to.
    CodeFigures(Box<CodeFigures>),
    /// How the index and what drivers have were brought together.
    Reconciled(Reconciled),
    /// What was collected.
    Collected(Collected),
    /// What the machine can enforce.
    Diagnoses(Diagnoses),
    /// Whether the store can be reached and drivers be used.
    Probed(Probed),
}

/// Several cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cells {
    /// Newest first.
    pub cells: Vec<Cell>,
}

/// What a cell uses at present.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CellStats {
    /// Execs that run.
    pub running: u32,
    /// Execs that wait.
    pub queued: u32,
    /// CPU time used since the supervisor started; where the kernel counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Memory in use; where the kernel counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// What the cell has written, as last measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// The files and directories it has made, as last counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_files: Option<u64>,
    /// What it used of the network, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStats>,
    /// Its sessions of code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionInfo>,
}

/// A cell with its use of resources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellDetails {
    /// The cell.
    pub cell: Cell,
    /// What it uses; none while it has no processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<CellStats>,
    /// Its execs that have not ended.
    pub execs: Vec<Exec>,
    /// Their tool calls that await approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaiting: Vec<Asked>,
    /// What the content of its image is called by, whatever the image's name means by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest: Option<String>,
    /// Which of its driver's places it is at, by the name that the configuration has for it; none
    /// where there is but one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Clients that said that they work in it, the latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

/// Whether a cell was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KillStatus {
    /// It is gone.
    Killed,
}

/// What became of a cell that was to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellKilled {
    /// Which.
    pub cell: CellId,
    /// What became of it.
    pub status: KillStatus,
    /// What is kept of it: its files, if it was persistent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<Volume>,
}

/// An exec with its first output.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecResult {
    /// The exec.
    pub exec: Exec,
    /// What it has printed so far, within the bound of a result.
    pub records: Vec<Record>,
    /// Output that is not among `records` because the bound was reached.
    pub truncated: bool,
    /// What to poll after.
    pub next_seq: u64,
    /// The last line of its output, if it is blocked reading its input.
    pub waiting_for_input: Option<String>,
    /// What there is to tell of it, if it is code.
    pub code: Option<Box<CodeRun>>,
    /// Tool calls of this exec that await a person's approval.
    pub awaiting: Vec<Asked>,
}

/// Part of an exec's output.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecPage {
    /// The exec.
    pub exec: Exec,
    /// The output, in order.
    pub records: Vec<Record>,
    /// What to poll after to go on: the last seq that was looked at.
    pub next_seq: u64,
    /// Whether the exec has ended and there is nothing after `next_seq`.
    pub complete: bool,
    /// Whether output after `next_seq` is there already.
    pub more: bool,
    /// What is missing within this page because it was not kept.
    pub dropped: Option<Dropped>,
    /// The last line of its output, if it is blocked reading its input.
    pub waiting_for_input: Option<String>,
    /// Whether the pattern that was waited for was printed; left out when none was.
    pub matched: Option<bool>,
    /// The screen of its terminal, if that was asked for instead of `records`.
    pub screen: Option<Box<TerminalScreen>>,
    /// What there is to tell of it, if it was code and there is nothing more to read.
    pub code: Option<Box<CodeRun>>,
    /// Tool calls of this exec that await a person's approval.
    pub awaiting: Vec<Asked>,
}

/// Input was taken.
#[derive(Debug, Clone, PartialEq)]
pub struct InputAccepted {
    /// By which exec.
    pub exec: ExecId,
    /// What came out after it, if that was to be waited for.
    pub output: Option<ExecPage>,
}

/// Whether an exec was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CancelStatus {
    /// It was running or queued, and is being ended.
    Cancelled,
    /// It had ended before.
    AlreadyEnded,
    /// There is no such exec.
    NotFound,
}

/// What became of an exec that was to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecCancelled {
    /// Which.
    pub exec: ExecId,
    /// What became of it.
    pub status: CancelStatus,
}

/// Several execs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Execs {
    /// Newest first.
    pub execs: Vec<Exec>,
    /// What to pass to see the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Their tool calls that await approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaiting: Vec<Asked>,
    /// Whose the cells of these execs are, for who sees those of several tenants.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(skip)]
    pub tenants: BTreeMap<CellId, Tenant>,
}

/// What the machine can enforce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnoses {
    /// One for each driver.
    pub drivers: Vec<Diagnosis>,
}

/// Whether the store can be reached and drivers be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    /// Why the store cannot be reached; none when it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Error>,
    /// One for each driver.
    pub drivers: Vec<ProbedDriver>,
}

/// Whether a driver can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbedDriver {
    /// Its name.
    pub driver: String,
    /// Why it cannot be used; none when it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

//! The words of Hotcell: ids, requests, replies, errors, limits and the ports to drivers and stores.
//!
//! Nothing here does IO or knows an async runtime; every other crate speaks in these types.

mod approval;
mod asked;
mod attachment;
mod audit;
mod caller;
mod cell;
mod checkpoint;
mod code;
mod code_stats;
mod digest;
mod driver;
mod error;
mod exec;
mod file_op;
mod file_result;
mod host_name;
mod id;
mod image;
mod image_name;
mod image_rules;
mod isolation;
mod ledger;
mod limits;
mod network;
mod output;
mod policy;
mod project;
mod reply;
mod request;
mod rights;
mod schema;
mod secret;
mod secret_grant;
mod stable_hash;
mod store;
mod tenants;
mod terminal;
mod time;
mod token;
mod tool_servers;
mod tools;
mod upkeep;
mod volume;

#[cfg(test)]
mod asked_tests;
#[cfg(test)]
mod caller_tests;
#[cfg(test)]
mod code_tests;
#[cfg(test)]
mod error_tests;
#[cfg(test)]
mod exec_tests;
#[cfg(test)]
mod id_tests;
#[cfg(test)]
mod limits_tests;
#[cfg(test)]
mod network_tests;
#[cfg(test)]
mod rights_tests;
#[cfg(test)]
mod stable_hash_tests;
#[cfg(test)]
mod time_tests;
#[cfg(test)]
mod token_tests;

pub use approval::{
    Approval, ApprovalAnswer, ApprovalGive, ApprovalList, ApprovalNeed, ApprovalVerdict, AskedFact,
    Grant,
};
pub use asked::{ApprovalId, Approvals, Asked, HeldCall, Holding, legible};
pub use attachment::{Attachment, CellAttach};
pub use audit::{Anomaly, AnomalyKind, AuditPage, AuditQuery, AuditSummary, LedgerSummary, Tally};
pub use caller::{At, Caller, Patience, Sight};
pub use cell::{Cell, CellSpec, CellState, CloseReason, Keep};
pub use checkpoint::{
    AUTOMATIC_CHECKPOINTS, CellFork, ChangeKind, Checkpoint, CheckpointBefore, CheckpointCompare,
    CheckpointCreate, CheckpointDelete, CheckpointDiff, CheckpointList, CheckpointMeans,
    CheckpointPurpose, CheckpointRestore, Checkpointer, Checkpoints, Patch, PathChange,
};
pub use code::{
    Artifact, Code, CodeError, CodeImage, CodeLanguage, CodeOutcome, CodeReport, CodeRun,
    CodeShown, CodeStatus, CodeTerms, CodeTokens, CodeValue, CutStrategy, SessionBounds,
    SessionInfo, SessionName, SessionTurn, SessionUse, ToolUse,
};
pub use code_stats::{CodeFigures, CodeStats, ToolFigures};
pub use digest::Digest;
pub use driver::{
    Check, CheckStatus, Diagnosis, Driver, DriverCapabilities, Machine, PlacedCell, Placement,
    Remains,
};
pub use error::{Error, ErrorCode, QuotaHit, Result};
pub use exec::{
    Command, EndCause, Exec, ExecBounds, ExecEnd, ExecSpec, ExecState, LimitHit, Priority, Signal,
    Stdin, TerminalSize, Usage,
};
pub use file_op::{
    BatchPart, Compression, EtagMatch, FILE_CONTENT_BYTES, FileBatch, FileCall, FileDelete,
    FileEdit, FileExport, FileImport, FileList, FileMakeDirectory, FileMove, FileOp, FileRead,
    FileScope, FileSearch, FileStat, FileStream, FileWatch, FileWrite, LineRange, PageRoom,
    Precondition, SearchIn, TextEdit,
};
pub use file_result::{
    BatchOutcome, BatchResult, Etag, FileContent, FileDeleted, FileDone, FileEdited, FileEntries,
    FileEntry, FileKind, FileMatch, FileMatches, FileNames, FilePlaced, FileResult, FileWritten,
    FilesPacked,
};
pub use host_name::{HostName, Inspection, NamePattern, NetRule};
pub use id::{Alias, CellId, CellRef, CheckpointId, ExecId, HeldId};
pub use image::{
    HOST_IMAGE, Image, ImageImport, ImageList, ImagePull, ImageRemove, Images, ImagesList,
    PullProgress, PullWatch, Unwatched,
};
pub use image_name::ImageName;
pub use image_rules::{ImagePattern, ImageRules};
pub use isolation::{
    Isolation, IsolationLevel, LAYER_NAMES, Layer, MissingLayer, RequiredIsolation,
};
pub use ledger::{
    AppendWait, Appended, Detail, EntryKind, FaultKind, KnownEntry, Ledger, LedgerCheck,
    LedgerEntry, LedgerFault, LedgerFilter, LedgerRecord, LedgerReport, LedgerState, Verdict,
};
pub use limits::{LIMITS, Limits, RequestedLimits};
pub use network::{
    NameRules, NetChange, NetCursor, NetLog, NetRecord, NetRecords, NetShow, NetTail, NetVerdict,
    Network, NetworkState, NetworkStats, Networks, USUAL_PORTS,
};
pub use output::{Dropped, Message, Record, Stream};
pub use policy::{
    Checked, CheckedLanguage, PolicyCheck, PolicyDecision, PolicyPart, PolicyVerdict,
};
pub use project::{
    DriftedFiles, Occupancy, PlanFor, ProjectApplied, ProjectApply, ProjectChange, ProjectChanges,
    ProjectDiff, ProjectDiscard, ProjectDiscarded, ProjectPaths, ProjectPlan, Projects, Workspace,
    WorkspaceMode,
};
pub use reply::{
    CancelStatus, CellDetails, CellKilled, CellStats, Cells, Diagnoses, ExecCancelled, ExecPage,
    ExecResult, Execs, InputAccepted, KillStatus, Probed, ProbedDriver, Reply,
};
pub use request::{
    CellAdopt, CellInfo, CellKill, CellList, CellSpawn, Diagnose, ExecCancel, ExecFollow, ExecGet,
    ExecInput, ExecList, ExecPoll, ExecRun, ExecStatusFilter, ExecWait, KillWait, OutputFilter,
    Pace, PortDial, Probe, Query, RESULT_BYTES, Request,
};
pub use rights::{Role, Scope, Tenant};
pub use secret::{
    LentSecret, Secret, SecretList, SecretName, SecretRemove, SecretSet, SecretSource, SecretStore,
    SecretValue, SecretsList,
};
pub use secret_grant::{
    HeaderDestination, HeaderForm, Placeholder, Scheme, SecretForm, SecretGrant,
    check_grants_together,
};
pub use stable_hash::stable_hash;
pub use store::{ATTACHMENTS, CellLock, Claim, ExecFilter, KeyScope, Store, StoredCell};
pub use tenants::{Reach, Tenants};
pub use terminal::{
    CursorPlace, Highlight, OutputForm, OutputView, TerminalScreen, Until, WaitBound,
};
pub use time::Timestamp;
pub use token::{
    AccessToken, AccessTokens, TokenCreate, TokenCreated, TokenId, TokenName, TokenRevoke,
    TokenStore, TokenText, TokensList,
};
pub use tool_servers::{
    OWN_SERVER, OwnCall, OwnTools, OwnValue, ServerStanding, ServerState, ServerTools, ToolAnswer,
    ToolCall, ToolListings, ToolServers,
};
pub use tools::{
    NamesFound, PassedTool, ToolDetail, ToolHints, ToolList, ToolNames, ToolRan, ToolRun,
    ToolSearch, ToolsFound, ToolsListed,
};
pub use upkeep::{Collect, Collectable, Collected, Reconcile, Reconciled, Removed, Thrift};
pub use volume::{Volume, VolumeList, VolumeRemove, VolumeRestore, VolumesList};

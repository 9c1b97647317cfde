//! Checkpoints: states of a cell's files that can be gone back to and forked from.

use async_trait::async_trait;
use schemars::JsonSchema;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{Alias, CellId, CellRef, CellSpec, CheckpointId, Keep, Result, Timestamp};

/// How a checkpoint was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointMeans {
    /// What was written so far became a layer that nobody writes to any more.
    Stacked,
    /// Something ran: everything was held still and copied.
    Copied,
}

/// Before which commands of a cell a checkpoint is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointBefore {
    /// Before those that remove or overwrite something, and those of which that cannot be known.
    Destructive,
}

/// How many automatic checkpoints of a cell are kept.
pub const AUTOMATIC_CHECKPOINTS: usize = 20;

/// What a checkpoint is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointPurpose {
    /// To be there until it is deleted.
    Keeping,
    /// To undo one command. Of a cell's the newest are kept, [`AUTOMATIC_CHECKPOINTS`] of them.
    Undoing,
    /// For forks that this process makes right away. It is not listed, and does not outlive the
    /// process.
    Forking,
}

/// An immutable state of everything a cell wrote, `/tmp` left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    /// Its id.
    pub id: CheckpointId,
    /// Of which cell.
    pub cell: CellId,
    /// When it was made.
    pub created_at: Timestamp,
    /// How it was made.
    pub means: CheckpointMeans,
    /// Whether it was made before a command, by itself. The newest of these are kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub automatic: bool,
    /// What it holds that no checkpoint before it does, in bytes on disk; told in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Several checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoints {
    /// Oldest first.
    pub checkpoints: Vec<Checkpoint>,
}

/// What became of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It was not there before.
    Added,
    /// It is another now.
    Changed,
    /// It is not there any more.
    Removed,
}

/// A path that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathChange {
    /// Which, as the cell sees it. Bytes that are no text are shown as `�`.
    pub path: String,
    /// What became of it.
    pub change: ChangeKind,
    /// Whether it is a directory.
    pub directory: bool,
}

/// What changed since a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointDiff {
    /// Since which.
    pub checkpoint: CheckpointId,
    /// By path.
    pub changes: Vec<PathChange>,
    /// Whether there are more than are told.
    pub truncated: bool,
    /// How files changed, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Patch>,
}

/// Changes of files, as git's patches have them. Directories and special files have no place there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Patch {
    /// Whole changes only; what is no text is named as binary.
    pub text: String,
    /// Whether changes were left out because there was no room for them.
    pub truncated: bool,
    /// The first files whose changes were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// Keeps the present state of a cell's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointCreate {
    /// Of which cell.
    pub cell: CellRef,
}

/// Lists a cell's checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointList {
    /// Of which cell.
    pub cell: CellRef,
}

/// Tells what changed since a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointCompare {
    /// Of which cell.
    pub cell: CellRef,
    /// Since which checkpoint.
    pub checkpoint: CheckpointId,
    /// How many changes at most.
    pub limit: u32,
    /// How many changes to skip.
    #[serde(default)]
    pub skip: u32,
    /// How many bytes of a patch at most; none when left out.
    pub patch_bytes: Option<u32>,
}

/// Brings a cell's files back to a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointRestore {
    /// Of which cell.
    pub cell: CellRef,
    /// To which checkpoint.
    pub checkpoint: CheckpointId,
    /// Whether running execs are ended; otherwise they make it a conflict.
    pub force: bool,
}

/// Forgets a checkpoint. The cell's files and forks from it stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointDelete {
    /// Of which cell.
    pub cell: CellRef,
    /// Which checkpoint.
    pub checkpoint: CheckpointId,
}

/// Makes cells that begin with the files of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellFork {
    /// Which cell.
    pub cell: CellRef,
    /// As it was at this checkpoint; as it is when left out.
    pub checkpoint: Option<CheckpointId>,
    /// A name for the new cell; of several, the beginning of their names.
    pub alias: Option<Alias>,
    /// How many cells.
    pub count: u32,
    /// What keeps them in being; what keeps the other one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Keep>,
    /// Seconds after which they end; as long as the other one lasts when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<u64>,
    /// A second request with this key is answered with the first one's cell; for one cell only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// The port to a driver that can keep states of a cell's files. Calls are made under the cell's
/// lock. Where the cell has a supervisor, it was told to hold still, and ends by itself if whoever
/// told it to goes away before it is told to go on. What fails leaves a cell as it was, or ended.
#[async_trait]
pub trait Checkpointer: Send + Sync + std::fmt::Debug {
    /// Keeps the present state. It is in force, also in a cell that runs, when this returns.
    async fn create(
        &self,
        cell: &CellId,
        checkpoint: &CheckpointId,
        means: CheckpointMeans,
        purpose: CheckpointPurpose,
    ) -> Result<Checkpoint>;

    /// A checkpoint of a cell.
    async fn find(&self, cell: &CellId, checkpoint: &CheckpointId) -> Result<Option<Checkpoint>>;

    /// The checkpoints of a cell, oldest first, with what each holds that none before it does.
    async fn list(&self, cell: &CellId) -> Result<Vec<Checkpoint>>;

    /// What changed since a checkpoint: of all changes those in `range`; with `patch_bytes` also how.
    async fn compare(
        &self,
        cell: &CellId,
        checkpoint: &CheckpointId,
        range: Range<u32>,
        patch_bytes: Option<u32>,
    ) -> Result<CheckpointDiff>;

    /// Brings the files back to a checkpoint, also in a cell that runs.
    async fn restore(&self, cell: &CellId, checkpoint: &CheckpointId) -> Result<()>;

    /// Forgets a checkpoint. `not_found` when there is none of that id.
    async fn delete(&self, cell: &CellId, checkpoint: &CheckpointId) -> Result<()>;

    /// Prepares a cell that begins with the files of another as they were at a checkpoint.
    /// [`crate::Driver::start`] starts it.
    async fn fork(
        &self,
        cell: &CellId,
        checkpoint: &CheckpointId,
        spec: &CellSpec,
        records: &std::path::Path,
    ) -> Result<()>;
}

//! Projects: directories of the host that are the workspaces of cells.

use std::path::PathBuf;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CellId, CellRef, ChangeKind, Result};

/// What becomes of what a cell writes to a project.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceMode {
    /// It cannot write.
    Ro,
    /// It stays with the cell until a person applies it.
    #[default]
    Cow,
    /// It goes to the real files at once.
    Rw,
}

impl WorkspaceMode {
    /// The mode as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ro => "ro",
            Self::Cow => "cow",
            Self::Rw => "rw",
        }
    }
}

/// A directory of the host as a cell's `/workspace`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Workspace {
    /// Which directory.
    pub dir: PathBuf,
    /// What becomes of what the cell writes.
    #[serde(default)]
    pub mode: WorkspaceMode,
}

/// What of a project is meant; everything when empty. Relative to the project.
pub type ProjectPaths = Vec<PathBuf>;

/// Tells what a cell has changed in its project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectDiff {
    /// Which cell.
    pub cell: CellRef,
    /// What of the project.
    pub paths: ProjectPaths,
    /// How many changes at most.
    pub limit: u32,
    /// How many changes to skip.
    #[serde(default)]
    pub skip: u32,
    /// How much text of changes at most; none for 0.
    pub patch_bytes: u64,
    /// Prepare this instead of only comparing. It reads all changed files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanFor>,
    /// Whether to leave out new files that git ignores, unless `paths` names them.
    #[serde(default)]
    pub leave_out_ignored: bool,
}

/// What a person is to approve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanFor {
    /// An apply that skips drifted files: the reply's changes and patch are those it would make.
    Apply,
    /// A discard.
    Discard,
}

/// What an apply or a discard would do, bound by a digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectPlan {
    /// The digest of all changes among the requested paths, with their content.
    pub digest: String,
    /// What an apply would leave out because it could make the host run something.
    pub held_back: Vec<ProjectChange>,
    /// What an apply would leave out because the real files changed since the cell began with them.
    pub conflicts: Vec<ProjectChange>,
}

/// What an apply does with real files that changed since the cell began with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriftedFiles {
    /// Fail without applying anything.
    #[default]
    Refuse,
    /// Leave them as they are, report them as conflicts and apply the rest.
    Skip,
    /// Overwrite them.
    Replace,
}

/// Brings what a cell has changed in its project to the real files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectApply {
    /// Which cell.
    pub cell: CellRef,
    /// What of the project. What makes the host run something is applied only when named here.
    pub paths: ProjectPaths,
    /// What to do with real files that changed since the cell began with them.
    #[serde(default)]
    pub drifted: DriftedFiles,
    /// Apply only if the changes still have this digest; `conflict` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// Whether new files that git ignores stay with the cell, unless `paths` names them.
    #[serde(default)]
    pub leave_out_ignored: bool,
}

/// Forgets what a cell has changed in its project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectDiscard {
    /// Which cell.
    pub cell: CellRef,
    /// What of the project.
    pub paths: ProjectPaths,
    /// Discard only if the changes still have this digest; `conflict` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
}

/// A path of a project that is not as the host has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectChange {
    /// Which, relative to the project. Bytes that are no text are shown as `�`.
    pub path: String,
    /// What the cell made of it.
    pub change: ChangeKind,
    /// Whether it is a directory.
    pub directory: bool,
    /// Why it could make the host run something, if it could: it is applied only when named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarded: Option<String>,
    /// Whether the real file changed, or vanished, since the cell began with it.
    pub drifted: bool,
}

/// What a cell has changed in its project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectChanges {
    /// The project.
    pub dir: PathBuf,
    /// By path.
    pub changes: Vec<ProjectChange>,
    /// Whether there are more than are told.
    pub truncated: bool,
    /// The changes in the form of `git diff`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub patch: String,
    /// Whether changes are left out of the text.
    pub patch_truncated: bool,
    /// The first files whose changes are left out of the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The plan, if one was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<ProjectPlan>,
    /// The first new files and directories that were left out because git ignores them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

/// What was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectApplied {
    /// The project.
    pub dir: PathBuf,
    /// What the real files have now.
    pub applied: Vec<ProjectChange>,
    /// What was left out because it could make the host run something.
    pub held_back: Vec<ProjectChange>,
    /// What was left out because the real files changed since the cell began with them.
    #[serde(default)]
    pub conflicts: Vec<ProjectChange>,
}

/// What was discarded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectDiscarded {
    /// The project.
    pub dir: PathBuf,
    /// What is as the host has it again.
    pub discarded: Vec<ProjectChange>,
}

/// Whether something runs in a cell that is held still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occupancy {
    /// Nothing but its supervisor.
    Empty,
    /// Something that is frozen.
    Frozen,
}

/// The port to a driver whose cells can have directories of the host as workspaces. Calls that
/// change something are made under the cell's lock, with the cell held still.
#[async_trait]
pub trait Projects: Send + Sync + std::fmt::Debug {
    /// The directory by its one true name. `invalid` or `denied` for one that cannot be a workspace,
    /// whoever asks.
    async fn check(&self, workspace: &Workspace) -> Result<Workspace>;

    /// Makes what the host changed visible in a cell in which nothing runs.
    async fn refresh(&self, cell: &CellId) -> Result<()>;

    /// Tells what the cell has changed.
    async fn diff(&self, cell: &CellId, asked: &ProjectDiff) -> Result<ProjectChanges>;

    /// Brings it to the real files: all of it, or nothing.
    async fn apply(
        &self,
        cell: &CellId,
        asked: &ProjectApply,
        occupancy: Occupancy,
    ) -> Result<ProjectApplied>;

    /// Forgets it.
    async fn discard(&self, cell: &CellId, asked: &ProjectDiscard) -> Result<ProjectDiscarded>;
}

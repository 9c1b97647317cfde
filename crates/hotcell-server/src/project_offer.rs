//! The user's directories that a server works on, and what models are told about them.

use std::path::PathBuf;

use hotcell_model::WorkspaceMode;

/// What a server has to do with directories of the user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ProjectOffer {
    /// Nothing.
    #[default]
    None,
    /// The default cell has none, but cells can be spawned on some, copy-on-write.
    Allowed,
    /// This directory is the workspace of the default cell.
    DefaultCell {
        /// Its real path.
        dir: PathBuf,
        /// What happens to what the cell writes.
        mode: WorkspaceMode,
    },
    /// This directory was to be the workspace of the default cell, and cannot be.
    Unavailable {
        /// The directory.
        dir: PathBuf,
        /// Why it cannot.
        reason: String,
    },
}

impl ProjectOffer {
    /// Whether cells can have changes that are to be applied.
    pub(crate) fn has_changes(&self) -> bool {
        match self {
            Self::Allowed | Self::DefaultCell { mode: WorkspaceMode::Cow, .. } => true,
            Self::None
            | Self::DefaultCell { mode: WorkspaceMode::Ro | WorkspaceMode::Rw, .. }
            | Self::Unavailable { .. } => false,
        }
    }

    /// The server instructions about the project, appended to the general ones.
    pub(crate) fn instructions(&self) -> Option<String> {
        match self {
            Self::None | Self::Allowed => None,
            Self::DefaultCell { dir, mode: WorkspaceMode::Cow } => Some(format!(
                " /workspace in the default cell is a copy-on-write view of the user's project {}: \
                 its files are there, and what you change stays in the cell. workspace_diff shows \
                 what would change in the real files; they change only after the user has approved \
                 workspace_apply. workspace_discard drops your changes.",
                dir.display()
            )),
            Self::DefaultCell { dir, mode: WorkspaceMode::Rw } => Some(format!(
                " /workspace in the default cell is the user's directory {}: what you write there \
                 changes the real files at once.",
                dir.display()
            )),
            Self::DefaultCell { dir, mode: WorkspaceMode::Ro } => Some(format!(
                " /workspace in the default cell is a read-only view of the user's directory {}.",
                dir.display()
            )),
            Self::Unavailable { dir, reason } => Some(format!(
                " The user's files are not in the default cell, whose /workspace starts empty: {} \
                 cannot be its workspace ({reason}). To work on a project, ask the user to start \
                 the client in the directory of that project.",
                dir.display()
            )),
        }
    }
}

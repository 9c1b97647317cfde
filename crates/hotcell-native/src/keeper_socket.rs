//! Where a keeper can be asked for what only it can do.

use std::io;

use hotcell_model::LentSecret;
use serde::{Deserialize, Serialize};

use crate::order::Outcome;
use crate::paths::CellPaths;

/// What a keeper is asked for, one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeeperAsk {
    /// To give its cell the layers that its `cell.json` names now.
    Swap,
    /// To make what the host changed in the cell's project visible.
    Refresh,
    /// The same of what is shown at `/tools`.
    RefreshTools,
    /// Like `Refresh`, also if the host changed nothing.
    ShowAnew,
    /// To see to it that connections of its cell are carried, if it may reach anything.
    Network,
    /// To measure soon what the cell takes on disk: something was removed.
    Measure,
    /// To keep the values of these secrets in memory, for what carries connections of its cell.
    Lend(Vec<LentSecret>),
}

/// Asks the keeper of a cell and waits for its answer.
pub(crate) fn ask_keeper(paths: &CellPaths, ask: &KeeperAsk) -> io::Result<Outcome> {
    hotcell_keeper::ask_keeper(paths.kept(), ask)
}

impl KeeperAsk {
    /// Whether the cell may have other layers, or take less, afterwards.
    pub(crate) fn is_change(&self) -> bool {
        match self {
            Self::Swap | Self::ShowAnew | Self::Measure => true,
            Self::Refresh | Self::RefreshTools | Self::Network | Self::Lend(_) => false,
        }
    }
}

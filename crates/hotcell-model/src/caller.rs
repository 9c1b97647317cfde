//! Who is asking.

use serde::{Deserialize, Serialize};

use crate::{Alias, Network, Workspace};

/// The party on whose behalf a request is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// A stable name of the party, such as `local:1000`.
    pub principal: String,
    /// The cell it means when it names none; made at its first use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_cell: Option<Alias>,
    /// What that cell is to work on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_workspace: Option<Workspace>,
    /// What that cell can reach over the network.
    #[serde(default)]
    pub default_network: Network,
}

impl Caller {
    /// The person or program that runs `hotcell` on this machine under `uid`.
    #[must_use]
    pub fn local(uid: u32) -> Self {
        Self::of(format!("local:{uid}"))
    }

    /// A party by its name.
    #[must_use]
    pub fn of(principal: String) -> Self {
        Self {
            principal,
            default_cell: None,
            default_workspace: None,
            default_network: Network::None,
        }
    }

    /// The same with a cell to mean when it names none.
    #[must_use]
    pub fn with_default_cell(mut self, alias: Alias) -> Self {
        self.default_cell = Some(alias);
        self
    }
}

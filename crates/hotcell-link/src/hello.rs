//! The opening of a link: which version and features both ends speak.

use serde::{Deserialize, Serialize};

/// A range of protocol versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The oldest that is understood.
    pub min: u32,
    /// The newest that is understood.
    pub max: u32,
}

/// What this build speaks.
pub const SUPPORTED: Versions = Versions { min: 1, max: 1 };

/// The feature of a supervisor that serves files.
pub const FILES: &str = "files";

/// The feature of a supervisor that connects to services in its cell.
pub const PORTS: &str = "ports";

/// The feature of a supervisor that takes secrets, and masks them in output.
pub const SECRETS: &str = "secrets";

/// The feature of a supervisor that lets execs wait for approval.
pub const APPROVALS: &str = "approvals";

/// The feature of a supervisor that runs code and carries its calls of tools.
pub const CODE: &str = "code";

/// The feature of a supervisor that keeps the variables of code between runs.
pub const SESSIONS: &str = "sessions";

/// The feature of a supervisor that carries calls of tools by programs of any exec.
pub(crate) const CALLERS: &str = "callers";

/// The feature of a supervisor that runs TypeScript and JavaScript.
pub const SCRIPTS: &str = "scripts";

/// The feature of a supervisor that tells whether a program is blocked reading its input.
pub(crate) const INPUT_STATE: &str = "input_state";

/// The first frame of each side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The versions this side understands.
    pub versions: Versions,
    /// What it can do beyond the version's common ground.
    #[serde(default)]
    pub features: Vec<String>,
    /// Which program this is, for people.
    #[serde(default)]
    pub software: String,
}

/// Why two ends cannot talk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// The ranges do not meet.
    #[error(
        "the other end of the link ({software}) speaks protocol versions {} to {}, this one {} to {}",
        theirs.min, theirs.max, ours.min, ours.max
    )]
    NoCommonVersion {
        /// What this end speaks.
        ours: Versions,
        /// What the other end speaks.
        theirs: Versions,
        /// The other end's program.
        software: String,
    },
}

impl Hello {
    /// The greeting of this build.
    #[must_use]
    pub fn ours() -> Self {
        Self {
            versions: SUPPORTED,
            features: [
                FILES,
                PORTS,
                SECRETS,
                APPROVALS,
                CODE,
                SESSIONS,
                CALLERS,
                SCRIPTS,
                INPUT_STATE,
            ]
            .map(str::to_owned)
            .to_vec(),
            software: concat!("hotcell ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }

    /// The version both ends speak: the newest that is in both ranges.
    ///
    /// # Errors
    /// There is none.
    pub fn agree(&self, theirs: &Self) -> Result<u32, HelloError> {
        let version = self.versions.max.min(theirs.versions.max);
        if version >= self.versions.min && version >= theirs.versions.min {
            Ok(version)
        } else {
            Err(HelloError::NoCommonVersion {
                ours: self.versions,
                theirs: theirs.versions,
                software: theirs.software.clone(),
            })
        }
    }
}

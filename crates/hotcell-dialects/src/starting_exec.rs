//! An exec whose cell is still being started when its caller is answered.

use hotcell_model::{CellRef, Error, ExecId, Timestamp};

/// An exec that the engine does not have yet.
#[derive(Debug, Clone)]
pub struct StartingExec {
    /// Its id, which it keeps once it runs.
    pub exec: ExecId,
    /// The cell as its caller named it; it may not have an id yet.
    pub cell: CellRef,
    /// What it runs, with secrets hidden.
    pub command: String,
    /// When it was asked for.
    pub queued_at: Timestamp,
    /// How far its start is.
    pub phase: StartPhase,
}

/// How far the start of an exec is.
#[derive(Debug, Clone)]
pub enum StartPhase {
    /// Its cell is being made, woken, or waits for room.
    Starting,
    /// The start failed: it never ran.
    Failed(Error),
    /// It was cancelled before it ran.
    Cancelled,
}

impl StartingExec {
    /// Status of an exec whose cell is still being started.
    pub const STARTING: &'static str = "starting";
    /// The cause of the end of an exec whose start failed.
    pub const NOT_STARTED: &'static str = "not_started";

    /// The status as results show it.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match self.phase {
            StartPhase::Starting => Self::STARTING,
            StartPhase::Failed(_) | StartPhase::Cancelled => "ended",
        }
    }

    /// Why it ended, if it did.
    #[must_use]
    pub fn end_cause(&self) -> Option<&'static str> {
        match self.phase {
            StartPhase::Starting => None,
            StartPhase::Failed(_) => Some(Self::NOT_STARTED),
            StartPhase::Cancelled => Some("cancelled"),
        }
    }

    /// The error of a start that failed.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        match &self.phase {
            StartPhase::Failed(error) => {
                let message = format!("exec {} did not start: {}", self.exec, error.message);
                Some(Error { message, ..error.clone() })
            }
            StartPhase::Starting | StartPhase::Cancelled => None,
        }
    }
}

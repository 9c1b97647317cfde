//! The output of an exec, as the engine's end gets it.

use hotcell_model::{ExecEnd, Record};

use crate::inflow::{Inflow, Piece};
use crate::record_cost;

/// What comes of following an exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowEvent {
    /// Output.
    Record(Record),
    /// The end; nothing comes after it.
    Ended(ExecEnd),
}

impl Piece for FollowEvent {
    fn cost(&self) -> Option<u32> {
        match self {
            Self::Record(record) => Some(record_cost(record.bytes.len())),
            Self::Ended(_) => None,
        }
    }
}

/// The output of an exec as it comes. Dropped, the supervisor stops sending it.
#[derive(Debug)]
pub struct Following(Inflow<FollowEvent>);

impl Following {
    pub(crate) fn new(events: Inflow<FollowEvent>) -> Self {
        Self(events)
    }

    /// The next event; `None` when the connection was lost before the end. Can be cancelled
    /// without losing an event.
    pub async fn next(&mut self) -> Option<FollowEvent> {
        self.0.next().await
    }
}

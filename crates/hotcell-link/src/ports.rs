//! A connection to a service in a cell: bytes both ways, each to its own end.

use hotcell_model::Error;

use crate::conversation::Conversation;
use crate::inflow::Piece;
use crate::message::data_cost;

/// What comes from a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortEvent {
    /// Bytes that it sent.
    Data(Vec<u8>),
    /// It sends no more; it may still read.
    End,
    /// Both ways are at their end; nothing comes after it.
    Closed,
    /// The connection broke; nothing comes after it.
    Failed(Error),
}

impl Piece for PortEvent {
    fn cost(&self) -> Option<u32> {
        match self {
            Self::Data(bytes) => Some(data_cost(bytes.len())),
            Self::End => Some(data_cost(0)),
            Self::Closed | Self::Failed(_) => None,
        }
    }
}

/// A connection to a service.
pub type PortConnection = Conversation<PortEvent>;

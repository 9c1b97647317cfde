//! A conversation about files: content, and the result last.

use hotcell_model::{Error, FileResult};

use crate::conversation::Conversation;
use crate::inflow::Piece;
use crate::message::data_cost;

/// What comes of doing something with files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileEvent {
    /// Content.
    Data(Vec<u8>),
    /// What came of it; nothing comes after it.
    Done(Box<FileResult>),
    /// Why it could not be done; nothing comes after it.
    Failed(Error),
}

impl Piece for FileEvent {
    fn cost(&self) -> Option<u32> {
        match self {
            Self::Data(bytes) => Some(data_cost(bytes.len())),
            Self::Done(_) | Self::Failed(_) => None,
        }
    }
}

/// Something that is done with files.
pub type FileConversation = Conversation<FileEvent>;

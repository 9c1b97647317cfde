//! A conversation about files, as the engine's end has it: content goes and comes piece by piece,
//! and the result comes last.

use std::sync::Arc;

use hotcell_model::{Error, FileResult};
use tokio::sync::{Semaphore, mpsc};

use crate::client::LinkError;
use crate::frame::{FrameKind, frame_bytes};
use crate::inflow::{Inflow, Piece};
use crate::message::{DATA_BYTES, DataHead, UPLOAD_WINDOW, data_cost};
use crate::waiters::Waiters;

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

/// How much more content may be sent.
#[derive(Debug, Clone)]
pub(crate) struct UploadCredit(Arc<Semaphore>);

impl UploadCredit {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(UPLOAD_WINDOW as usize)))
    }

    /// Waits until this much may be sent; whether anything still may.
    pub(crate) async fn take(&self, cost: u32) -> bool {
        match self.0.acquire_many(cost).await {
            Ok(permit) => {
                permit.forget();
                true
            }
            Err(_) => false,
        }
    }

    /// The other end took this much.
    pub(crate) fn add(&self, bytes: u32) {
        // A peer that gives back more than was sent must not overflow the count.
        let room = Semaphore::MAX_PERMITS / 2;
        if self.0.available_permits() < room {
            self.0.add_permits(bytes as usize);
        }
    }

    /// Nothing more is taken.
    pub(crate) fn close(&self) {
        self.0.close();
    }
}

/// One conversation: its two ends can be used at the same time.
#[derive(Debug)]
pub struct FileConversation {
    /// Where content goes.
    pub sender: FileSender,
    /// Where content and the result come from.
    pub receiver: FileReceiver,
}

/// Where content goes.
#[derive(Debug)]
pub struct FileSender {
    channel: u32,
    frames: mpsc::Sender<Vec<u8>>,
    waiters: Waiters,
    credit: UploadCredit,
}

/// Where content and the result come from. Dropped, the other end stops, and undoes what is not
/// finished.
#[derive(Debug)]
pub struct FileReceiver {
    events: Inflow<FileEvent>,
    waiters: Waiters,
}

impl FileConversation {
    pub(crate) fn new(
        channel: u32,
        events: Inflow<FileEvent>,
        frames: mpsc::Sender<Vec<u8>>,
        waiters: Waiters,
        credit: UploadCredit,
    ) -> Self {
        let sender = FileSender { channel, frames, waiters: waiters.clone(), credit };
        Self { sender, receiver: FileReceiver { events, waiters } }
    }
}

impl FileSender {
    /// Sends content. It waits while the other end has not taken what was sent before; when that
    /// is no longer interested it returns at once, and the reason is the next event.
    ///
    /// # Errors
    /// The connection was lost.
    pub async fn send(&self, content: &[u8]) -> Result<(), LinkError> {
        for piece in content.chunks(DATA_BYTES) {
            if !self.credit.take(data_cost(piece.len())).await {
                return Ok(());
            }
            self.send_frame(DataHead { last: false }, piece).await?;
        }
        Ok(())
    }

    /// Says that there is no more content.
    ///
    /// # Errors
    /// The connection was lost.
    pub async fn finish(&self) -> Result<(), LinkError> {
        self.send_frame(DataHead { last: true }, &[]).await
    }

    async fn send_frame(&self, head: DataHead, blob: &[u8]) -> Result<(), LinkError> {
        let bytes = frame_bytes(FrameKind::Data, self.channel, &head, blob);
        let sent = self.frames.send(bytes).await;
        sent.map_err(|_| self.waiters.closed().unwrap_or(LinkError::Lost))
    }
}

impl FileReceiver {
    /// The next event. Can be cancelled without losing one.
    ///
    /// # Errors
    /// The connection was lost before the last event.
    pub async fn next(&mut self) -> Result<FileEvent, LinkError> {
        let lost = || self.waiters.closed().unwrap_or(LinkError::Confused);
        match self.events.next().await {
            Some(event) => Ok(event),
            None => Err(lost()),
        }
    }
}

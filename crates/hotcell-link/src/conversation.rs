//! A conversation with a supervisor, as the engine's end has it: content goes and comes piece by
//! piece, each way to its own end.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};

use crate::client::LinkError;
use crate::frame::{FrameKind, frame_bytes};
use crate::inflow::{Inflow, Piece};
use crate::message::{DATA_BYTES, DataHead, UPLOAD_WINDOW, data_cost};
use crate::waiters::Waiters;

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
pub struct Conversation<E> {
    /// Where content goes.
    pub sender: DataSender,
    /// Where content and what came of it come from.
    pub receiver: EventReceiver<E>,
}

/// Where content goes.
#[derive(Debug)]
pub struct DataSender {
    channel: u32,
    frames: mpsc::Sender<Vec<u8>>,
    waiters: Waiters,
    credit: UploadCredit,
}

/// Where content and what came of it come from. Dropped, the other end stops: what is not finished
/// is undone, and a connection is closed.
#[derive(Debug)]
pub struct EventReceiver<E> {
    events: Inflow<E>,
    waiters: Waiters,
}

impl<E: Piece> Conversation<E> {
    pub(crate) fn new(
        channel: u32,
        events: Inflow<E>,
        frames: mpsc::Sender<Vec<u8>>,
        waiters: Waiters,
        credit: UploadCredit,
    ) -> Self {
        let sender = DataSender { channel, frames, waiters: waiters.clone(), credit };
        Self { sender, receiver: EventReceiver { events, waiters } }
    }
}

impl DataSender {
    /// Sends content. It waits while the other end has not taken what was sent before; when that
    /// is no longer interested it returns at once, and the reason is the next event.
    ///
    /// # Errors
    /// The link was lost.
    pub async fn send(&self, content: &[u8]) -> Result<(), LinkError> {
        for piece in content.chunks(DATA_BYTES) {
            if !self.credit.take(data_cost(piece.len())).await {
                return Ok(());
            }
            self.send_frame(DataHead { last: false }, piece).await?;
        }
        Ok(())
    }

    /// Says that there is no more content; the other end may still send.
    ///
    /// # Errors
    /// The link was lost.
    pub async fn finish(&self) -> Result<(), LinkError> {
        self.send_frame(DataHead { last: true }, &[]).await
    }

    async fn send_frame(&self, head: DataHead, blob: &[u8]) -> Result<(), LinkError> {
        let bytes = frame_bytes(FrameKind::Data, self.channel, &head, blob);
        let sent = self.frames.send(bytes).await;
        sent.map_err(|_| self.waiters.closed().unwrap_or(LinkError::Lost))
    }
}

impl<E: Piece> EventReceiver<E> {
    /// The next event. Can be cancelled without losing one.
    ///
    /// # Errors
    /// The link was lost before the last event.
    pub async fn next(&mut self) -> Result<E, LinkError> {
        match self.events.next().await {
            Some(event) => Ok(event),
            None => Err(self.waiters.closed().unwrap_or(LinkError::Confused)),
        }
    }
}

//! A connection to a service in a cell, as the engine's end has it: bytes go and come, each way to
//! its own end.

use hotcell_model::Error;
use tokio::sync::mpsc;

use crate::client::LinkError;
use crate::files::UploadCredit;
use crate::frame::{FrameKind, frame_bytes};
use crate::inflow::{Inflow, Piece};
use crate::message::{DATA_BYTES, DataHead, data_cost};
use crate::waiters::Waiters;

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

/// A connection to a service: its two ends can be used at the same time.
#[derive(Debug)]
pub struct PortConnection {
    /// Where bytes for the service go.
    pub sender: PortSender,
    /// Where its bytes come from.
    pub receiver: PortReceiver,
}

/// Where bytes for the service go.
#[derive(Debug)]
pub struct PortSender {
    channel: u32,
    frames: mpsc::Sender<Vec<u8>>,
    waiters: Waiters,
    credit: UploadCredit,
}

/// Where the bytes of the service come from. Dropped, the connection is closed in the cell.
#[derive(Debug)]
pub struct PortReceiver {
    events: Inflow<PortEvent>,
    waiters: Waiters,
}

impl PortConnection {
    pub(crate) fn new(
        channel: u32,
        events: Inflow<PortEvent>,
        frames: mpsc::Sender<Vec<u8>>,
        waiters: Waiters,
        credit: UploadCredit,
    ) -> Self {
        let sender = PortSender { channel, frames, waiters: waiters.clone(), credit };
        Self { sender, receiver: PortReceiver { events, waiters } }
    }
}

impl PortSender {
    /// Sends bytes. It waits while the service has not taken what was sent before; when the
    /// connection is over it returns at once, and the reason is the next event.
    ///
    /// # Errors
    /// The link was lost.
    pub async fn send(&self, bytes: &[u8]) -> Result<(), LinkError> {
        for piece in bytes.chunks(DATA_BYTES) {
            if !self.credit.take(data_cost(piece.len())).await {
                return Ok(());
            }
            self.send_frame(DataHead { last: false }, piece).await?;
        }
        Ok(())
    }

    /// Says that there is nothing more for the service, which may still send.
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

impl PortReceiver {
    /// The next event. Can be cancelled without losing one.
    ///
    /// # Errors
    /// The link was lost before the last event.
    pub async fn next(&mut self) -> Result<PortEvent, LinkError> {
        match self.events.next().await {
            Some(event) => Ok(event),
            None => Err(self.waiters.closed().unwrap_or(LinkError::Confused)),
        }
    }
}

//! What comes in on one channel within a window, piece by piece.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::mpsc;

use crate::frame::{FrameKind, frame_bytes};
use crate::waiters::Waiters;

/// How many bytes may be under way on one channel.
pub(crate) const WINDOW: u32 = 512 * 1024;
/// What an end that counts otherwise than this one may have under way before it is cut off.
const MOST_UNDER_WAY: u32 = 2 * WINDOW;
/// So much of the window is given back at once.
const CREDIT_STEP: u32 = WINDOW / 2;
/// No piece counts less than 64 against the window; beyond it come the one that overdraws it and
/// the last.
const PIECES_UNDER_WAY: usize = (WINDOW / 64) as usize + 2;

/// Something that comes in.
pub trait Piece {
    /// What it counts against the window; `None` for the last piece.
    fn cost(&self) -> Option<u32>;
}

/// The receiving half. Dropped, the other end is told to stop.
#[derive(Debug)]
pub(crate) struct Inflow<P> {
    channel: u32,
    pieces: mpsc::Receiver<P>,
    frames: mpsc::Sender<Vec<u8>>,
    waiters: Waiters,
    /// What has come and was not taken yet, as it counts against the window.
    under_way: Arc<AtomicU32>,
    /// What was taken and not told to the other end yet.
    uncredited: u32,
}

/// The half that frames are handed to.
#[derive(Debug)]
pub(crate) struct InflowEnd<P> {
    pieces: mpsc::Sender<P>,
    under_way: Arc<AtomicU32>,
}

/// A receiving half before it has a channel.
pub(crate) struct Unbound<P> {
    pieces: mpsc::Receiver<P>,
    under_way: Arc<AtomicU32>,
}

/// Whether more is to come.
pub(crate) enum Taken {
    More,
    Last,
    /// The other end sent more than it may.
    Overrun,
}

/// Both halves.
pub(crate) fn inflow<P>() -> (Unbound<P>, InflowEnd<P>) {
    let (sender, pieces) = mpsc::channel(PIECES_UNDER_WAY);
    let under_way = Arc::new(AtomicU32::new(0));
    let end = InflowEnd { pieces: sender, under_way: Arc::clone(&under_way) };
    (Unbound { pieces, under_way }, end)
}

impl<P> Unbound<P> {
    /// The receiving half on its channel.
    pub(crate) fn on(
        self,
        channel: u32,
        frames: mpsc::Sender<Vec<u8>>,
        waiters: Waiters,
    ) -> Inflow<P> {
        let Self { pieces, under_way } = self;
        Inflow { channel, pieces, frames, waiters, under_way, uncredited: 0 }
    }
}

impl<P: Piece> Inflow<P> {
    /// The next piece; `None` when the connection was lost before the last. Can be cancelled
    /// without losing a piece.
    pub(crate) async fn next(&mut self) -> Option<P> {
        loop {
            let piece = if self.uncredited < CREDIT_STEP {
                self.pieces.recv().await?
            } else {
                // The queue was full. With the window used up nothing more would ever come.
                tokio::select! {
                    biased;
                    place = self.frames.reserve() => {
                        if let Ok(place) = place {
                            place.send(credit(self.channel, self.uncredited));
                        }
                        self.uncredited = 0;
                        continue;
                    }
                    piece = self.pieces.recv() => piece?,
                }
            };
            if let Some(cost) = piece.cost() {
                self.take(cost);
            }
            return Some(piece);
        }
    }

    fn take(&mut self, cost: u32) {
        self.under_way.fetch_sub(cost, Ordering::Relaxed);
        self.uncredited = self.uncredited.saturating_add(cost);
        if self.uncredited >= CREDIT_STEP
            && self.frames.try_send(credit(self.channel, self.uncredited)).is_ok()
        {
            self.uncredited = 0;
        }
    }
}

impl<P> Drop for Inflow<P> {
    fn drop(&mut self) {
        if self.waiters.remove(self.channel).is_some() {
            // With the queue full the supervisor stops by itself once its window is used up.
            let _ = self.frames.try_send(frame_bytes(FrameKind::Forget, self.channel, &(), &[]));
        }
    }
}

impl<P: Piece> InflowEnd<P> {
    /// Hands a piece over.
    pub(crate) fn take(&self, piece: P) -> Taken {
        let (cost, taken) = match piece.cost() {
            Some(cost) => (cost, Taken::More),
            None => (0, Taken::Last),
        };
        let before = self.under_way.fetch_add(cost, Ordering::Relaxed);
        if before.saturating_add(cost) > MOST_UNDER_WAY {
            return Taken::Overrun;
        }
        match self.pieces.try_send(piece) {
            // Closed: the receiver is being dropped, and says so itself.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => taken,
            Err(mpsc::error::TrySendError::Full(_)) => Taken::Overrun,
        }
    }
}

fn credit(channel: u32, taken: u32) -> Vec<u8> {
    frame_bytes(FrameKind::Credit, channel, &taken, &[])
}

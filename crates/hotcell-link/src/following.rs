//! The output of an exec, as the engine's end gets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hotcell_model::{ExecEnd, Record};
use tokio::sync::{mpsc, oneshot};

use crate::frame::{FrameKind, frame_bytes};
use crate::waiters::{FollowWaiter, Waiters};
use crate::{Tell, record_cost};

/// How many bytes of one followed output may be under way.
pub(crate) const WINDOW: u32 = 512 * 1024;
/// What an end that counts otherwise than this one may have under way before it is cut off.
pub(crate) const MOST_UNDER_WAY: u32 = 2 * WINDOW;
/// So much of the window is given back at once.
const CREDIT_STEP: u32 = WINDOW / 2;
/// No record counts less than 64 against the window; beyond it come the one that overdraws it and
/// the end.
const EVENTS_UNDER_WAY: usize = (WINDOW / 64) as usize + 2;

/// What comes of following an exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowEvent {
    /// Output.
    Record(Record),
    /// The end; nothing comes after it.
    Ended(ExecEnd),
}

/// The output of an exec as it comes. Dropped, the supervisor stops sending it.
#[derive(Debug)]
pub struct Following {
    channel: u32,
    events: mpsc::Receiver<FollowEvent>,
    frames: mpsc::Sender<Vec<u8>>,
    waiters: Waiters,
    /// What has come and was not taken yet, as it counts against the window.
    under_way: Arc<AtomicU32>,
    /// What was taken and not told to the other end yet.
    uncredited: u32,
}

/// A follower before it has a channel.
pub(crate) struct Prepared {
    events: mpsc::Receiver<FollowEvent>,
    under_way: Arc<AtomicU32>,
}

impl Prepared {
    /// Both halves of a follower.
    pub(crate) fn new(answer: oneshot::Sender<Tell>) -> (Self, FollowWaiter) {
        let (sender, events) = mpsc::channel(EVENTS_UNDER_WAY);
        let under_way = Arc::new(AtomicU32::new(0));
        let waiter = FollowWaiter {
            answer: Some(answer),
            events: sender,
            under_way: Arc::clone(&under_way),
        };
        (Self { events, under_way }, waiter)
    }

    /// The follower on its channel.
    pub(crate) fn on(
        self,
        channel: u32,
        frames: mpsc::Sender<Vec<u8>>,
        waiters: Waiters,
    ) -> Following {
        let Self { events, under_way } = self;
        Following { channel, events, frames, waiters, under_way, uncredited: 0 }
    }
}

impl Following {
    /// The next event; `None` when the connection was lost before the end. Can be cancelled
    /// without losing an event.
    pub async fn next(&mut self) -> Option<FollowEvent> {
        loop {
            let event = if self.uncredited < CREDIT_STEP {
                self.events.recv().await?
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
                    event = self.events.recv() => event?,
                }
            };
            if let FollowEvent::Record(record) = &event {
                self.take(record_cost(record.bytes.len()));
            }
            return Some(event);
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

impl Drop for Following {
    fn drop(&mut self) {
        if self.waiters.remove(self.channel).is_some() {
            // With the queue full the supervisor stops by itself once its window is used up.
            let _ = self.frames.try_send(frame_bytes(FrameKind::Forget, self.channel, &(), &[]));
        }
    }
}

fn credit(channel: u32, taken: u32) -> Vec<u8> {
    frame_bytes(FrameKind::Credit, channel, &taken, &[])
}

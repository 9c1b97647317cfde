//! Those who wait for something on a channel of the engine's end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};

use crate::client::LinkError;
use crate::following::{FollowEvent, MOST_UNDER_WAY};
use crate::{Tell, record_cost};

/// What is to come on a channel, and for whom.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// One answer.
    Answer(oneshot::Sender<Tell>),
    /// An answer, and after it the events of an exec.
    Follow(FollowWaiter),
    /// Nothing that could be understood; the other end does not know that yet.
    Broken,
}

/// The sending half of a [`crate::Following`].
#[derive(Debug)]
pub(crate) struct FollowWaiter {
    pub(crate) answer: Option<oneshot::Sender<Tell>>,
    pub(crate) events: mpsc::Sender<FollowEvent>,
    pub(crate) under_way: Arc<AtomicU32>,
}

#[derive(Debug, Default)]
struct Channels {
    waiters: HashMap<u32, Waiter>,
    last: u32,
    closed: Option<LinkError>,
}

/// All who wait on one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiters(Arc<Mutex<Channels>>);

impl Waiters {
    /// Adds one, on a channel of its own.
    pub(crate) fn add(&self, waiter: Waiter) -> Result<u32, LinkError> {
        let mut channels = self.lock();
        if let Some(reason) = &channels.closed {
            return Err(reason.clone());
        }
        // After four billion questions the numbers begin again, and some may still be in use.
        loop {
            channels.last = channels.last.wrapping_add(1);
            let channel = channels.last;
            if channel != 0 && !channels.waiters.contains_key(&channel) {
                channels.waiters.insert(channel, waiter);
                return Ok(channel);
            }
        }
    }

    /// Takes one away; `None` when it had all it waited for.
    pub(crate) fn remove(&self, channel: u32) -> Option<Waiter> {
        self.lock().waiters.remove(&channel)
    }

    /// Why nothing more will come, once that is so.
    pub(crate) fn closed(&self) -> Option<LinkError> {
        self.lock().closed.clone()
    }

    /// Ends every wait, now and later. The first reason stays.
    pub(crate) fn close(&self, reason: LinkError) {
        let mut channels = self.lock();
        channels.closed.get_or_insert(reason);
        channels.waiters.clear();
    }

    /// Hands over an answer.
    pub(crate) fn answer(&self, channel: u32, tell: Tell) {
        let mut channels = self.lock();
        let sender = match channels.waiters.remove(&channel) {
            Some(Waiter::Answer(sender)) => Some(sender),
            Some(Waiter::Follow(mut follow)) => {
                let sender = follow.answer.take();
                if !matches!(tell, Tell::Failed(_)) {
                    channels.waiters.insert(channel, Waiter::Follow(follow));
                }
                sender
            }
            Some(Waiter::Broken) => {
                channels.waiters.insert(channel, Waiter::Broken);
                None
            }
            None => None,
        };
        if let Some(sender) = sender {
            // The one who asked may have stopped waiting.
            let _ = sender.send(tell);
        }
    }

    /// Hands over an event.
    pub(crate) fn deliver(&self, channel: u32, event: FollowEvent) {
        let mut channels = self.lock();
        let Some(Waiter::Follow(follow)) = channels.waiters.get(&channel) else { return };
        match follow.take(event) {
            Taken::More => {}
            Taken::Last => {
                channels.waiters.remove(&channel);
            }
            // The follower sees the stream break and follows anew.
            Taken::Overrun => {
                channels.waiters.insert(channel, Waiter::Broken);
            }
        }
    }

    /// Ends one wait of which nothing more can be understood; the others go on.
    pub(crate) fn break_off(&self, channel: u32) {
        let mut channels = self.lock();
        if let Some(Waiter::Follow(_)) = channels.waiters.remove(&channel) {
            channels.waiters.insert(channel, Waiter::Broken);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Channels> {
        // A panic while the lock is held leaves a map that is still a map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Taken {
    More,
    Last,
    Overrun,
}

impl FollowWaiter {
    fn take(&self, event: FollowEvent) -> Taken {
        let (cost, taken) = match &event {
            FollowEvent::Record(record) => (record_cost(record.bytes.len()), Taken::More),
            FollowEvent::Ended(_) => (0, Taken::Last),
        };
        let before = self.under_way.fetch_add(cost, Ordering::Relaxed);
        if before.saturating_add(cost) > MOST_UNDER_WAY {
            return Taken::Overrun;
        }
        match self.events.try_send(event) {
            // Closed: the follower is being dropped, and says so itself.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => taken,
            Err(mpsc::error::TrySendError::Full(_)) => Taken::Overrun,
        }
    }
}

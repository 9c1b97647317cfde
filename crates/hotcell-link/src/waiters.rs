//! Those who wait for something on a channel of the engine's end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::Tell;
use crate::client::LinkError;
use crate::files::{FileEvent, UploadCredit};
use crate::following::FollowEvent;
use crate::inflow::{InflowEnd, Taken};

/// What is to come on a channel, and for whom.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// One answer.
    Answer(oneshot::Sender<Tell>),
    /// An answer, and after it the events of an exec.
    Follow(FollowWaiter),
    /// Content, and after it an answer.
    File(FileWaiter),
    /// Nothing that could be understood; the other end does not know that yet.
    Broken,
}

/// The sending half of a [`crate::Following`].
#[derive(Debug)]
pub(crate) struct FollowWaiter {
    pub(crate) answer: Option<oneshot::Sender<Tell>>,
    pub(crate) events: InflowEnd<FollowEvent>,
}

/// The sending half of a [`crate::FileConversation`].
#[derive(Debug)]
pub(crate) struct FileWaiter {
    pub(crate) events: InflowEnd<FileEvent>,
    pub(crate) credit: UploadCredit,
}

impl Drop for FileWaiter {
    /// Nobody takes what would still be sent.
    fn drop(&mut self) {
        self.credit.close();
    }
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
            Some(Waiter::File(file)) => {
                file.events.take(match tell {
                    Tell::File(result) => FileEvent::Done(result),
                    Tell::Failed(error) => FileEvent::Failed(error),
                    Tell::Done | Tell::Started(_) | Tell::Cancelled(_) | Tell::Stats(_) => return,
                });
                return;
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
        match follow.events.take(event) {
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

    /// Hands over content of files.
    pub(crate) fn deliver_data(&self, channel: u32, bytes: Vec<u8>) {
        let mut channels = self.lock();
        let Some(Waiter::File(file)) = channels.waiters.get(&channel) else { return };
        if let Taken::Overrun = file.events.take(FileEvent::Data(bytes)) {
            channels.waiters.insert(channel, Waiter::Broken);
        }
    }

    /// Lets more content be sent.
    pub(crate) fn add_credit(&self, channel: u32, bytes: u32) {
        if let Some(Waiter::File(file)) = self.lock().waiters.get(&channel) {
            file.credit.add(bytes);
        }
    }

    /// Ends one wait of which nothing more can be understood; the others go on.
    pub(crate) fn break_off(&self, channel: u32) {
        let mut channels = self.lock();
        if let Some(Waiter::Follow(_) | Waiter::File(_)) = channels.waiters.remove(&channel) {
            channels.waiters.insert(channel, Waiter::Broken);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Channels> {
        // A panic while the lock is held leaves a map that is still a map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Those who wait for something on a channel of the engine's end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::Tell;
use crate::client::LinkError;
use crate::conversation::UploadCredit;
use crate::files::FileEvent;
use crate::following::FollowEvent;
use crate::frame::Frame;
use crate::inflow::{InflowEnd, Taken};
use crate::message::DataHead;
use crate::peer::PeerError;
use crate::ports::PortEvent;

/// What is to come on a channel, and for whom.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// One answer.
    Answer(oneshot::Sender<Tell>),
    /// An answer, and after it the events of an exec.
    Follow(FollowWaiter),
    /// Content, and after it an answer.
    File(FileWaiter),
    /// An answer, after it bytes of a service, and at last another answer.
    Port(PortWaiter),
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

/// The sending half of a [`crate::PortConnection`].
#[derive(Debug)]
pub(crate) struct PortWaiter {
    pub(crate) answer: Option<oneshot::Sender<Tell>>,
    pub(crate) events: InflowEnd<PortEvent>,
    pub(crate) credit: UploadCredit,
}

impl Drop for PortWaiter {
    /// Nobody takes what would still be sent.
    fn drop(&mut self) {
        self.credit.close();
    }
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
                    Tell::Done
                    | Tell::Started(_)
                    | Tell::InputState(_)
                    | Tell::Cancelled(_)
                    | Tell::Stats(_) => return,
                });
                return;
            }
            Some(Waiter::Port(mut port)) => match port.answer.take() {
                Some(sender) => {
                    if !matches!(tell, Tell::Failed(_)) {
                        channels.waiters.insert(channel, Waiter::Port(port));
                    }
                    Some(sender)
                }
                None => {
                    port.events.take(match tell {
                        Tell::Failed(error) => PortEvent::Failed(error),
                        Tell::Done
                        | Tell::Started(_)
                        | Tell::InputState(_)
                        | Tell::Cancelled(_)
                        | Tell::Stats(_)
                        | Tell::File(_) => PortEvent::Closed,
                    });
                    return;
                }
            },
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

    /// Hands over content of files, or bytes of a service.
    pub(crate) fn deliver_data(&self, frame: Frame) -> Result<(), PeerError> {
        let mut channels = self.lock();
        let taken = match channels.waiters.get(&frame.channel) {
            Some(Waiter::File(file)) => file.events.take(FileEvent::Data(frame.blob)),
            Some(Waiter::Port(port)) => {
                let DataHead { last } = frame.head()?;
                let taken = match frame.blob.is_empty() {
                    true => Taken::More,
                    false => port.events.take(PortEvent::Data(frame.blob)),
                };
                match taken {
                    Taken::More if last => port.events.take(PortEvent::End),
                    taken @ (Taken::More | Taken::Last | Taken::Overrun) => taken,
                }
            }
            Some(Waiter::Answer(_) | Waiter::Follow(_) | Waiter::Broken) | None => return Ok(()),
        };
        if let Taken::Overrun = taken {
            channels.waiters.insert(frame.channel, Waiter::Broken);
        }
        Ok(())
    }

    /// Lets more content be sent.
    pub(crate) fn add_credit(&self, channel: u32, bytes: u32) {
        match self.lock().waiters.get(&channel) {
            Some(Waiter::File(file)) => file.credit.add(bytes),
            Some(Waiter::Port(port)) => port.credit.add(bytes),
            Some(Waiter::Answer(_) | Waiter::Follow(_) | Waiter::Broken) | None => {}
        }
    }

    /// Ends one wait of which nothing more can be understood; the others go on.
    pub(crate) fn break_off(&self, channel: u32) {
        let mut channels = self.lock();
        if let Some(Waiter::Follow(_) | Waiter::File(_) | Waiter::Port(_)) =
            channels.waiters.remove(&channel)
        {
            channels.waiters.insert(channel, Waiter::Broken);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Channels> {
        // A panic while the lock is held leaves a map that is still a map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

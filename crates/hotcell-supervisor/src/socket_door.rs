//! Sockets of the cell's network for the host's side, which carries what comes through them.
//!
//! Whoever can ask for them is outside: where it is asked has no path in the cell.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

use hotcell_jail::{Asking, make_socket};

use crate::event_loop::{Poller, SOCKETS};

/// Set in the tokens of those who ask.
pub(crate) const ASKER: u64 = 1 << 59;
/// Those who ask, at once: a carrier and one that is about to follow it need two each.
const MOST: usize = 16;

/// Where it is asked for sockets, and by whom.
#[derive(Debug, Default)]
pub(crate) struct SocketDoor {
    listener: Option<UnixListener>,
    askers: BTreeMap<u64, UnixStream>,
    next: u64,
}

impl SocketDoor {
    /// Takes those who ask from here on.
    pub(crate) fn listen(&mut self, listener: UnixListener, poller: &Poller) {
        poller.add(listener.as_fd(), SOCKETS);
        self.listener = Some(listener);
    }

    /// Takes those that connected. One too many is turned away.
    pub(crate) fn accept(&mut self, poller: &Poller) {
        let Some(listener) = &self.listener else { return };
        while let Ok((stream, _)) = listener.accept() {
            if self.askers.len() < MOST && stream.set_nonblocking(true).is_ok() {
                let token = ASKER | self.next;
                self.next += 1;
                poller.add(stream.as_fd(), token);
                self.askers.insert(token, stream);
            }
        }
    }

    /// Answers one question, or lets go of who asks no more.
    pub(crate) fn answer(&mut self, token: u64, poller: &Poller) {
        let Some(asker) = self.askers.get(&token) else { return };
        match make_socket(asker) {
            Ok(Asking::GoesOn) => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Ok(Asking::Over) | Err(_) => {
                poller.remove(asker.as_fd());
                self.askers.remove(&token);
            }
        }
    }
}

//! One engine process, or the keeper, at the other end of a link.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use hotcell_link::{Frame, Peer, PeerError};
use hotcell_model::ExecId;

use crate::following::Follower;

const READ_BYTES: usize = 64 * 1024;

/// A connection and what it asked for.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    pub(crate) peer: Peer,
    pub(crate) followers: HashMap<u32, Follower>,
    /// Execs that wait when this connection falls behind.
    pub(crate) paces: HashSet<ExecId>,
    /// Execs that wait for this connection to follow them.
    pub(crate) awaited: HashSet<ExecId>,
    pub(crate) holds: bool,
    pub(crate) watches: Option<u32>,
    pub(crate) awaits_room: bool,
    /// Channels, with their windows, on which it takes programs that call tools.
    pub(crate) accepts: VecDeque<(u32, u32)>,
    /// Whether it ever took any.
    pub(crate) takes_callers: bool,
}

/// Whether a connection is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Open,
    Closed,
}

impl Connection {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            peer: Peer::new(),
            followers: HashMap::new(),
            paces: HashSet::new(),
            awaited: HashSet::new(),
            holds: false,
            watches: None,
            awaits_room: false,
            accepts: VecDeque::new(),
            takes_callers: false,
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Takes what came; the frames in it are then to be had from [`Connection::next_frame`].
    pub(crate) fn read(&mut self) -> Standing {
        let mut buffer = [0; READ_BYTES];
        match self.stream.read(&mut buffer) {
            Ok(0) => Standing::Closed,
            Ok(length) => {
                self.peer.receive(&buffer[..length]);
                Standing::Open
            }
            Err(error) if is_temporary(&error) => Standing::Open,
            Err(_) => Standing::Closed,
        }
    }

    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, PeerError> {
        self.peer.next_frame()
    }

    /// Writes what the other end takes now.
    pub(crate) fn write(&mut self) -> Standing {
        while !self.peer.unsent().is_empty() {
            match self.stream.write(self.peer.unsent()) {
                Ok(length) => self.peer.mark_sent(length),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return Standing::Closed,
            }
        }
        Standing::Open
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

//! The keeper's own connection to the supervisor.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use hotcell_link::{Ask, DiskState, FrameKind, Peer};

/// A connection that tells when something runs in the cell, and is told what the cell has on disk.
#[derive(Debug)]
pub struct WatchLink {
    stream: UnixStream,
    peer: Peer,
}

impl WatchLink {
    /// Asks a supervisor to be told.
    ///
    /// # Errors
    /// It is gone.
    pub fn open(stream: UnixStream) -> io::Result<Self> {
        let mut link = Self { stream, peer: Peer::new() };
        link.peer.send(FrameKind::Ask, 1, &Ask::Watch);
        link.flush()?;
        Ok(link)
    }

    /// Whether something ran, by what has come from the supervisor.
    ///
    /// # Errors
    /// It is gone.
    pub fn take_activity(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => self.peer.receive(&buffer[..length]),
        }
        let mut active = false;
        while let Some(frame) = self.peer.next_frame().map_err(io::Error::other)? {
            active |= frame.kind == FrameKind::Activity;
        }
        Ok(active)
    }

    /// Tells what the cell has on disk.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn tell(&mut self, state: DiskState) -> io::Result<()> {
        self.peer.send(FrameKind::Ask, 2, &Ask::Disk(state));
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(self.peer.unsent())?;
        let sent = self.peer.unsent().len();
        self.peer.mark_sent(sent);
        Ok(())
    }
}

impl AsFd for WatchLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

//! Sockets of a cell's network namespace, opened by a process that is in it for one that is not.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hotcell_jail::{Asking, SocketKind, ask_for_socket, make_socket};

const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Opens sockets for whoever asks, until the other end is gone. To be called in the namespace.
///
/// # Errors
/// The other end broke off in the middle.
pub fn make_sockets(asked: &UnixStream) -> io::Result<()> {
    while make_socket(asked)? == Asking::GoesOn {}
    Ok(())
}

/// The other end of it.
#[derive(Debug)]
pub(crate) struct SocketMaker {
    stream: UnixStream,
    is_broken: AtomicBool,
}

impl SocketMaker {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        Ok(Self { stream, is_broken: AtomicBool::new(false) })
    }

    /// Whether an answer was missing or no answer. What comes later could be that of an earlier
    /// question, and a listener of one name must never carry to another: nothing is asked any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// A listener in the cell.
    pub(crate) fn listen(&self, address: Ipv4Addr, port: u16) -> io::Result<TcpListener> {
        self.ask(SocketKind::Streams, address, port).map(TcpListener::from)
    }

    /// A socket for datagrams in the cell.
    pub(crate) fn datagrams(&self, address: Ipv4Addr, port: u16) -> io::Result<UdpSocket> {
        self.ask(SocketKind::Datagrams, address, port).map(UdpSocket::from)
    }

    fn ask(&self, kind: SocketKind, address: Ipv4Addr, port: u16) -> io::Result<OwnedFd> {
        if self.is_broken() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let answered = ask_for_socket(&self.stream, kind, SocketAddrV4::new(address, port));
        if answered.is_err() {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        Ok(answered??)
    }
}

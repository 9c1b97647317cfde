//! Sockets of a cell's network namespace, opened by a process that is in it for one that is not.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hotcell_jail::{receive_fds, send_fds};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

const STREAMS: u8 = b's';
const DATAGRAMS: u8 = b'd';
const BACKLOG: i32 = 128;
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Opens sockets for whoever asks, until the other end is gone. To be called in the namespace.
///
/// # Errors
/// The other end broke off in the middle.
pub fn make_sockets(asked: &UnixStream) -> io::Result<()> {
    let mut request = [0; 7];
    loop {
        match receive_fds(asked, &mut request)? {
            (0, _) => return Ok(()),
            (7, _) => {}
            (_, _) => return Err(io::ErrorKind::InvalidData.into()),
        }
        let [kind, a, b, c, d, high, low] = request;
        let place = SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]));
        match open(kind, place) {
            Ok(socket) => send_fds(asked, &0_i32.to_be_bytes(), &[socket.as_fd()])?,
            Err(errno) => send_fds(asked, &errno.raw_os_error().to_be_bytes(), &[])?,
        }
    }
}

fn open(kind: u8, place: SocketAddrV4) -> rustix::io::Result<OwnedFd> {
    let is_stream = kind == STREAMS;
    let kind = if is_stream { SocketType::STREAM } else { SocketType::DGRAM };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, kind, flags, None)?;
    if is_stream {
        // What an earlier carrier had open must not keep this one out.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    bind(&socket, &place)?;
    if is_stream {
        listen(&socket, BACKLOG)?;
    }
    Ok(socket)
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
        self.ask(STREAMS, address, port).map(TcpListener::from)
    }

    /// A socket for datagrams in the cell.
    pub(crate) fn datagrams(&self, address: Ipv4Addr, port: u16) -> io::Result<UdpSocket> {
        self.ask(DATAGRAMS, address, port).map(UdpSocket::from)
    }

    fn ask(&self, kind: u8, address: Ipv4Addr, port: u16) -> io::Result<OwnedFd> {
        if self.is_broken() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let answered = self.exchange(kind, address, port);
        if answered.is_err() {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        answered?
    }

    /// Asks, and tells what was answered; an error where nothing was.
    fn exchange(&self, kind: u8, address: Ipv4Addr, port: u16) -> io::Result<io::Result<OwnedFd>> {
        let [a, b, c, d] = address.octets();
        let [high, low] = port.to_be_bytes();
        send_fds(&self.stream, &[kind, a, b, c, d, high, low], &[])?;
        let mut answer = [0; 4];
        let (count, mut fds) = receive_fds(&self.stream, &mut answer)?;
        match (count, i32::from_be_bytes(answer), fds.pop(), fds.is_empty()) {
            (4, 0, Some(socket), true) => Ok(Ok(socket)),
            (4, errno, None, _) if errno > 0 => Ok(Err(io::Error::from_raw_os_error(errno))),
            (_, _, _, _) => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

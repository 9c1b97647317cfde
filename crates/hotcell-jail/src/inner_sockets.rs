//! Sockets of a network namespace, opened by a process that is in it for one that is not.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::{self, Errno};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use crate::{receive_fds, send_fds};

const STREAMS: u8 = b's';
const DATAGRAMS: u8 = b'd';
const BACKLOG: i32 = 128;

/// What is asked for: a listener for streams, or a socket for datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketKind {
    /// A listener.
    Streams,
    /// A socket for datagrams.
    Datagrams,
}

/// Whether more may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// It may.
    GoesOn,
    /// The other end is gone.
    Over,
}

/// Answers one question. To be called in the namespace.
///
/// # Errors
/// The other end broke off in the middle, or asked for something else.
pub fn make_socket(asked: &UnixStream) -> io::Result<Asking> {
    let mut request = [0; 7];
    match receive_fds(asked, &mut request)? {
        (0, _) => return Ok(Asking::Over),
        (7, _) => {}
        (_, _) => return Err(Errno::PROTO),
    }
    let [kind, a, b, c, d, high, low] = request;
    let place = SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]));
    let kind = match kind {
        STREAMS => SocketKind::Streams,
        DATAGRAMS => SocketKind::Datagrams,
        _ => return Err(Errno::PROTO),
    };
    match open(kind, place) {
        Ok(socket) => send_fds(asked, &0_i32.to_be_bytes(), &[socket.as_fd()])?,
        Err(errno) => send_fds(asked, &errno.raw_os_error().to_be_bytes(), &[])?,
    }
    Ok(Asking::GoesOn)
}

fn open(kind: SocketKind, place: SocketAddrV4) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    match kind {
        SocketKind::Streams => {
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
            // What an earlier asker had open must not keep this one out.
            sockopt::set_socket_reuseaddr(&socket, true)?;
            bind(&socket, &place)?;
            listen(&socket, BACKLOG)?;
            Ok(socket)
        }
        SocketKind::Datagrams => {
            let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
            bind(&socket, &place)?;
            Ok(socket)
        }
    }
}

/// Asks for a socket and waits for the answer: the socket, or why it cannot be opened.
///
/// # Errors
/// There was no answer, or something that is none. What comes later may belong to this question.
pub fn ask_for_socket(
    asked: &UnixStream,
    kind: SocketKind,
    place: SocketAddrV4,
) -> io::Result<io::Result<OwnedFd>> {
    let kind = match kind {
        SocketKind::Streams => STREAMS,
        SocketKind::Datagrams => DATAGRAMS,
    };
    let [a, b, c, d] = place.ip().octets();
    let [high, low] = place.port().to_be_bytes();
    send_fds(asked, &[kind, a, b, c, d, high, low], &[])?;
    let mut answer = [0; 4];
    let (count, mut fds) = receive_fds(asked, &mut answer)?;
    match (count, i32::from_be_bytes(answer), fds.pop(), fds.is_empty()) {
        (4, 0, Some(socket), true) => Ok(Ok(socket)),
        (4, errno, None, _) if errno > 0 => Ok(Err(Errno::from_raw_os_error(errno))),
        (_, _, _, _) => Err(Errno::PROTO),
    }
}

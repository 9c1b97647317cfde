//! Handing descriptors to another process over a socket, and who is at its other end.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, PidfdFlags};

const MOST_FDS: usize = 64;

/// Sends bytes together with descriptors.
///
/// # Errors
/// The other end is gone.
pub fn send_fds(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Errno::TOOBIG);
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// Receives up to `bytes.len()` bytes and the descriptors that came with them; zero bytes when the
/// other end is gone.
///
/// # Errors
/// The socket broke.
pub fn receive_fds(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok((received.bytes, fds))
}

/// The process that connected a unix socket, held fast, and its number. Before Linux 6.5 it is the
/// process that has the number now.
///
/// # Errors
/// It is gone.
pub fn connected_by(socket: BorrowedFd<'_>) -> std::io::Result<(Pid, OwnedFd)> {
    /// `SO_PEERPIDFD`.
    const PEER_PIDFD: i32 = 77;
    let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
    ask_socket(socket, libc::SO_PEERCRED, &mut who)?;
    // One that is outside of the pid namespace of this process has no number.
    let pid = Pid::from_raw(who.pid).ok_or(std::io::ErrorKind::NotFound)?;
    let mut number: i32 = -1;
    match ask_socket(socket, PEER_PIDFD, &mut number) {
        // SAFETY: a new descriptor, which nobody else owns.
        Ok(()) => Ok((pid, unsafe { OwnedFd::from_raw_fd(number) })),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            Ok((pid, rustix::process::pidfd_open(pid, PidfdFlags::empty())?))
        }
        Err(error) => Err(error),
    }
}

/// What the kernel says of a socket, in a structure of numbers.
fn ask_socket<T>(socket: BorrowedFd<'_>, what: i32, told: &mut T) -> std::io::Result<()> {
    let mut length = std::mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, for which there is room.
    let asked = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            what,
            std::ptr::from_mut(told).cast(),
            &raw mut length,
        )
    };
    if asked == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Whether a process that is held fast has ended.
#[must_use]
pub fn has_ended(pidfd: BorrowedFd<'_>) -> bool {
    let mut looked = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    !matches!(rustix::event::poll(&mut looked, Some(&now)), Ok(0))
}

#[cfg(test)]
#[path = "fdpass_tests.rs"]
mod tests;

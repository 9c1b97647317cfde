//! Standard input and output without a thread in between, where the kernel lets us.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::pin::Pin;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

const PIPE_BYTES: usize = 256 * 1024;

pub(super) type Reader = Pin<Box<dyn AsyncRead + Send>>;
pub(super) type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// Both ends, each by the best way for what it is.
pub(super) fn open() -> io::Result<(Reader, Writer)> {
    Ok((reader(io::stdin().as_fd())?, writer(io::stdout().as_fd())?))
}

/// Whether the client has closed its end of standard input, even if not all of it is read.
pub(super) fn input_is_over() -> bool {
    let stdin = io::stdin();
    let over = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
    let mut watched = [PollFd::new(&stdin, over)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&at_once)).is_ok() && watched[0].revents().intersects(over)
}

fn reader(fd: BorrowedFd<'_>) -> io::Result<Reader> {
    let kind = kind(fd)?;
    if kind == FileType::Socket {
        return Ok(Box::pin(socket(fd)?));
    }
    // Opened anew: whether it blocks is a matter of the open file, which others share.
    if kind == FileType::Fifo
        && let Ok(receiver) = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0")
    {
        widen(receiver.as_fd());
        return Ok(Box::pin(receiver));
    }
    Ok(Box::pin(tokio::io::stdin()))
}

fn writer(fd: BorrowedFd<'_>) -> io::Result<Writer> {
    let kind = kind(fd)?;
    if kind == FileType::Socket {
        return Ok(Box::pin(socket(fd)?));
    }
    if kind == FileType::Fifo
        && let Ok(sender) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1")
    {
        widen(sender.as_fd());
        return Ok(Box::pin(sender));
    }
    Ok(Box::pin(tokio::io::stdout()))
}

/// Lets a pipe hold more, so that a long message is not passed on in as many turns. A user's pipes
/// may only have so much together: one that cannot be widened works as well.
fn widen(pipe: BorrowedFd<'_>) {
    if fcntl_getpipe_size(pipe).is_ok_and(|bytes| bytes < PIPE_BYTES) {
        let _ = fcntl_setpipe_size(pipe, PIPE_BYTES);
    }
}

fn kind(fd: BorrowedFd<'_>) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
}

/// Programs on Node give their children sockets.
fn socket(fd: BorrowedFd<'_>) -> io::Result<UnixStream> {
    let stream = BlockingStream::from(fd.try_clone_to_owned()?);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

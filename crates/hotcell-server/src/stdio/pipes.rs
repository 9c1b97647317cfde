//! Standard input and output without a thread in between, where the kernel lets us.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::pin::Pin;

use rustix::fs::{FileType, fstat};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

pub(super) type Reader = Pin<Box<dyn AsyncRead + Send>>;
pub(super) type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// Both ends, each by the best way for what it is.
pub(super) fn open() -> io::Result<(Reader, Writer)> {
    Ok((reader(io::stdin().as_fd())?, writer(io::stdout().as_fd())?))
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
        return Ok(Box::pin(sender));
    }
    Ok(Box::pin(tokio::io::stdout()))
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

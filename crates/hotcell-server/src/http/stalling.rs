//! A connection that breaks when its other end leaves what it is sent unread for too long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::client_stream::ClientStream;

/// A stream whose writes may stall only so long.
pub(super) struct Stalling {
    stream: Arc<ClientStream>,
    allowed: Duration,
    /// Runs since a write found no room.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Stalling {
    pub(super) fn new(stream: Arc<ClientStream>, allowed: Duration) -> Self {
        Self { stream, allowed, stalled: None }
    }

    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let allowed = self.allowed;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(allowed)));
        ready!(stalled.as_mut().poll(context));
        stalled.as_mut().reset(Instant::now() + allowed);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads no more")))
    }
}

/// Asks for room to be written to until there is some, or something else went wrong.
fn poll_write(
    stream: &ClientStream,
    context: &mut Context<'_>,
    write: impl Fn() -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(stream.poll_write_ready(context))?;
        match write() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            written => return Poll::Ready(written),
        }
    }
}

impl AsyncRead for Stalling {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            match self.stream.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(drop)),
            }
        }
    }
}

impl AsyncWrite for Stalling {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = poll_write(&self.stream, context, || self.stream.try_write(bytes));
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = poll_write(&self.stream, context, || self.stream.try_write_vectored(slices));
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match rustix::net::shutdown(&*self.stream, rustix::net::Shutdown::Write) {
            // The other end was quicker.
            Ok(()) | Err(rustix::io::Errno::NOTCONN) => Poll::Ready(Ok(())),
            Err(errno) => Poll::Ready(Err(errno.into())),
        }
    }
}

//! A connection to a port of a cell as a stream of bytes.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use hotcell_engine::PortStream;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::task::JoinSet;

const PIPE_BYTES: usize = 64 * 1024;

/// One end of a pipe whose other end is the service. It breaks where the connection does: what
/// breaks off must not be taken for all.
pub(super) struct Piped {
    stream: DuplexStream,
    broken: Arc<OnceLock<String>>,
}

/// Carries bytes to and from the service as long as the tasks are there.
pub(super) fn piped(service: PortStream, tasks: &mut JoinSet<()>) -> Piped {
    let (stream, mut other) = duplex(PIPE_BYTES);
    let broken = Arc::new(OnceLock::new());
    let why = Arc::clone(&broken);
    tasks.spawn(async move {
        if let Err(error) = service.carry(&mut other).await {
            tracing::debug!(%error, "a connection to a port of a cell broke");
            why.get_or_init(|| error.to_string());
        }
        // Only now does whoever reads see that nothing more comes.
        drop(other);
    });
    Piped { stream, broken }
}

impl AsyncRead for Piped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        match self.broken.get() {
            Some(why) if buffer.filled().len() == before => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, why.clone())))
            }
            Some(_) | None => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Piped {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

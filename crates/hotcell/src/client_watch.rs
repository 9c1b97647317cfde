//! Whether a client is still there, while nothing is read from it or written to it.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// How long a client may be silent before it is asked whether it is there.
const ASK_AFTER: Duration = Duration::from_secs(60);
const ASK_EVERY: Duration = Duration::from_secs(15);
/// So many questions are left without an answer.
const ASK_TIMES: u32 = 4;

/// Watches a connection for its breaking. That a client sends no more is none: it may wait for what
/// comes back.
#[derive(Debug)]
pub(crate) struct ClientWatch(TcpStream);

impl ClientWatch {
    /// Watches from now on.
    ///
    /// # Errors
    /// The connection is gone already, or there is no descriptor left.
    pub(crate) fn begin(stream: &TcpStream) -> io::Result<Self> {
        sockopt::set_tcp_keepidle(stream, ASK_AFTER)?;
        sockopt::set_tcp_keepintvl(stream, ASK_EVERY)?;
        sockopt::set_tcp_keepcnt(stream, ASK_TIMES)?;
        sockopt::set_socket_keepalive(stream, true)?;
        let same = stream.as_fd().try_clone_to_owned()?;
        Ok(Self(TcpStream::from_std(same.into())?))
    }

    /// Waits until the client is gone.
    pub(crate) async fn gone(&self) {
        // A connection that cannot be watched is as good as gone.
        let _ = self.0.ready(Interest::ERROR).await;
    }
}

//! Whether a client is still there, while nothing is read from it or written to it.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::client_stream::ClientStream;

/// How long a client may be silent before it is asked whether it is there.
const ASK_AFTER: Duration = Duration::from_secs(60);
const ASK_EVERY: Duration = Duration::from_secs(15);
/// So many questions are left without an answer.
const ASK_TIMES: u32 = 4;
/// How often it is looked whether the other end of a unix socket is there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Watches a connection for its breaking. That a client sends no more is none: it may wait for what
/// comes back.
#[derive(Debug)]
pub struct ClientWatch(Arc<ClientStream>);

impl ClientWatch {
    /// Watches from now on.
    ///
    /// # Errors
    /// The connection is gone already, or there is no descriptor left.
    pub fn begin(stream: &TcpStream) -> io::Result<Self> {
        let same = stream.as_fd().try_clone_to_owned()?;
        Self::on(Arc::new(ClientStream::Tcp(TcpStream::from_std(same.into())?)))
    }

    /// The same on a connection that is shared, without a descriptor more.
    ///
    /// # Errors
    /// The connection is gone already.
    pub(crate) fn on(stream: Arc<ClientStream>) -> io::Result<Self> {
        if let ClientStream::Tcp(stream) = &*stream {
            sockopt::set_tcp_keepidle(stream, ASK_AFTER)?;
            sockopt::set_tcp_keepintvl(stream, ASK_EVERY)?;
            sockopt::set_tcp_keepcnt(stream, ASK_TIMES)?;
            sockopt::set_socket_keepalive(stream, true)?;
        }
        Ok(Self(stream))
    }

    /// Waits until the client is gone.
    pub async fn gone(&self) {
        // A connection that cannot be watched is as good as gone.
        match &*self.0 {
            ClientStream::Tcp(_) => drop(self.0.ready(Interest::ERROR).await),
            // That its other end was closed is no error of a unix socket.
            ClientStream::Unix(_) => {
                while self.0.ready(Interest::WRITABLE).await.is_ok_and(|it| !it.is_write_closed()) {
                    sleep(LOOK_EVERY).await;
                }
            }
        }
    }
}

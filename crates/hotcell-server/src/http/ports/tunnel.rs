//! A connection whose protocol was changed, as websockets do: from then on bytes are passed on.

use std::sync::{Arc, Mutex, PoisonError};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio::task::JoinSet;

use crate::http::lease::Lease;

/// Both ends of it, and what carries bytes to the service.
pub(super) struct Tunnel {
    pub(super) client: OnUpgrade,
    pub(super) service: OnUpgrade,
    pub(super) tasks: JoinSet<()>,
    /// How long its caller may have it.
    pub(super) lease: Lease,
}

/// Where a request leaves a tunnel for whoever has its connection: that is how a tunnel counts as
/// a connection, and ends with the server.
#[derive(Clone, Default)]
pub(in crate::http) struct TunnelPlace(Arc<Mutex<Option<Tunnel>>>);

impl TunnelPlace {
    pub(super) fn put(&self, tunnel: Tunnel) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
    }

    /// Passes bytes on until both ends are done, if the connection became a tunnel.
    pub(in crate::http) async fn carry(&self) {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Tunnel { client, service, tasks: _tasks, lease }) = taken else { return };
        let (client, service) = match tokio::try_join!(client, service) {
            Ok(both) => both,
            Err(error) => return tracing::debug!(%error, "a protocol was not changed after all"),
        };
        let (mut client, mut service) = (TokioIo::new(client), TokioIo::new(service));
        tokio::select! {
            carried = copy_bidirectional(&mut client, &mut service) => match carried {
                Ok((sent, came)) => tracing::debug!(sent, came, "a tunnel to a cell ended"),
                Err(error) => tracing::debug!(%error, "a tunnel to a cell broke"),
            },
            () = lease.over() => tracing::debug!("the caller of a tunnel may have it no more"),
        }
    }
}

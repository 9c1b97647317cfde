//! What one connection to a server shares: whether it is over and why, and that the list changed.

use std::collections::HashSet;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hotcell_model::Error;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    ServerNotification,
};
use rmcp::transport::Transport;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A server that says more than this unasked in [`A_WHILE`] is cut off.
const MOST_UNASKED: u32 = 10_000;
const A_WHILE: Duration = Duration::from_secs(10);

/// The state of a connection.
#[derive(Debug, Default)]
pub(crate) struct Link {
    gone: CancellationToken,
    why: OnceLock<Error>,
    changes: Notify,
    oversized: Mutex<HashSet<RequestId>>,
    unasked: Mutex<Option<(Instant, u32)>>,
}

impl Link {
    /// Ends the connection. The first reason counts.
    pub(crate) fn cut(&self, why: Error) {
        // Whoever is woken by the token finds the reason there.
        let _ = self.why.set(why);
        self.gone.cancel();
    }

    /// The connection has ended by itself.
    pub(crate) fn end(&self) {
        self.gone.cancel();
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Why it was cut, if it was.
    pub(crate) fn why(&self) -> Option<Error> {
        self.why.get().cloned()
    }

    /// Waits for the server to say that its list changed; many words count as one.
    pub(crate) async fn list_changed(&self) {
        self.changes.notified().await;
    }

    /// The answer to a request was thrown away for its length.
    pub(crate) fn note_oversized(&self, id: RequestId) {
        self.oversized.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    pub(crate) fn take_oversized(&self, id: &RequestId) -> bool {
        self.oversized.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }

    /// Counts something that nobody asked for.
    pub(crate) fn count_unasked(&self) {
        let mut unasked = self.unasked.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = unasked.get_or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() > A_WHILE {
            (*since, *count) = (Instant::now(), 0);
        }
        *count += 1;
        if *count > MOST_UNASKED {
            self.cut(Error::limit_exceeded(format!(
                "it was cut off: it said more than {MOST_UNASKED} things within {} s that nobody \
                 asked for",
                A_WHILE.as_secs()
            )));
        }
    }
}

/// A transport that passes on what a client that calls tools has use for.
pub(crate) struct Watched<T> {
    inner: T,
    link: Arc<Link>,
    /// The question for the newest protocol, until it is given up and the older one is tried. A server
    /// that starts slowly answers both, and the first answer is then nothing to anybody.
    probe: Option<RequestId>,
    given_up: Option<RequestId>,
}

impl<T> Watched<T> {
    pub(crate) fn new(inner: T, link: Arc<Link>) -> Self {
        Self { inner, link, probe: None, given_up: None }
    }

    fn note_sent(&mut self, message: &ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(asked) = message else { return };
        if let ClientRequest::DiscoverRequest(_) = &asked.request {
            self.probe = Some(asked.id.clone());
        }
        if let ClientRequest::InitializeRequest(_) = &asked.request {
            self.given_up = self.probe.take();
        }
    }

    /// Whether a message is to be passed on.
    fn is_wanted(&self, message: &ServerJsonRpcMessage) -> bool {
        match message {
            JsonRpcMessage::Response(answer) => self.given_up.as_ref() != Some(&answer.id),
            JsonRpcMessage::Error(error) => {
                self.given_up.is_none() || error.id.is_none() || self.given_up != error.id
            }
            JsonRpcMessage::Request(_) => {
                self.link.count_unasked();
                true
            }
            JsonRpcMessage::Notification(told) => {
                self.link.count_unasked();
                if let ServerNotification::ToolListChangedNotification(_) = &told.notification {
                    self.link.changes.notify_one();
                }
                matches!(
                    &told.notification,
                    ServerNotification::SubscriptionsAcknowledgedNotification(_)
                        | ServerNotification::CancelledNotification(_)
                )
            }
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.note_sent(&message);
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let received = tokio::select! {
                biased;
                () = self.link.gone() => None,
                received = self.inner.receive() => received,
            };
            match received {
                Some(message) if self.is_wanted(&message) => return Some(message),
                Some(_) => {}
                None => {
                    self.link.end();
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.link.end();
        self.inner.close().await
    }
}

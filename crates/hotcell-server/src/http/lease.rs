//! How long somebody who was let in stays so: a token that is revoked, or over, ends what is open.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hotcell_model::{Timestamp, TokenId, TokenStore};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// What decides how long somebody is let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Term {
    /// As long as the server is there.
    Lasting,
    /// As long as this token is one.
    Token(TokenId),
    /// Until then.
    Until(Timestamp),
}

/// That somebody was let in, for one request and what it opens.
#[derive(Debug, Clone)]
pub(super) struct Lease(Arc<Held>);

#[derive(Debug)]
struct Held {
    term: Term,
    over: CancellationToken,
}

impl Lease {
    pub(super) fn term(&self) -> &Term {
        &self.0.term
    }

    /// Whether it is over.
    pub(super) fn is_over(&self) -> bool {
        self.0.over.is_cancelled()
    }

    /// Waits until it is over.
    pub(super) async fn over(&self) {
        self.0.over.cancelled().await;
    }

    /// Cuts a body off when it is over. What is whole already goes out as it is.
    pub(super) fn guard(&self, body: Body) -> Body {
        if self.0.term == Term::Lasting || body.size_hint().exact().is_some() {
            return body;
        }
        let over = Box::pin(self.0.over.clone().cancelled_owned());
        Body::new(Guarded { body, over, _lease: self.clone() })
    }
}

/// Those leases that may end before the server does.
#[derive(Debug, Default)]
pub(super) struct Leases(Mutex<Vec<Weak<Held>>>);

impl Leases {
    pub(super) fn grant(&self, term: Term) -> Lease {
        let lasts = term == Term::Lasting;
        let held = Arc::new(Held { term, over: CancellationToken::new() });
        if !lasts {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(Arc::downgrade(&held));
        }
        Lease(held)
    }

    fn all(&self) -> Vec<Arc<Held>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|held| held.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }

    /// Ends those of one term.
    pub(super) fn end(&self, term: &Term) {
        for held in self.all().iter().filter(|held| held.term == *term) {
            held.over.cancel();
        }
    }

    /// Ends those whose time is over.
    pub(super) fn look(&self, tokens: Option<&dyn TokenStore>, now: Timestamp) {
        let all = self.all();
        let mut live: HashMap<&TokenId, bool> = HashMap::new();
        for held in &all {
            let lasts = match &held.term {
                Term::Lasting => true,
                Term::Until(end) => *end > now,
                Term::Token(id) => *live.entry(id).or_insert_with(|| is_live(tokens, id)),
            };
            if !lasts {
                held.over.cancel();
            }
        }
    }
}

/// Whether a token still opens the door. What cannot be found out does not.
pub(super) fn is_live(tokens: Option<&dyn TokenStore>, id: &TokenId) -> bool {
    tokens.is_some_and(|tokens| {
        tokens.is_live(id).unwrap_or_else(|error| {
            tracing::warn!(%error, "it cannot be found out whether a token is revoked");
            false
        })
    })
}

/// A body that breaks off when a lease is over.
struct Guarded {
    body: Body,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    _lease: Lease,
}

impl HttpBody for Guarded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.over.as_mut().poll(context).is_ready() {
            let over = std::io::Error::other("the caller's token is revoked or over");
            return Poll::Ready(Some(Err(axum::Error::new(over))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! The MCP endpoints of callers: made when one first calls, given up when nobody needs them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::response::Response;
use hotcell_model::{Error, Tenant};
use http::Request;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::access::{Access, Admitted, KnownBy};
use super::answer::Shape;
use super::lease::Term;
use super::mcp_endpoint::McpEndpoint;
use super::settings::HttpLimits;
use crate::door::Door;

/// Of all sessions a caller of whom there may be many has one part in so many.
const SHARE: usize = 4;

/// Whose an endpoint is. Another token of the same name is somebody else: sessions end with the
/// token that opened them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Owner {
    tenant: Tenant,
    principal: String,
    token: Option<String>,
}

struct Entry {
    endpoint: Arc<McpEndpoint>,
    term: Term,
    used: Instant,
}

/// All of them.
pub(super) struct Endpoints {
    door: Door,
    limits: HttpLimits,
    streams_end: CancellationToken,
    entries: Mutex<HashMap<Owner, Entry>>,
}

impl Endpoints {
    pub(super) fn new(door: &Door, limits: HttpLimits, streams_end: CancellationToken) -> Self {
        Self { door: door.clone(), limits, streams_end, entries: Mutex::default() }
    }

    /// Answers a request of a caller.
    pub(super) async fn answer(&self, admitted: &Admitted, request: Request<Body>) -> Response {
        match self.of(admitted) {
            Ok(endpoint) => endpoint.answer(request, &admitted.room, self).await,
            Err(error) => Shape::JsonRpc.refuse(error.into()),
        }
    }

    /// How many sessions there are.
    pub(super) async fn session_count(&self) -> usize {
        let endpoints: Vec<Arc<McpEndpoint>> =
            self.with(|entries| entries.values().map(|it| Arc::clone(&it.endpoint)).collect());
        let mut sessions = 0;
        for endpoint in endpoints {
            sessions += endpoint.session_count().await;
        }
        sessions
    }

    /// The endpoint of a caller.
    fn of(&self, admitted: &Admitted) -> Result<Arc<McpEndpoint>, Error> {
        let term = admitted.lease.term();
        let owner = Owner {
            tenant: admitted.caller.tenant.clone(),
            principal: admitted.caller.principal.clone(),
            token: match term {
                Term::Token(id) => Some(id.to_string()),
                Term::Lasting | Term::Until(_) => None,
            },
        };
        let now = Instant::now();
        self.with(|entries| {
            if let Some(entry) = entries.get_mut(&owner) {
                entry.used = now;
                return Ok(Arc::clone(&entry.endpoint));
            }
            if entries.len() >= self.limits.callers && !give_up_one(entries) {
                return Err(Error::limit_exceeded(format!(
                    "{} callers have sessions or calls under way",
                    entries.len()
                ))
                .hint("try again when some have ended"));
            }
            let sessions = match admitted.known_by {
                KnownBy::Settings => self.limits.sessions,
                KnownBy::Token => (self.limits.sessions / SHARE).max(1),
            };
            let limits = HttpLimits { sessions, ..self.limits };
            let end = self.streams_end.child_token();
            let endpoint = Arc::new(McpEndpoint::new(&self.door, &admitted.caller, limits, end));
            let entry = Entry { endpoint: Arc::clone(&endpoint), term: term.clone(), used: now };
            entries.insert(owner, entry);
            Ok(endpoint)
        })
    }

    /// Whether there is room for another session at all.
    pub(super) async fn has_room(&self) -> bool {
        self.session_count().await < self.limits.sessions
    }

    /// Ends the sessions of tokens that are revoked or over, and gives up what nobody needs.
    pub(super) async fn look(&self, access: &Access) {
        let idle = self.limits.caller_idle;
        let over = self.with(|entries| {
            entries.retain(|_, it| !(it.is_unused() && it.used.elapsed() > idle));
            let is_over = |_: &Owner, it: &mut Entry| !access.is_live(&it.term);
            entries.extract_if(is_over).map(|(_, it)| it).collect::<Vec<_>>()
        });
        for Entry { endpoint, term, .. } in over {
            // First: whoever waits there is told why, not that something broke.
            access.end(&term);
            endpoint.close().await;
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut HashMap<Owner, Entry>) -> T) -> T {
        change(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Entry {
    /// Whether nobody waits for it and no session is open.
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.endpoint) == 1 && self.endpoint.is_without_sessions()
    }
}

/// Gives up the one that was not used for longest; whether there was one.
fn give_up_one(entries: &mut HashMap<Owner, Entry>) -> bool {
    let unused = entries.iter().filter(|(_, it)| it.is_unused());
    let oldest = unused.min_by_key(|(_, it)| it.used).map(|(owner, _)| owner.clone());
    oldest.is_some_and(|owner| entries.remove(&owner).is_some())
}

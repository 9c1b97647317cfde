//! `/mcp` for one principal: MCP over streamable HTTP, in revisions with sessions and without.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::response::Response;
use hotcell_model::{Caller, Error};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::Full;
use rmcp::ErrorData;
use rmcp::model::{ProtocolVersion, RequestId};
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::answer::{Refusal, Shape, rpc};
use super::body;
use super::body_room::BodyRoom;
use super::endpoints::Endpoints;
use super::held::Held;
use super::rpc_shape::{self, Message};
use super::settings::HttpLimits;
use crate::door::Door;
use crate::mcp::McpHandler;

const SESSION: &str = "mcp-session-id";
/// The first revision has another transport over HTTP.
const REVISIONS: &[ProtocolVersion] = ProtocolVersion::KNOWN_VERSIONS.split_at(1).1;

/// The endpoint of one principal. Sessions live in it: another principal cannot reach them.
pub(super) struct McpEndpoint {
    transport: StreamableHttpService<McpHandler, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    under_way: UnderWay,
    limits: HttpLimits,
    /// Cuts what is open.
    end: CancellationToken,
}

/// Requests of sessions that are not answered yet.
#[derive(Debug, Clone, Default)]
struct UnderWay(Arc<Mutex<HashSet<(String, RequestId)>>>);

/// One of them; over when it is dropped.
#[derive(Debug)]
struct Awaited {
    all: UnderWay,
    key: (String, RequestId),
}

impl UnderWay {
    /// Notes a request; `None` when one with its id is under way.
    fn begin(&self, session: &str, id: &RequestId) -> Option<Awaited> {
        let key = (session.to_owned(), id.clone());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(key.clone()).then(|| Awaited { all: self.clone(), key })
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

impl McpEndpoint {
    /// The endpoint for a caller. `end` cuts what is still open in the end.
    pub(super) fn new(
        door: &Door,
        caller: &Caller,
        limits: HttpLimits,
        end: CancellationToken,
    ) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(limits.session_idle);
        let sessions = Arc::new(sessions);
        // Hosts and origins are checked for every path alike, before this.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_json_response(true)
            .with_max_request_body_bytes(limits.body_bytes)
            .with_cancellation_token(end.clone());
        let (door, caller) = (door.clone(), caller.clone());
        let handler = move || Ok(McpHandler::new(door.clone(), caller.clone(), REVISIONS));
        let transport = StreamableHttpService::new(handler, Arc::clone(&sessions), config);
        Self { transport, sessions, under_way: UnderWay::default(), limits, end }
    }

    /// How many sessions there are.
    pub(super) async fn session_count(&self) -> usize {
        self.sessions.sessions.read().await.len()
    }

    /// Whether there is none, as far as that is known without waiting.
    pub(super) fn is_without_sessions(&self) -> bool {
        self.sessions.sessions.try_read().is_ok_and(|sessions| sessions.is_empty())
    }

    /// Ends its sessions and all that is open.
    pub(super) async fn close(&self) {
        self.end.cancel();
        let open: Vec<_> = self.sessions.sessions.read().await.keys().cloned().collect();
        for session in open {
            if let Err(error) = self.sessions.close_session(&session).await {
                tracing::debug!(%error, "a session was over already");
            }
        }
    }

    /// Answers a request; `all` are the endpoints that this is one of.
    pub(super) async fn answer(
        &self,
        request: Request<Body>,
        room: &BodyRoom,
        all: &Endpoints,
    ) -> Response {
        match *request.method() {
            Method::POST => {
                let (parts, body) = request.into_parts();
                match body::read(body, room, &self.limits).await {
                    Ok(body) => self.post(Request::from_parts(parts, body), all).await,
                    Err(refusal) if refusal.status == StatusCode::PAYLOAD_TOO_LARGE => {
                        let error = ErrorData::invalid_request(refusal.error.message, None);
                        rpc(refusal.status, error, None)
                    }
                    Err(refusal) => Shape::JsonRpc.refuse(refusal),
                }
            }
            Method::DELETE => {
                let mut response = self.pass_on(request).await;
                if response.status() == StatusCode::ACCEPTED {
                    // Clients take only this or 200 for the end of their session.
                    *response.status_mut() = StatusCode::NO_CONTENT;
                }
                response
            }
            _ => self.pass_on(request).await,
        }
    }

    async fn post(&self, request: Request<bytes::Bytes>, all: &Endpoints) -> Response {
        let message = match rpc_shape::read(request.body()) {
            Ok(message) => message,
            Err(malformed) => return rpc(StatusCode::BAD_REQUEST, malformed.error, malformed.id),
        };
        let Message::Request { id, method } = message else {
            return self.pass_on(request.map(Full::new)).await;
        };
        if method == "initialize" {
            let own = self.session_count().await;
            if own >= self.limits.sessions || !all.has_room().await {
                let error = Error::limit_exceeded(format!("there are {own} sessions"))
                    .hint("end some of them, or raise http.max_sessions");
                return Shape::JsonRpc.refuse(Refusal::from(error));
            }
        }
        let Some(session) = session(request.headers()) else {
            return self.pass_on(request.map(Full::new)).await;
        };
        let Some(awaited) = self.under_way.begin(session, &id) else {
            let message = format!("request {id} is under way already");
            let error = ErrorData::invalid_request(message, None);
            return rpc(StatusCode::BAD_REQUEST, error, None);
        };
        self.pass_on(request.map(Full::new)).await.map(|body| Body::new(Held::new(body, awaited)))
    }

    async fn pass_on<B>(&self, request: Request<B>) -> Response
    where
        B: http_body::Body + Send + 'static,
        B::Error: std::fmt::Display,
    {
        self.transport.handle(request).await.map(Body::new)
    }
}

fn session(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION)?.to_str().ok()
}

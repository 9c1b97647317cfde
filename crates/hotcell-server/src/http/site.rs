//! What is done for every request: who asks, from where, and how it went.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use hotcell_model::{Caller, Error};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::access::{Access, Admitted, PeerUid};
use super::answer::{Refusal, Shape};
use super::challenge::{Strangers, Unknown, described, insufficient, lacking};
use super::endpoints::Endpoints;
use super::held::Held;
use super::ports::lead_to_path;
use super::routes::{self, Parts};
use super::settings::{HttpLimits, HttpSettings};
use super::visitors::Visitors;
use crate::call_id::{CallId, REQUEST_ID, STATUS};
use crate::door::Door;
use crate::metrics::Metrics;

const SHARED_METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE");
const SHARED_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, \
     mcp-method, mcp-name, x-request-id, range, if-range, if-match, if-none-match",
);
const SHOWN_HEADERS: HeaderValue = HeaderValue::from_static(
    "mcp-session-id, x-request-id, etag, accept-ranges, content-range, content-disposition, \
     www-authenticate",
);
const SHARED_SECONDS: HeaderValue = HeaderValue::from_static("600");
/// How soon a token that is revoked or over ends what is open.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The server as every connection sees it.
pub(super) struct Site {
    visitors: Visitors,
    access: Access,
    strangers: Strangers,
    router: Router,
    mcp_path: String,
    parts: Arc<Parts>,
    /// Requests that will be answered in full, sooner or later.
    pub(super) under_way: TaskTracker,
    /// Done when streams without an end are cut, and nothing new is begun.
    pub(super) streams_end: CancellationToken,
}

impl Site {
    /// The server at this address.
    pub(super) fn new(bound: IpAddr, door: &Door, settings: HttpSettings) -> Self {
        let HttpSettings { access, allowed_hosts, allowed_origins, mcp_path, limits, .. } =
            settings;
        let streams_end = CancellationToken::new();
        let parts = Arc::new(Parts {
            door: door.clone(),
            limits,
            endpoints: Endpoints::new(door, limits, streams_end.clone()),
            own: door.own_caller(),
        });
        Self {
            visitors: Visitors::new(bound, &allowed_hosts, &allowed_origins),
            access: Access::new(access),
            strangers: Strangers::default(),
            router: routes::router(Arc::clone(&parts)),
            mcp_path,
            parts,
            under_way: TaskTracker::new(),
            streams_end,
        }
    }

    /// The server itself, where it asks on its own behalf.
    pub(super) fn own_caller(&self) -> &Caller {
        &self.parts.own
    }

    /// Whether a user of this machine may call over a socket.
    pub(super) fn knows(&self, peer: PeerUid) -> bool {
        self.access.knows(peer)
    }

    /// Ends what is open for those who may not call any more, for as long as the server is there.
    pub(super) async fn watch(self: Arc<Self>) {
        loop {
            sleep(LOOK_EVERY).await;
            self.access.look();
            self.parts.endpoints.look(&self.access).await;
            self.metrics().in_session(self.parts.endpoints.session_count().await);
            self.access.note_uses().await;
        }
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.parts.door.metrics
    }

    pub(super) fn limits(&self) -> &HttpLimits {
        &self.parts.limits
    }

    /// Answers a request, and says in the log and the metrics how that went.
    pub(super) async fn answer(&self, mut request: Request<Body>) -> Response {
        lead_to_path(&mut request);
        if request.uri().path() == self.mcp_path {
            routes::lead_to_mcp(&mut request);
        }
        let id = CallId::of(request.headers());
        let method = request.method().clone();
        // A client chooses both.
        let logged = CallId::named(self.parts.door.redacted(id.as_str()));
        let span = tracing::error_span!(
            "request",
            request_id = %logged,
            %method,
            path = self.parts.door.redacted(request.uri().path()),
            principal = Empty,
            cell = Empty,
            exec_id = Empty,
            status = Empty,
        );
        request.extensions_mut().insert(logged);
        // The parent of what is done for the request elsewhere.
        request.extensions_mut().insert(span.clone());
        let shared_with = self.visitors.shared_with(request.headers()).cloned();
        async {
            let began = Instant::now();
            let mut response = Box::pin(self.admit(request)).await;
            let status = response.status();
            self.metrics().answered(&method, status);
            tracing::info!(status = status.as_u16(), ms = began.elapsed().as_millis(), "answered");
            Span::current().record(STATUS, status.as_u16());
            let headers = response.headers_mut();
            if let Ok(id) = HeaderValue::from_str(id.as_str()) {
                headers.insert(REQUEST_ID, id);
            }
            if let Some(origin) = shared_with {
                share(headers, origin);
            }
            response
        }
        .instrument(span)
        .await
    }

    async fn admit(&self, request: Request<Body>) -> Response {
        let path = request.uri().path();
        let shape = Shape::of_path(path);
        if routes::is_probe(path) {
            return self.route(request).await;
        }
        let peer = request.extensions().get::<PeerUid>().copied();
        // No page of a browser reaches a unix socket, and it has no name that could be bent.
        if peer.is_none()
            && let Err(error) = self.visitors.check(&request)
        {
            return self.refuse(shape, error.into());
        }
        if is_preflight(&request) {
            return preflight();
        }
        if let Some(described) = described(path, request.headers(), self.access.oidc()) {
            return described;
        }
        let mut admitted = match self.access.admit(request.headers(), peer).await {
            Ok(admitted) => admitted,
            Err(unknown) => return self.turn_away(&unknown, &request),
        };
        if self.streams_end.is_cancelled() {
            return shape.refuse(Error::unavailable("the server is about to end").into());
        }
        let id = request.extensions().get::<CallId>().map(ToString::to_string);
        admitted.caller.call_id = id;
        Span::current().record("principal", &admitted.caller.principal);
        let needs = routes::needs(path);
        if !needs.is_empty() && !needs.iter().any(|scope| admitted.caller.may(*scope)) {
            let mut response = self.refuse(shape, lacking(needs));
            let oidc = self.access.oidc();
            insufficient(response.headers_mut(), request.headers(), oidc, needs);
            return response;
        }
        self.answer_admitted(admitted, request).await
    }

    /// Answers somebody who was let in, for as long as that holds.
    async fn answer_admitted(&self, admitted: Admitted, mut request: Request<Body>) -> Response {
        let path = request.uri().path();
        let shape = Shape::of_path(path);
        let is_endless = path == routes::MCP && request.method() == Method::GET;
        let under_way = (!is_endless).then(|| self.under_way.token());
        let asked = self.access.oidc().map(|_| request.headers().clone()).unwrap_or_default();
        request.extensions_mut().insert(admitted.caller.clone());
        request.extensions_mut().insert(admitted.clone());
        let answered = tokio::select! {
            biased;
            () = admitted.lease.over() => None,
            response = self.route(request) => Some(response),
        };
        // What is cut together with the lease answers anything; its caller is told why.
        let Some(mut response) = answered.filter(|_| !admitted.lease.is_over()) else {
            // What was begun goes on, as for any client that goes away.
            let unknown = Unknown::wrong("it is over");
            let mut response = self.refuse(shape, unknown.refusal());
            unknown.challenge(response.headers_mut(), &asked, self.access.oidc());
            return response;
        };
        if let Some(scope) = admitted.lacked()
            && response.status() == StatusCode::FORBIDDEN
        {
            insufficient(response.headers_mut(), &asked, self.access.oidc(), &[scope]);
        }
        response.map(|body| Body::new(Held::new(admitted.lease.guard(body), under_way)))
    }

    /// A refusal by the number that the dialect has for it.
    fn refuse(&self, shape: Shape, refusal: Refusal) -> Response {
        let usual = refusal.error.code.json_rpc();
        let number = self.parts.door.dialect.refusal_number(refusal.status.as_u16(), usual);
        shape.refuse_by(refusal, number)
    }

    /// Answers somebody who was not let in.
    fn turn_away(&self, unknown: &Unknown, request: &Request<Body>) -> Response {
        self.strangers.note(unknown);
        if *unknown != Unknown::WithoutToken {
            self.metrics().stranger();
        }
        let shape = Shape::of_path(request.uri().path());
        let mut response = self.refuse(shape, unknown.refusal());
        unknown.challenge(response.headers_mut(), request.headers(), self.access.oidc());
        response
    }

    async fn route(&self, request: Request<Body>) -> Response {
        match self.router.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// Whether a browser asks what a page may ask.
fn is_preflight(request: &Request<Body>) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Lets the pages of an origin read the answer.
fn share(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, SHARED_METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, SHARED_HEADERS);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, SHOWN_HEADERS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, SHARED_SECONDS);
    headers.append(VARY, HeaderValue::from_static("origin"));
}

//! Which path leads where.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::response::Response;
use axum::routing::{any, get};
use hotcell_model::{Caller, Error, Scope};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};

use super::access::Admitted;
use super::answer::{Refusal, Shape};
use super::endpoints::Endpoints;
use super::ports;
use super::probes;
use super::settings::HttpLimits;
use super::v1;
use crate::door::Door;

/// Where MCP is spoken.
pub(super) const MCP: &str = "/mcp";
const HEALTH: &str = "/health";
const READY: &str = "/ready";
const METRICS: &str = "/metrics";
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// What the routes work on.
pub(super) struct Parts {
    pub(super) door: Door,
    pub(super) limits: HttpLimits,
    /// One for each caller.
    pub(super) endpoints: Endpoints,
    /// On whose behalf the server itself asks.
    pub(super) own: Caller,
}

pub(super) type Server = State<Arc<Parts>>;

/// Whether a path is for whatever watches over the server: that has neither a name to call it by
/// nor a token.
pub(super) fn is_probe(path: &str) -> bool {
    [HEALTH, READY].contains(&path)
}

/// Gives a request the path at which MCP is spoken.
pub(super) fn lead_to_mcp(request: &mut Request<Body>) {
    *request.uri_mut() = http::Uri::from_static(MCP);
}

/// What a caller needs one of to ask for a path at all; what else it needs depends on what it asks.
pub(super) fn needs(path: &str) -> &'static [Scope] {
    match path {
        MCP => &[Scope::Read, Scope::Run],
        METRICS => &[Scope::Metrics],
        _ => &[],
    }
}

/// Every path there is.
pub(super) fn router(parts: Arc<Parts>) -> Router {
    Router::new()
        .route(MCP, any(mcp))
        .route(HEALTH, get(async || probes::health()))
        .route(
            READY,
            get(async |State(parts): Server| probes::ready(&parts.door, &parts.own).await),
        )
        .route(METRICS, get(metrics))
        .merge(ports::router())
        .merge(v1::router())
        .fallback(nowhere)
        .method_not_allowed_fallback(wrong_method)
        .with_state(parts)
}

async fn mcp(
    State(parts): Server,
    Extension(admitted): Extension<Admitted>,
    request: Request<Body>,
) -> Response {
    parts.endpoints.answer(&admitted, request).await
}

async fn metrics(State(parts): Server, Extension(admitted): Extension<Admitted>) -> Response {
    parts.door.metrics.in_session(parts.endpoints.session_count().await);
    match parts.door.metrics.look(&parts.door, &admitted.caller).await {
        Ok(shown) => {
            let mut response = Response::new(Body::from(shown));
            response.headers_mut().insert(CONTENT_TYPE, OPEN_METRICS);
            response
        }
        Err(error) => Shape::Plain.refuse(error.into()),
    }
}

async fn nowhere(State(parts): Server, request: Request<Body>) -> Response {
    let path = request.uri().path();
    let error = Error::not_found(format!("there is nothing at {path:?}"))
        .hint("there are /mcp, /v1, /cells/{cell}/ports/{port}/, /health, /ready and /metrics");
    Shape::of_path(path).refuse(parts.door.covered(error).into())
}

async fn wrong_method(request: Request<Body>) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    let error = Error::invalid(format!("{path} does not take {method}"));
    Shape::of_path(path).refuse(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, error))
}

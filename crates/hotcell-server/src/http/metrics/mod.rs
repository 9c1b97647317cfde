//! `/metrics`: what happened and how things stand, for Prometheus.

mod exec_ends;

use axum::body::Body;
use axum::response::Response;
use hotcell_model::{CellList, Error, Result};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::Mutex;

use self::exec_ends::ExecEnds;
use super::answer::Shape;
use super::routes::Parts;
use crate::door::Door;

const TEXT: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Standing {
    driver: String,
    state: &'static str,
}

/// Everything that is counted. Labels are of closed sets: their number does not grow with use.
///
/// What this server does is counted as it happens. Cells and execs are shared with other processes
/// on the state directory: they are looked at when somebody asks.
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    connections: Gauge,
    calls: Gauge,
    sessions: Gauge,
    cells: Family<Standing, Gauge>,
    /// One look at a time.
    execs: Mutex<ExecEnds>,
}

impl Metrics {
    /// Nothing has happened yet.
    pub(super) fn new(door: &Door) -> Self {
        let mut registry = Registry::with_prefix("hotcell");
        let (requests, cells) = (Family::default(), Family::default());
        let (connections, calls, sessions) = (Gauge::default(), Gauge::default(), Gauge::default());
        registry.register("http_requests", "Requests that were answered", requests.clone());
        registry.register("http_connections", "Connections that are open", connections.clone());
        registry.register("mcp_sessions", "Sessions of MCP that are open", sessions.clone());
        registry.register("calls_active", "Calls of the engine under way", calls.clone());
        let refusals = door.meter.refusals.clone();
        registry.register("calls_rejected", "Calls that were answered with an error", refusals);
        registry.register("cells", "Cells by driver and state", cells.clone());
        let execs = Mutex::new(ExecEnds::new(&mut registry));
        Self { registry, requests, connections, calls, sessions, cells, execs }
    }

    /// Counts a request.
    pub(super) fn answered(&self, method: &Method, status: StatusCode) {
        let method = match *method {
            Method::GET => "GET",
            Method::POST => "POST",
            Method::DELETE => "DELETE",
            Method::OPTIONS => "OPTIONS",
            _ => "other",
        };
        let status = match status.as_u16() / 100 {
            1 => "1xx",
            2 => "2xx",
            3 => "3xx",
            4 => "4xx",
            _ => "5xx",
        };
        self.requests.get_or_create(&Answered { method, status }).inc();
    }

    /// Notes how many connections there are.
    pub(super) fn connected(&self, connections: usize) {
        self.connections.set(whole(connections));
    }

    /// Looks at how things stand, and shows everything.
    pub(super) async fn show(&self, parts: &Parts) -> Response {
        match self.look(parts).await {
            Ok(shown) => {
                let mut response = Response::new(Body::from(shown));
                response.headers_mut().insert(CONTENT_TYPE, TEXT);
                response
            }
            Err(error) => Shape::Plain.refuse(error.into()),
        }
    }

    async fn look(&self, parts: &Parts) -> Result<String> {
        let mut execs = self.execs.lock().await;
        execs.look(&parts.door, &parts.own).await?;
        let listed = parts.door.ask(&parts.own, CellList { include_stopped: true }).await?;
        self.cells.clear();
        for cell in listed.cells {
            let standing = Standing { driver: cell.driver, state: cell.state.as_str() };
            self.cells.get_or_create(&standing).inc();
        }
        let mut sessions = 0;
        for endpoint in &parts.endpoints {
            sessions += endpoint.session_count().await;
        }
        self.sessions.set(whole(sessions));
        self.calls.set(whole(parts.door.meter.under_way()));
        let mut shown = String::new();
        text::encode(&mut shown, &self.registry)
            .map_err(|error| Error::internal(format!("the metrics cannot be encoded: {error}")))?;
        Ok(shown)
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

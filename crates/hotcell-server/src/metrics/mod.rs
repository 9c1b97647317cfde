//! What happened and how things stand, for Prometheus.

mod code_runs;
mod exec_ends;
mod pool;

use std::collections::HashMap;
use std::fmt;

use hotcell_model::{Caller, CellList, Error, Reach, Result, Role, Tenant, Timestamp};
use http::{Method, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::Mutex;

use self::code_runs::CodeRuns;
use self::exec_ends::ExecEnds;
use self::pool::PoolMetrics;
use crate::call_meter::{CallMeter, Operation, Refused};
use crate::door::Door;

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
/// What this server does is counted as it happens, and shown to callers of the tenant whose server
/// it is. Cells and execs are shared with other processes on the state directory: they are looked
/// at when somebody asks, and each caller is shown those of its tenant.
pub(crate) struct Metrics {
    began: Timestamp,
    requests: Family<Answered, Counter>,
    connections: Gauge,
    calls: Gauge,
    sessions: Gauge,
    strangers: Counter,
    refusals: Family<Refused, Counter>,
    operations: Family<Operation, Counter>,
    pool: PoolMetrics,
    /// What each kind of caller sees. One look at a time.
    views: Mutex<HashMap<View, Shown>>,
}

/// What of the whole a caller sees.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum View {
    /// Everything: whoever answers for the server.
    Whole,
    /// The cells and execs of a tenant; with the figures of the server itself if it is theirs.
    Tenant(Tenant),
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("began", &self.began).finish_non_exhaustive()
    }
}

/// The figures of one view.
struct Shown {
    registry: Registry,
    cells: Family<Standing, Gauge>,
    execs: ExecEnds,
    code: CodeRuns,
}

impl Metrics {
    /// Nothing has happened yet.
    pub(crate) fn new(meter: &CallMeter) -> Self {
        Self {
            began: Timestamp::now(),
            requests: Family::default(),
            connections: Gauge::default(),
            calls: Gauge::default(),
            sessions: Gauge::default(),
            strangers: Counter::default(),
            refusals: meter.refusals.clone(),
            operations: meter.operations.clone(),
            pool: PoolMetrics::default(),
            views: Mutex::default(),
        }
    }

    /// The figures of a view at its first look.
    fn begin(&self, view: &View, home: &Tenant) -> Shown {
        let mut registry = Registry::with_prefix("hotcell");
        let sees_server = match view {
            View::Whole => true,
            View::Tenant(tenant) => tenant == home,
        };
        if sees_server {
            self.register_server(&mut registry);
        }
        let cells = Family::default();
        registry.register("cells", "Cells by driver and state", cells.clone());
        let execs = ExecEnds::new(&mut registry, self.began);
        let code = CodeRuns::new(&mut registry);
        Shown { registry, cells, execs, code }
    }

    fn register_server(&self, registry: &mut Registry) {
        let requests = self.requests.clone();
        registry.register("http_requests", "Requests that were answered", requests);
        let connections = self.connections.clone();
        registry.register("http_connections", "Connections that are open", connections);
        let sessions = self.sessions.clone();
        registry.register("mcp_sessions", "Sessions of MCP that are open", sessions);
        registry.register("calls_active", "Calls of the engine under way", self.calls.clone());
        let about = "Requests whose token did not open the server";
        registry.register("auth_failures", about, self.strangers.clone());
        let refusals = self.refusals.clone();
        registry.register("calls_rejected", "Calls that were answered with an error", refusals);
        let operations = self.operations.clone();
        registry.register("operations", "Operations of the engine that were answered", operations);
        self.pool.register(registry);
    }

    /// Counts a request.
    pub(crate) fn answered(&self, method: &Method, status: StatusCode) {
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

    /// Counts a caller who was not let in with what it brought.
    pub(crate) fn stranger(&self) {
        self.strangers.inc();
    }

    /// Notes how many connections there are.
    pub(crate) fn connected(&self, connections: usize) {
        self.connections.set(whole(connections));
    }

    /// Notes how many sessions there are.
    pub(crate) fn in_session(&self, sessions: usize) {
        self.sessions.set(whole(sessions));
    }

    /// Looks at how things stand, and tells what the caller may see of it, as text.
    pub(crate) async fn look(&self, door: &Door, caller: &Caller) -> Result<String> {
        let (home, server) = (&door.home, door.own_caller());
        let answers_for_it = match caller.role {
            Role::Operator | Role::Auditor => caller.tenant == *home,
            Role::Agent => false,
        };
        let (view, own) = match answers_for_it {
            true => (View::Whole, server),
            false => {
                let own = Caller { reach: Reach::Own, ..server };
                (View::Tenant(caller.tenant.clone()), own.in_tenant(caller.tenant.clone()))
            }
        };
        let mut views = self.views.lock().await;
        let shown = views.entry(view.clone()).or_insert_with(|| self.begin(&view, home));
        shown.execs.look(door, &own).await?;
        shown.code.look(door, &own).await?;
        let listed = door.ask(&own, CellList { include_stopped: true }).await?;
        shown.cells.clear();
        for cell in listed.cells {
            let standing = Standing { driver: cell.driver, state: cell.state.as_str() };
            shown.cells.get_or_create(&standing).inc();
        }
        self.calls.set(whole(door.meter.under_way()));
        self.pool.look(door);
        let mut text = String::new();
        text::encode(&mut text, &shown.registry)
            .map_err(|error| Error::internal(format!("the metrics cannot be encoded: {error}")))?;
        Ok(text)
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

//! The id by which the lines of the log that concern one call are found.

use std::fmt;

use hotcell_model::{Caller, CellId, Exec, ExecId, Reply};
use http::HeaderMap;
use http::header::HeaderName;
use rmcp::RoleServer;
use rmcp::model::{Extensions, RequestId};
use rmcp::service::RequestContext;
use tracing::Span;
use tracing::field::Empty;

/// The header that carries it, both ways.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST: usize = 64;

/// What a call is named in the log.
#[derive(Debug, Clone)]
pub(crate) struct CallId(String);

impl CallId {
    /// The id that the client chose, if it is one; else a fresh one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let plain = |text: &&str| {
            (1..=LONGEST).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b))
        };
        let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(plain);
        Self(given.map_or_else(fresh, str::to_owned))
    }

    /// One of this name.
    pub(crate) fn named(name: String) -> Self {
        Self(name)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn fresh() -> String {
    // Without randomness the log is worse, and nothing else.
    format!("{:016x}", getrandom::u64().unwrap_or_default())
}

/// What a call came to: `ok`, or the code of its error; of a request over HTTP its status.
pub(crate) const STATUS: &str = "status";
pub(crate) const OK: &str = "ok";
pub(crate) const TOOL: &str = "tool";
const CELL: &str = "cell";
const EXEC: &str = "exec_id";

/// What the log says around everything that concerns a call, and what is traced of it. It is there
/// at every level of the log that says anything.
pub(crate) fn span(context: &RequestContext<RoleServer>, caller: &Caller, method: &str) -> Span {
    span_within(&context.extensions, &context.id, caller, method)
}

/// The same for whatever else came as a message; `id` is its name where it did not come over HTTP.
pub(crate) fn span_within(
    extensions: &Extensions,
    id: &RequestId,
    caller: &Caller,
    method: &str,
) -> Span {
    let over_http = extensions.get::<http::request::Parts>().map(|parts| &parts.extensions);
    let request = over_http.and_then(|extensions| extensions.get::<Span>());
    let id = match over_http.and_then(|extensions| extensions.get::<CallId>()) {
        Some(id) => id.to_string(),
        None => id.to_string(),
    };
    tracing::error_span!(
        parent: request.and_then(Span::id),
        "call",
        request_id = id,
        method,
        tool = Empty,
        principal = caller.principal,
        cell = Empty,
        exec_id = Empty,
        client_name = Empty,
        session_id = Empty,
        status = Empty,
    )
}

/// On whose behalf a request is made: of whoever sent it, where that is known for each; else of
/// whoever is there all the time.
pub(crate) fn caller(extensions: &Extensions, id: &RequestId, usual: &Caller) -> Caller {
    let over_http = extensions.get::<http::request::Parts>().map(|parts| &parts.extensions);
    match over_http.and_then(|extensions| extensions.get::<Caller>()) {
        Some(caller) => caller.clone(),
        None => Caller { call_id: Some(id.to_string()), ..usual.clone() },
    }
}

/// Notes what the call that is under way came to.
pub(crate) fn note_status(status: &str) {
    Span::current().record(STATUS, status);
}

/// Notes who a client says it is.
pub(crate) fn note_client(name: Option<&str>, session: Option<&str>) {
    for (field, said) in [("client_name", name), ("session_id", session)] {
        if let Some(said) = said {
            let said: String = said.chars().take(LONGEST).collect();
            Span::current().record(field, said);
        }
    }
}

/// Notes which cell the call that is under way is about.
pub(crate) fn note_cell(cell: &CellId) {
    Span::current().record(CELL, cell.as_str());
}

/// Notes which exec the call that is under way is about.
pub(crate) fn note_exec_id(exec: &ExecId) {
    Span::current().record(EXEC, exec.as_str());
}

/// Notes an exec with its cell.
pub(crate) fn note_exec(exec: &Exec) {
    note_cell(&exec.cell);
    note_exec_id(&exec.id);
}

/// Notes what a reply is about.
pub(crate) fn note_reply(reply: &Reply) {
    match reply {
        Reply::Cell(cell) => note_cell(&cell.id),
        Reply::CellDetails(details) => note_cell(&details.cell.id),
        Reply::CellKilled(killed) => note_cell(&killed.cell),
        Reply::Volume(volume) => note_cell(&volume.cell),
        Reply::ExecResult(result) => note_exec(&result.exec),
        Reply::Exec(exec) => note_exec(exec),
        Reply::ExecPage(page) => note_exec(&page.exec),
        Reply::InputAccepted(accepted) => note_exec_id(&accepted.exec),
        Reply::ExecCancelled(cancelled) => note_exec_id(&cancelled.exec),
        Reply::Checkpoint(checkpoint) => note_cell(&checkpoint.cell),
        Reply::Approvals(_)
        | Reply::Asked(_)
        | Reply::Cells(_)
        | Reply::Volumes(_)
        | Reply::Reconciled(_)
        | Reply::Collected(_)
        | Reply::Checkpoints(_)
        | Reply::CheckpointDiff(_)
        | Reply::NetworkState(_)
        | Reply::NetRecords(_)
        | Reply::ProjectChanges(_)
        | Reply::ProjectApplied(_)
        | Reply::ProjectDiscarded(_)
        | Reply::Execs(_)
        | Reply::PolicyVerdict(_)
        | Reply::FileDone(_)
        | Reply::Secret(_)
        | Reply::Secrets(_)
        | Reply::Image(_)
        | Reply::Images(_)
        | Reply::TokenCreated(_)
        | Reply::Tokens(_)
        | Reply::Token(_)
        | Reply::AuditPage(_)
        | Reply::LedgerSummary(_)
        | Reply::CodeFigures(_)
        | Reply::ToolRan(_)
        | Reply::ToolsFound(_)
        | Reply::NamesFound(_)
        | Reply::ToolsListed(_)
        | Reply::Diagnoses(_)
        | Reply::Probed(_) => {}
    }
}

/// Where the caller of a tool reaches the server over HTTP: under the name that it used itself,
/// which was checked before.
pub(crate) fn site(context: &RequestContext<RoleServer>) -> Option<String> {
    let parts = context.extensions.get::<http::request::Parts>()?;
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let scheme = match text("x-forwarded-proto") {
        Some("https") => "https",
        Some(_) | None => "http",
    };
    Some(format!("{scheme}://{}", text("host")?))
}

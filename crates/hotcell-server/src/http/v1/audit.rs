//! `/v1/audit`.

use hotcell_model::{
    AuditPage, AuditQuery, AuditSummary, CellRef, EntryKind, ExecId, LedgerSummary, Tenant,
    Timestamp, Verdict,
};
use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;

use super::table::{Operation, Shown, reference, whole};
use super::{Answer, Call, ok};

/// Which entries of the ledger.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadLedger {
    /// Only entries written at that time or later.
    since: Option<Timestamp>,
    /// Only entries written before that time.
    until: Option<Timestamp>,
    /// Only about this cell.
    cell: Option<CellRef>,
    /// Only about this exec.
    exec: Option<ExecId>,
    /// Only on behalf of this principal.
    principal: Option<String>,
    /// Only with this verdict.
    verdict: Option<Verdict>,
    /// Only of this kind.
    kind: Option<EntryKind>,
    /// Only with this outcome.
    outcome: Option<String>,
    /// Only of this call.
    call: Option<String>,
    /// Only of this tenant; those of others do not exist for the caller.
    tenant: Option<Tenant>,
    /// How many at most; the newest ones.
    #[serde(default = "entries")]
    limit: u32,
}

fn entries() -> u32 {
    100
}

/// What is summed up.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SumUpLedger {
    /// Only entries written at that time or later.
    since: Option<Timestamp>,
    /// Only entries written before that time.
    until: Option<Timestamp>,
}

pub(super) const AUDIT_OPERATIONS: &[Operation] = &[
    Operation {
        method: Method::GET,
        path: "/v1/audit",
        name: "readLedger",
        about: "Read entries of the ledger, the newest ones, the oldest of them first. Needs the scope \
                audit.",
        query: Some(whole::<ReadLedger>),
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<AuditPage>),
        answer: |call| Box::pin(read(call)),
    },
    Operation {
        method: Method::GET,
        path: "/v1/audit/summary",
        name: "summarizeLedger",
        about: "Tell what was refused, by which rules, and what stands out. Needs the scope audit.",
        query: Some(whole::<SumUpLedger>),
        body: None,
        statuses: &[200],
        shown: Shown::Json(reference::<LedgerSummary>),
        answer: |call| Box::pin(sum_up(call)),
    },
];

async fn read(call: Call) -> Answer {
    let asked: ReadLedger = call.query()?;
    let query = AuditQuery {
        after: None,
        since: asked.since,
        until: asked.until,
        cell: asked.cell,
        exec: asked.exec,
        principal: asked.principal,
        tenant: asked.tenant,
        verdict: asked.verdict,
        kind: asked.kind,
        outcome: asked.outcome,
        call_id: asked.call,
        limit: asked.limit,
    };
    ok(&call.ask(query).await?)
}

async fn sum_up(call: Call) -> Answer {
    let SumUpLedger { since, until } = call.query()?;
    ok(&call.ask(AuditSummary { since, until, tenant: None }).await?)
}

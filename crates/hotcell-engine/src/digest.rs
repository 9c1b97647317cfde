//! The digest by which the arguments of a call stand in the ledger.

use hotcell_model::{ExecRun, Ledger, Request, Result};
use serde::Serialize;

/// The digest of what a request asks for. The value of a secret is no part of it: the ledger must
/// not help to find out what that is.
pub(crate) fn of(ledger: &dyn Ledger, request: &Request) -> Result<String> {
    let name = request.name();
    let put = |arguments: Vec<u8>| ledger.digest(&[name.as_bytes(), &arguments]);
    match request {
        Request::ExecRun(it) => of_run(ledger, it),
        Request::FileCall(it) => {
            let asked = json(&(&it.cell, &it.op));
            ledger.digest(&[name.as_bytes(), &asked, &it.content])
        }
        Request::FileStream(it) => put(json(&(&it.cell, &it.op))),
        Request::SecretSet(it) => put(json(&it.name)),
        Request::SecretRemove(it) => put(json(&it.name)),
        Request::ExecInput(it) => {
            let asked = json(&(&it.exec, it.eof, it.signal, it.size));
            ledger.digest(&[name.as_bytes(), &asked, &it.data])
        }
        Request::CellSpawn(it) => put(json(it)),
        Request::CellList(it) => put(json(it)),
        Request::CellInfo(it) => put(json(it)),
        Request::CellKill(it) => put(json(it)),
        Request::CellAdopt(it) => put(json(it)),
        Request::CheckpointCreate(it) => put(json(it)),
        Request::CheckpointList(it) => put(json(it)),
        Request::CheckpointCompare(it) => put(json(it)),
        Request::CheckpointRestore(it) => put(json(it)),
        Request::CheckpointDelete(it) => put(json(it)),
        Request::CellFork(it) => put(json(it)),
        Request::NetShow(it) => put(json(it)),
        Request::NetChange(it) => put(json(it)),
        Request::NetLog(it) => put(json(it)),
        Request::ProjectDiff(it) => put(json(it)),
        Request::ProjectApply(it) => put(json(it)),
        Request::ProjectDiscard(it) => put(json(it)),
        Request::ExecWait(it) => put(json(it)),
        Request::ExecGet(it) => put(json(it)),
        Request::ExecPoll(it) => put(json(it)),
        Request::ExecCancel(it) => put(json(it)),
        Request::ExecList(it) => put(json(it)),
        Request::ExecFollow(it) => put(json(it)),
        Request::PortDial(it) => put(json(it)),
        Request::AuditQuery(it) => put(json(it)),
        Request::AuditVerify(it) => put(json(it)),
        Request::AuditSummary(it) => put(json(it)),
        Request::PolicyCheck(it) => put(json(it)),
        Request::ApprovalList(it) => put(json(it)),
        Request::ApprovalGive(it) => put(json(it)),
        Request::TokenCreate(it) => put(json(it)),
        Request::TokensList(it) => put(json(it)),
        Request::TokenRevoke(it) => put(json(it)),
        Request::Diagnose(it) => put(json(it)),
        Request::Probe(it) => put(json(it)),
        Request::SecretsList(_) => put(Vec::new()),
    }
}

/// The digest of what is run: the same for the same command, whatever the cell and the exec.
pub(crate) fn of_run(ledger: &dyn Ledger, run: &ExecRun) -> Result<String> {
    let asked = json(&(&run.command, &run.cwd, &run.env, &run.stdin, run.as_root));
    ledger.digest(&[b"exec_run", &asked])
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Our own types with string keys: serialising cannot fail.
    serde_json::to_vec(value).unwrap_or_default()
}

//! The digest by which the arguments of a call stand in the ledger.

use hotcell_model::{Caller, ExecRun, Ledger, Request, Result};
use serde::Serialize;

/// The digest of what a request asks for. The value of a secret is no part of it: the ledger must
/// not help to find out what that is.
pub(crate) fn of(ledger: &dyn Ledger, request: &Request) -> Result<String> {
    if let Request::ExecRun(run) = request {
        return of_run(ledger, run);
    }
    let (name, arguments) = (request.name().as_bytes(), arguments(request));
    match content(request) {
        Some(content) => ledger.digest(&[name, &arguments, content]),
        None => ledger.digest(&[name, &arguments]),
    }
}

/// The digest of all that a request asks for and of who asks, secrets included: two requests have
/// the same one only if they are the same. It is no part of the ledger.
pub(crate) fn of_whole(ledger: &dyn Ledger, caller: &Caller, request: &Request) -> Result<String> {
    let value = if let Request::SecretSet(it) = request {
        it.value.expose().as_bytes()
    } else {
        content(request).unwrap_or_default()
    };
    let who = (caller.tenant.as_str().as_bytes(), caller.principal.as_bytes());
    let name = request.name().as_bytes();
    ledger.digest(&[b"held", who.0, who.1, name, &arguments(request), value])
}

/// The bytes that a request brings along.
fn content(request: &Request) -> Option<&[u8]> {
    if let Request::FileCall(it) = request {
        return Some(&it.content);
    }
    if let Request::ExecInput(it) = request {
        return Some(&it.data);
    }
    None
}

/// What a request asks for as JSON, without the bytes that it brings along and without the value of
/// a secret.
pub(crate) fn arguments(request: &Request) -> Vec<u8> {
    match request {
        Request::FileCall(it) => json(&(&it.cell, &it.op)),
        Request::FileStream(it) => json(&(&it.cell, &it.op)),
        Request::SecretSet(it) => json(&it.name),
        Request::SecretRemove(it) => json(&it.name),
        Request::ExecInput(it) if it.keys.is_empty() => {
            json(&(&it.exec, it.eof, it.signal, it.size))
        }
        Request::ExecInput(it) => json(&(&it.exec, it.eof, it.signal, it.size, &it.keys)),
        Request::SecretsList(_) => Vec::new(),
        Request::ImageImport(it) => json(it),
        Request::ImagePull(it) => json(it),
        Request::ImagesList(it) => json(it),
        Request::ImageRemove(it) => json(it),
        Request::ExecRun(it) => json(it),
        Request::CellSpawn(it) => json(it),
        Request::CellList(it) => json(it),
        Request::CellInfo(it) => json(it),
        Request::CellKill(it) => json(it),
        Request::CellAttach(it) => json(it),
        Request::VolumesList(it) => json(it),
        Request::VolumeRestore(it) => json(it),
        Request::VolumeRemove(it) => json(it),
        Request::Reconcile(it) => json(it),
        Request::Collect(it) => json(it),
        Request::CellAdopt(it) => json(it),
        Request::CheckpointCreate(it) => json(it),
        Request::CheckpointList(it) => json(it),
        Request::CheckpointCompare(it) => json(it),
        Request::CheckpointRestore(it) => json(it),
        Request::CheckpointDelete(it) => json(it),
        Request::CellFork(it) => json(it),
        Request::NetShow(it) => json(it),
        Request::NetChange(it) => json(it),
        Request::NetLog(it) => json(it),
        Request::ProjectDiff(it) => json(it),
        Request::ProjectApply(it) => json(it),
        Request::ProjectDiscard(it) => json(it),
        Request::ExecWait(it) => json(it),
        Request::ToolRun(it) => json(it),
        Request::ToolSearch(it) => json(it),
        Request::ToolNames(it) => json(it),
        Request::ToolList(it) => json(it),
        Request::ExecGet(it) => json(it),
        Request::ExecPoll(it) => json(it),
        Request::ExecCancel(it) => json(it),
        Request::ExecList(it) => json(it),
        Request::ExecFollow(it) => json(it),
        Request::PortDial(it) => json(it),
        Request::AuditQuery(it) => json(it),
        Request::AuditSummary(it) => json(it),
        Request::CodeStats(it) => json(it),
        Request::PolicyCheck(it) => json(it),
        Request::ApprovalList(it) => json(it),
        Request::ApprovalGive(it) => json(it),
        Request::TokenCreate(it) => json(it),
        Request::TokensList(it) => json(it),
        Request::TokenRevoke(it) => json(it),
        Request::Diagnose(it) => json(it),
        Request::Probe(it) => json(it),
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

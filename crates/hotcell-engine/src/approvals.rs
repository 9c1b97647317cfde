//! Execs that wait for a person's word, and the word.

use std::collections::BTreeMap;
use std::sync::Arc;

use hotcell_link::{Ask, LinkError};
use hotcell_model::{
    ApprovalAnswer, ApprovalGive, ApprovalVerdict, Caller, CheckpointId, Error, Exec, ExecFilter,
    ExecStatusFilter, Execs, Grant, Result, Tenants, Timestamp,
};

use crate::exec_input::find_link_to;
use crate::links;
use crate::site::Site;

/// How many live execs are looked at at once.
const PAGE: u32 = 1000;
/// How often an answer is given again whose connection broke.
const ATTEMPTS: u32 = 5;

/// Lists the execs that wait for approval, the oldest first.
pub(crate) async fn approval_list(site: &Site, tenants: Tenants) -> Result<Execs> {
    site.sync_all(&tenants).await?;
    let mut page = ExecFilter {
        tenants,
        cell: None,
        status: Some(ExecStatusFilter::Live),
        limit: PAGE,
        before: None,
    };
    let mut execs = Vec::new();
    loop {
        let live = site.store.list_execs(&page).await?;
        let Some(last) = live.last() else { break };
        page.before = Some((last.queued_at, last.id.clone()));
        for exec in live.iter().filter(|exec| exec.awaits_approval()) {
            // One whose supervisor has died waits no longer.
            execs.push(site.get_exec_in(&exec.cell, &exec.id).await?);
        }
    }
    execs.retain(Exec::awaits_approval);
    execs.reverse();
    Ok(Execs { execs, next_cursor: None, tenants: BTreeMap::new() })
}

/// The exec, if it waits for approval.
pub(crate) async fn get_awaiting(site: &Site, request: &ApprovalGive) -> Result<Exec> {
    let exec = site.get_exec(&request.exec).await?;
    if exec.awaits_approval() {
        return Ok(exec);
    }
    let message = match exec.approval.as_ref().and_then(|approval| approval.answer.as_ref()) {
        Some(answer) => {
            let verdict = answer.verdict.as_str();
            format!("exec {} does not wait for approval: {verdict} by {}", exec.id, answer.by)
        }
        None => format!("exec {} does not wait for approval", exec.id),
    };
    Err(Error::conflict(message).hint("list what does with `hotcell approvals`"))
}

/// Passes a person's answer on to the cell, which has kept the exec waiting.
pub(crate) async fn approval_give(
    site: &Arc<Site>,
    caller: &Caller,
    exec: &Exec,
    grant: Grant,
    checkpoint: Option<CheckpointId>,
) -> Result<Exec> {
    let verdict = grant.verdict();
    let answer = ApprovalAnswer { verdict, by: caller.principal.clone(), at: Timestamp::now() };
    let ask = Ask::Answer { exec: exec.id.clone(), answer, checkpoint };
    for _ in 0..ATTEMPTS {
        let Some(link) = find_link_to(site, &exec.cell).await? else { break };
        match links::ask(&link, &exec.cell, &ask).await {
            Ok(_) => break,
            // It may have arrived: the next look at the exec tells.
            Err(LinkError::Lost) => {}
            Err(error) => return Err(error.into()),
        }
        if !site.get_exec_in(&exec.cell, &exec.id).await?.awaits_approval() {
            break;
        }
    }
    let now = site.get_exec_in(&exec.cell, &exec.id).await?;
    let answered = now.approval.as_ref().and_then(|approval| approval.answer.as_ref());
    match answered {
        Some(answer) if answer.verdict == verdict => Ok(now),
        Some(answer) if answer.verdict == ApprovalVerdict::Expired => {
            Err(Error::conflict(format!("exec {} waited too long for its approval", exec.id))
                .hint("let it be asked for again"))
        }
        Some(_) | None => Err(Error::unavailable(format!("exec {} could not be reached", exec.id))
            .hint("look at it with `hotcell ps --all`, then try again")),
    }
}

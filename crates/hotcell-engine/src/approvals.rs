//! What waits for a person's word, and the word on execs.

use std::sync::Arc;

use hotcell_link::{Ask, LinkError};
use hotcell_model::{
    ApprovalAnswer, ApprovalId, ApprovalList, ApprovalVerdict, Approvals, Asked, Caller, CellRef,
    CheckpointId, Error, Exec, ExecFilter, ExecId, ExecRun, ExecState, ExecStatusFilter, Grant,
    Result, Stdin, Tenants, Timestamp,
};

use crate::asked::{CWD, ENV, STDIN};
use crate::exec_input::find_link_to;
use crate::held::{get_held, waits_no_longer};
use crate::links;
use crate::site::Site;

/// How many live execs are looked at at once.
const PAGE: u32 = 1000;
/// How often an answer is given again whose connection broke.
const ATTEMPTS: u32 = 5;

/// Lists what waits for approval, the oldest first, or shows one whatever became of it.
pub(crate) async fn approval_list(
    site: &Site,
    tenants: Tenants,
    request: ApprovalList,
) -> Result<Approvals> {
    site.expire_held().await?;
    let approvals = match request.id {
        Some(ApprovalId::Exec(exec)) => {
            vec![asked_about(site, &site.get_exec(&exec).await?).await?]
        }
        Some(ApprovalId::Held(held)) => vec![get_held(site, &tenants, &held).await?],
        None => {
            let mut waiting = Vec::new();
            for held in site.store.list_held(&tenants, Timestamp::now()).await? {
                if !is_forgotten(site, &held.asked).await {
                    waiting.push(held.asked);
                }
            }
            for exec in awaiting(site, tenants).await? {
                waiting.push(asked_about(site, &exec).await?);
            }
            waiting.sort_by_key(|asked| asked.asked_at);
            waiting
        }
    };
    Ok(Approvals { approvals })
}

/// Whether the code that made a call has ended, so that an answer would have no effect.
async fn is_forgotten(site: &Site, asked: &Asked) -> bool {
    let Some(exec) = &asked.exec else { return false };
    let found = site.get_exec(exec).await;
    found.is_ok_and(|exec| exec.state == ExecState::Ended)
}

/// The execs that wait.
async fn awaiting(site: &Site, tenants: Tenants) -> Result<Vec<Exec>> {
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
    Ok(execs)
}

/// What a person is told of an exec that has to be approved, or had to be.
pub(crate) async fn asked_about(site: &Site, exec: &Exec) -> Result<Asked> {
    let Some(approval) = &exec.approval else {
        return Err(Error::conflict(format!("exec {} does not wait for approval", exec.id))
            .hint("list what waits with `hotcell approvals`"));
    };
    Ok(Asked {
        id: ApprovalId::Exec(exec.id.clone()),
        tenant: site.tenant_of(&CellRef::Id(exec.cell.clone())).await?,
        tool: "exec_run".to_owned(),
        cell: Some(exec.cell.to_string()),
        exec: None,
        what: exec.command.to_string(),
        asked_at: exec.queued_at,
        approval: (**approval).clone(),
        used_at: None,
    })
}

/// What is asked for, as far as it was told to whoever is to approve it.
pub(crate) fn run_of(exec: &Exec) -> ExecRun {
    let facts = exec.approval.iter().flat_map(|approval| &approval.facts);
    let mut run = ExecRun::new(exec.cell.clone(), exec.command.clone());
    run.as_root = exec.as_root;
    for fact in facts {
        match fact.name.as_str() {
            CWD => run.cwd.clone_from(&fact.value),
            STDIN => run.stdin = Stdin::Text(fact.value.clone()),
            name => {
                if let Some(variable) = name.strip_prefix(ENV) {
                    run.env.insert(variable.to_owned(), fact.value.clone());
                }
            }
        }
    }
    run
}

/// The exec, if it waits for approval.
pub(crate) async fn get_awaiting(site: &Site, exec: &ExecId) -> Result<Exec> {
    let exec = site.get_exec(exec).await?;
    if exec.awaits_approval() {
        return Ok(exec);
    }
    Err(waits_no_longer(&asked_about(site, &exec).await?))
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

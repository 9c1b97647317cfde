//! Calls that wait at the door for a person's word.
//!
//! Such a call stands in the index, bound to its tenant, its caller and a keyed digest of all that
//! it asks for. The answer to it counts for that very request of that caller, once, until the
//! deadline. What dies between the steps leaves less allowed than before, never more: an answer
//! that was not used is there for the same call made again, a use that was not followed by the deed
//! is gone, and with the index every held call is.

use std::sync::Arc;
use std::time::Duration;

use hotcell_model::{
    Approval, ApprovalAnswer, ApprovalId, ApprovalNeed, ApprovalVerdict, Asked, Caller, EntryKind,
    Error, ExecId, Grant, HeldCall, HeldId, Holding, LedgerEntry, Patience, Request, Result,
    Tenants, Timestamp, Verdict,
};

use crate::new_id::new_held_id;
use crate::policies::{Judged, judge, tool_of};
use crate::recorded::{ANSWERING, cell_of};
use crate::site::Site;
use crate::{asked, digest};

/// How many calls of a tenant wait at most: each is something that a person has to read.
const MOST_HELD: u64 = 100;
/// How often it is looked for an answer, which another process may have taken.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Holds a call until a person has said that it may be done.
///
/// # Errors
/// `denied` when it may not, or nobody answered in time; `timeout`, with the call that is held, when
/// its caller does not wait so long.
pub(crate) async fn await_word(
    site: &Arc<Site>,
    caller: &Caller,
    request: &Request,
    need: ApprovalNeed,
) -> Result<()> {
    let ledger = site.ledger.as_ref().ok_or_else(|| {
        Error::unavailable("there is no key to tell calls apart that wait for approval")
            .hint("let a person do it with `hotcell`")
    })?;
    let digest = digest::of_whole(&**ledger, caller, request)?;
    let need = match need.facts.is_empty() {
        true => ApprovalNeed { facts: asked::facts(site, request).await?, ..need },
        false => need,
    };
    loop {
        let held = take_down(site, caller, request, &need, &digest).await?;
        let _pending = calling_exec(caller, request).map(|exec| site.pending_calls.begin(exec));
        let granted = answered(site, caller, held).await?;
        // The rules may be others than when it was asked.
        if let Judged::Denied { rule, error } = judge(site, caller, request).await? {
            site.note_decision(request, Verdict::Denied, &rule).await?;
            return Err(error);
        }
        let Some(id) = held_id(&granted) else { return Err(gone(&granted)) };
        if site.store.use_held(id, Timestamp::now()).await? {
            return site.note_held(&granted, "used", Verdict::Allowed).await;
        }
        // The same call was made twice at once, and the other one was let through: this one asks
        // anew.
    }
}

/// The exec whose code makes a call, or has one of our own tools make it.
fn calling_exec<'a>(caller: &'a Caller, request: &'a Request) -> Option<&'a ExecId> {
    let of_call = if let Request::ToolRun(call) = request { call.exec.as_ref() } else { None };
    of_call.or(caller.code_of.as_ref())
}

/// The call as it is held, by now or since before.
async fn take_down(
    site: &Site,
    caller: &Caller,
    request: &Request,
    need: &ApprovalNeed,
    digest: &str,
) -> Result<Asked> {
    site.expire_held().await?;
    let now = Timestamp::now();
    let glass = asked::glass_for(site, cell_of(request)).await?;
    let what = asked::what(request);
    let asked = Asked {
        id: ApprovalId::Held(new_held_id()?),
        tenant: caller.tenant.clone(),
        tool: tool_of(request).to_owned(),
        cell: cell_of(request).map(ToString::to_string),
        exec: calling_exec(caller, request).cloned(),
        what: glass.map_or_else(|| what.clone(), |glass| glass.text(&what)),
        asked_at: now,
        approval: Approval::pending(need.clone(), now),
        used_at: None,
    };
    let call = HeldCall { asked, digest: digest.to_owned() };
    match site.store.hold_call(&call, now, MOST_HELD).await? {
        Holding::New => {
            let asked = call.asked;
            tracing::warn!(
                id = %asked.id, tool = asked.tool, rule = asked.approval.rule,
                "a call awaits approval: answer with `hotcell approve`"
            );
            site.note(EntryKind::Decision, request.name(), |entry| {
                let entry = about(entry, &asked);
                LedgerEntry { verdict: Some(Verdict::Asked), ..entry }
            })
            .await?;
            Ok(asked)
        }
        Holding::Held(held) => Ok(held.asked),
        Holding::Full(waiting) => Err(Error::limit_exceeded(format!(
            "{waiting} calls of tenant {} wait for approval, and no more than {MOST_HELD} may",
            caller.tenant
        ))
        .hint("wait until a person has answered some of them")),
    }
}

/// Waits until a call is approved.
async fn answered(site: &Site, caller: &Caller, mut held: Asked) -> Result<Asked> {
    let tenants = Tenants::Of(caller.tenant.clone());
    let mut hurry = site.hurry.subscribe();
    loop {
        match held.approval.answer.as_ref().map(|answer| answer.verdict) {
            Some(ApprovalVerdict::Granted) => return Ok(held),
            Some(ApprovalVerdict::Refused | ApprovalVerdict::Expired) => return Err(denied(&held)),
            None => {}
        }
        let left = Timestamp::now().until(held.approval.until);
        if left.is_zero() {
            site.expire_held().await?;
        } else if caller.patience == Patience::None || *hurry.borrow() {
            return Err(waits(&held));
        } else {
            tokio::select! {
                () = tokio::time::sleep(left.min(LOOK_AGAIN)) => {}
                _ = hurry.wait_for(|hurry| *hurry) => {}
            }
        }
        let Some(id) = held_id(&held) else { return Err(gone(&held)) };
        held = match site.store.find_held(&tenants, id).await? {
            Some(found) => found.asked,
            None => return Err(gone(&held)),
        };
    }
}

/// Answers for a held call.
///
/// # Errors
/// `not_found`; `denied` for whoever made the call; `conflict` when it waits no longer.
pub(crate) async fn answer_held(
    site: &Site,
    caller: &Caller,
    id: &HeldId,
    grant: Grant,
) -> Result<Asked> {
    site.expire_held().await?;
    let held = get_held(site, &caller.tenants(), id).await?;
    check_other(caller, &held.approval.asked_by)?;
    let by = caller.principal.clone();
    let answer = ApprovalAnswer { verdict: grant.verdict(), by, at: Timestamp::now() };
    let given = grant.verdict().as_str();
    site.note(EntryKind::Approval, ANSWERING, |entry| about(entry, &held).with("answer", given))
        .await?;
    if !site.store.answer_held(id, &answer).await? {
        return Err(waits_no_longer(&get_held(site, &caller.tenants(), id).await?));
    }
    let answered = get_held(site, &caller.tenants(), id).await?;
    let verdict = match grant {
        Grant::Approve => Verdict::Allowed,
        Grant::Refuse => Verdict::Denied,
    };
    site.note_held(&answered, given, verdict).await?;
    Ok(answered)
}

/// Refuses an answer of whoever asked, unless that is the operator of the machine: one that can
/// approve its own calls needs no approval.
pub(crate) fn check_other(caller: &Caller, asked_by: &str) -> Result<()> {
    if caller.principal != asked_by || caller.is_local_operator() {
        return Ok(());
    }
    Err(Error::denied(format!("{asked_by} asked for it, and cannot approve it too"))
        .hint("let another operator answer, or use `hotcell approve` on the machine"))
}

/// The held call, of one of these tenants.
pub(crate) async fn get_held(site: &Site, tenants: &Tenants, id: &HeldId) -> Result<Asked> {
    let found = site.store.find_held(tenants, id).await?;
    found.map(|held| held.asked).ok_or_else(|| {
        Error::not_found(format!("there is no held call {id}"))
            .hint("list what waits with `hotcell approvals`")
    })
}

/// Why an answer comes too late.
pub(crate) fn waits_no_longer(asked: &Asked) -> Error {
    let message = match &asked.approval.answer {
        Some(answer) => {
            let verdict = answer.verdict.as_str();
            format!("{} does not wait for approval: {verdict} by {}", asked.id, answer.by)
        }
        None => format!("{} does not wait for approval", asked.id),
    };
    Error::conflict(message).hint("list what does with `hotcell approvals`")
}

fn held_id(asked: &Asked) -> Option<&HeldId> {
    match &asked.id {
        ApprovalId::Held(id) => Some(id),
        ApprovalId::Exec(_) => None,
    }
}

fn denied(held: &Asked) -> Error {
    let Approval { rule, reason, until, answer, .. } = &held.approval;
    let by = answer.as_ref().map(|answer| answer.by.as_str()).unwrap_or_default();
    let expired = answer.as_ref().is_some_and(|it| it.verdict == ApprovalVerdict::Expired);
    match expired {
        true => Error::denied(format!("nobody approved it until {until}: {reason} (rule {rule})"))
            .hint("do it another way, or make the call again when somebody can approve it"),
        false => Error::denied(format!("refused by {by}: {reason} (rule {rule})"))
            .hint(format!("do it another way; the same call is refused until {until}")),
    }
}

fn waits(held: &Asked) -> Error {
    let Asked { id, approval, .. } = held;
    let error = Error::timeout(format!(
        "{id} awaits approval until {}: {}",
        approval.until, approval.reason
    ))
    .hint(format!("let a person run `hotcell approve {id}`, then make the same call again"));
    match held_id(held) {
        Some(held) => error.held(held.clone()),
        None => error,
    }
}

fn gone(held: &Asked) -> Error {
    Error::denied(format!("{} is not known any more, so nobody can approve it", held.id))
        .hint("make the call again: it asks anew")
}

fn about(mut entry: LedgerEntry, asked: &Asked) -> LedgerEntry {
    entry.tenant = asked.tenant.clone();
    entry.cell.clone_from(&asked.cell);
    entry.rule = Some(asked.approval.rule.clone());
    entry
        .with("held", asked.id.to_string())
        .with("tool", asked.tool.as_str())
        .with("asked_by", asked.approval.asked_by.as_str())
}

impl Site {
    /// Writes down what became of a held call.
    async fn note_held(&self, asked: &Asked, what: &'static str, verdict: Verdict) -> Result<()> {
        self.note(EntryKind::Approval, what, |entry| LedgerEntry {
            verdict: Some(verdict),
            ..about(entry, asked)
        })
        .await
    }

    /// Lets held calls whose deadline is over be refused, and writes that down.
    pub(crate) async fn expire_held(&self) -> Result<()> {
        for held in self.store.expire_held(Timestamp::now()).await? {
            let expired = ApprovalVerdict::Expired.as_str();
            self.note_held(&held.asked, expired, Verdict::Denied).await?;
        }
        Ok(())
    }
}

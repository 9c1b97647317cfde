//! Calls about execs whose cells are still being started.

use std::collections::BTreeMap;
use std::time::Duration;

use hotcell_dialects::{StartPhase, StartingExec};
use hotcell_model::{
    CancelStatus, CellRef, Error, ErrorCode, ExecCancelled, ExecList, ExecPoll, ExecStatusFilter,
    Execs, Reply, Request, Result,
};
use tokio::time::{Instant, timeout};

use super::handler::McpHandler;
use super::held_call::Called;
use crate::starting_execs::Found;

/// What is left to do of a call.
pub(super) enum Resolved {
    /// The engine answers it.
    Ask(Box<Request>),
    Called(Called),
}

/// Answers a call about an exec that the engine does not have yet.
pub(super) async fn resolve(handler: &McpHandler, request: Request) -> Resolved {
    match resolved(handler, request).await {
        Ok(resolved) => resolved,
        Err(error) => {
            handler.door.refused(&error);
            Resolved::Called(Called::done(Err(error)))
        }
    }
}

async fn resolved(handler: &McpHandler, mut request: Request) -> Result<Resolved> {
    let (door, caller) = (&handler.door, &handler.caller);
    let called = if let Request::ExecPoll(poll) = &mut request {
        polled(handler, poll).await?
    } else if let Request::ExecInput(input) = &mut request {
        match door.find_starting(caller, &input.exec).await? {
            Some((_, Found::NotYet(exec))) => return Err(no_input_yet(&exec)),
            Some((_, Found::InEngine(exec))) => {
                input.exec = exec;
                None
            }
            None => None,
        }
    } else if let Request::ExecCancel(cancel) = &mut request {
        match door.find_starting(caller, &cancel.exec).await? {
            Some((start, Found::NotYet(_))) => {
                let status = match start.cancel() {
                    true => CancelStatus::Cancelled,
                    false => CancelStatus::AlreadyEnded,
                };
                let cancelled = ExecCancelled { exec: cancel.exec.clone(), status };
                Some(Called::done(Ok(Reply::ExecCancelled(cancelled))))
            }
            Some((_, Found::InEngine(exec))) => {
                cancel.exec = exec;
                None
            }
            None => None,
        }
    } else if let Request::ExecList(list) = &request {
        listed(handler, list).await
    } else {
        None
    };
    Ok(called.map_or_else(|| Resolved::Ask(Box::new(request)), Resolved::Called))
}

/// Waits for the start of an exec; `None` once the engine has it.
async fn polled(handler: &McpHandler, poll: &mut ExecPoll) -> Result<Option<Called>> {
    let (door, caller) = (&handler.door, &handler.caller);
    let Some((start, mut found)) = door.find_starting(caller, &poll.exec).await? else {
        return Ok(None);
    };
    if let Found::NotYet(_) = found {
        let began = Instant::now();
        let wait = Duration::try_from_secs_f64(poll.wait_s).unwrap_or_default();
        tokio::select! {
            _ = timeout(wait, start.over()) => {}
            () = door.draining.cancelled() => {}
        }
        poll.wait_s = (poll.wait_s - began.elapsed().as_secs_f64()).max(0.0);
        found = match door.find_starting(caller, &poll.exec).await? {
            Some((_, found)) => found,
            None => Found::InEngine(poll.exec.clone()),
        };
    }
    match found {
        Found::InEngine(exec) => {
            poll.exec = exec;
            Ok(None)
        }
        Found::NotYet(exec) => match exec.failure() {
            Some(error) => Err(error),
            None => Ok(Some(Called::Starting(exec))),
        },
    }
}

fn no_input_yet(exec: &StartingExec) -> Error {
    exec.failure().unwrap_or_else(|| {
        let hint = match exec.phase {
            StartPhase::Cancelled => "run it again",
            StartPhase::Starting | StartPhase::Failed(_) => {
                "wait with exec_poll until it runs, then send the input again"
            }
        };
        let now = exec.end_cause().unwrap_or(exec.status());
        Error::unavailable(format!("exec {} takes no input: it is {now}", exec.exec)).hint(hint)
    })
}

/// The first page of a list, if execs belong to it that the engine does not have yet.
async fn listed(handler: &McpHandler, list: &ExecList) -> Option<Called> {
    let (door, caller) = (&handler.door, &handler.caller);
    if list.cursor.is_some() {
        return None;
    }
    let starting = door.list_starting(caller).await.into_iter();
    let shown: Vec<_> = starting.filter(|exec| is_wanted(handler, list, exec)).collect();
    if shown.is_empty() {
        return None;
    }
    let answered = match door.enter(caller, list.clone().into()).await {
        // The cell that they wait for may not be there yet.
        Err(error) if error.code == ErrorCode::NotFound => {
            let (execs, tenants) = (Vec::new(), BTreeMap::new());
            Ok(Reply::Execs(Execs { execs, next_cursor: None, awaiting: Vec::new(), tenants }))
        }
        answered => answered.inspect_err(|error| door.refused(error)),
    };
    Some(Called::Listed(Box::new(answered), shown))
}

fn is_wanted(handler: &McpHandler, list: &ExecList, exec: &StartingExec) -> bool {
    let is_starting = matches!(exec.phase, StartPhase::Starting);
    let has_status = match list.status {
        None => true,
        Some(ExecStatusFilter::Live) => is_starting,
        Some(ExecStatusFilter::Ended | ExecStatusFilter::EndedSince(_)) => !is_starting,
    };
    let name = |cell: &CellRef| match (cell, &handler.caller.default_cell) {
        (CellRef::Default, Some(alias)) => CellRef::Alias(alias.clone()),
        (other, _) => other.clone(),
    };
    let is_in = |cell: &CellRef| name(cell) == name(&exec.cell);
    has_status && list.cell.as_ref().is_none_or(is_in)
}

//! `/v1/execs`.

use hotcell_model::{CancelStatus, Error, ExecCancel, ExecGet, ExecList, ExecRun};
use http::StatusCode;

use super::asked::{CancelExec, FollowOutput, ListExecs, Nothing, ReadOutput, RunExec, SendInput};
use super::shown::{InputShown, PageShown, RunShown};
use super::{Answer, Call, events, ok};
use crate::call_id;
use crate::http::answer::json;

pub(super) async fn list(call: Call) -> Answer {
    let asked: ListExecs = call.query()?;
    ok(&call.ask(ExecList::from(asked)).await?)
}

pub(super) async fn run(call: Call) -> Answer {
    let asked: RunExec = call.body()?;
    let result = call.ask(ExecRun::try_from(asked)?).await?;
    call_id::note_exec(&result.exec);
    Ok(json(StatusCode::CREATED, &RunShown::from(result)))
}

pub(super) async fn get(call: Call) -> Answer {
    let Nothing {} = call.query()?;
    ok(&call.ask(ExecGet { exec: call.exec()? }).await?)
}

pub(super) async fn input(call: Call) -> Answer {
    let exec = call.exec()?;
    let asked: SendInput = call.body()?;
    ok(&InputShown::from(call.ask(asked.to(exec)?).await?))
}

pub(super) async fn cancel(call: Call) -> Answer {
    let exec = call.exec()?;
    let CancelExec { signal, grace_s } = call.body()?;
    let cancelled = call.ask(ExecCancel { exec, signal, grace_s }).await?;
    match cancelled.status {
        CancelStatus::Cancelled | CancelStatus::AlreadyEnded => ok(&cancelled),
        CancelStatus::NotFound => {
            Err(Error::not_found(format!("there is no exec {}", cancelled.exec)).into())
        }
    }
}

pub(super) async fn output(mut call: Call) -> Answer {
    let asked: ReadOutput = call.query()?;
    if asked.raw {
        call.see_raw()?;
    }
    ok(&PageShown::from(call.ask(asked.of(call.exec()?)?).await?))
}

pub(super) async fn stream(mut call: Call) -> Answer {
    let FollowOutput { after_seq, raw } = call.query()?;
    if raw {
        call.see_raw()?;
    }
    events::follow(call, after_seq).await
}

//! Reads output after a point, and waits for some if there is none yet.

use std::sync::Arc;
use std::time::Duration;

use hotcell_journal::Ended;
use hotcell_link::{FollowEvent, Following};
use hotcell_model::{CutStrategy, Exec, ExecPage, ExecPoll, ExecState, Pace, Result};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::code_shown::Printed;
use crate::page::{Page, Wanted};
use crate::site::Site;
use crate::view::View;
use crate::{check, fault};

/// How soon to look again where nobody tells of changes.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The output after a seq; waits for some, or for the end, when there is none.
pub(crate) async fn exec_poll(site: &Site, request: ExecPoll, view: &View) -> Result<ExecPage> {
    let wanted = Wanted::check(&request)?;
    let deadline = Instant::now() + check::wait(request.wait_s)?;
    let mut exec = site.get_exec(&request.exec).await?;
    let mut awaited = None;
    let mut after_seq = request.after_seq;
    loop {
        // The state was read before the output: what is read after the end is complete.
        let page = read(site, &exec, &wanted, after_seq, view).await?;
        let over = exec.state == ExecState::Ended || Instant::now() >= deadline;
        if over || !page.is_empty() {
            let complete = exec.state == ExecState::Ended && page.at_end;
            let printed = Printed::Beside(&page.records);
            let code = match complete {
                true => site.code_of(&exec, printed, CutStrategy::Auto, view).await,
                false => None,
            };
            return Ok(ExecPage {
                complete,
                code,
                exec,
                records: page.records,
                next_seq: page.next_seq,
                dropped: page.dropped,
            });
        }
        after_seq = page.next_seq;
        if !page.at_end && page.waits.is_none() {
            continue;
        }
        // What is held back is shown when its time is over.
        let until = page.waits.map_or(deadline, |left| deadline.min(Instant::now() + left));
        if page.waits.is_some() {
            sleep_until(until.min(Instant::now() + LOOK_AGAIN)).await;
        } else {
            wait(site, &exec, after_seq, &mut awaited, deadline).await?;
        }
        exec = site.get_exec_in(&exec.cell, &exec.id).await?;
    }
}

async fn read(
    site: &Site,
    exec: &Exec,
    wanted: &Wanted,
    after_seq: u64,
    view: &View,
) -> Result<Page> {
    let ended = match exec.state {
        ExecState::Ended => Ended::Yes,
        ExecState::Queued | ExecState::Running => Ended::NotYet,
    };
    let (id, records, wanted) = (exec.id.clone(), site.records(&exec.cell), wanted.clone());
    let shapes = view.shapes().map(Arc::clone);
    fault::blocking(move || {
        let page = match &shapes {
            None => wanted.read(&records, &id, after_seq, ended),
            Some(shapes) => wanted.read_masked(shapes, &records, &id, after_seq, ended),
        };
        page.map_err(|error| fault::io(format_args!("read the output of exec {id}"), &error))
    })
    .await
}

/// Waits until something may have changed.
async fn wait(
    site: &Site,
    exec: &Exec,
    after_seq: u64,
    awaited: &mut Option<Following>,
    deadline: Instant,
) -> Result<()> {
    if awaited.is_none() {
        *awaited =
            match timeout_at(deadline, site.find_following(exec, after_seq, Pace::Free)).await {
                Ok(following) => following?,
                Err(_) => return Ok(()),
            };
    }
    match awaited {
        // Nobody is there to tell; the state that is read next says what became of it.
        None => sleep_until(deadline.min(Instant::now() + LOOK_AGAIN)).await,
        Some(following) => match timeout_at(deadline, following.next()).await {
            Ok(Some(FollowEvent::Record(_) | FollowEvent::Ended(_))) | Err(_) => {}
            Ok(None) => *awaited = None,
        },
    }
    Ok(())
}

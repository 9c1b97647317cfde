//! Reads output after a point, and waits for some if there is none yet.

use std::sync::Arc;
use std::time::Duration;

use hotcell_link::{FollowEvent, Following};
use hotcell_model::{
    CutStrategy, Exec, ExecPage, ExecPoll, ExecState, OutputForm, OutputView, Pace, Result, Until,
    WaitBound,
};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::code_shown::Printed;
use crate::output_wait::{OutputWait, SentInput, Waited, ended};
use crate::page::{Page, Wanted};
use crate::pending_calls::Seen;
use crate::program_watch::{Asking, ProgramWatch};
use crate::prompt::prompt_of;
use crate::screen::ShownScreen;
use crate::site::Site;
use crate::view::View;
use crate::{check, fault};

/// How soon to look again where nobody tells of changes.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a call waits that leaves it open and reads an exec without a terminal.
const SHORT_WAIT: Duration = Duration::from_millis(100);

/// The output after a seq; waits for what the request says when that is not there yet.
pub(crate) async fn exec_poll(site: &Site, request: ExecPoll, view: &View) -> Result<ExecPage> {
    let exec = site.get_exec(&request.exec).await?;
    let watch = ProgramWatch::new(&exec);
    poll_with(site, request, exec, watch, None, view).await
}

/// The same for an exec whose program may be watched already, or was sent input.
pub(crate) async fn poll_with(
    site: &Site,
    request: ExecPoll,
    exec: Exec,
    mut watch: ProgramWatch,
    sent: Option<SentInput>,
    view: &View,
) -> Result<ExecPage> {
    let wanted = Wanted::check(&request)?;
    let mut wait = check::wait(request.wait_s)?;
    let OutputView { until, form, bound } = &request.view;
    if *bound == WaitBound::ByKind && !exec.pty {
        wait = wait.min(SHORT_WAIT);
    }
    let deadline = Instant::now() + wait;
    let until = until.clone().unwrap_or(match exec.pty {
        true => Until::Settled,
        false => Until::Output,
    });
    let after_seq = request.after_seq;
    if until == Until::Output && *form == OutputForm::Records {
        let page = first_output(site, &wanted, exec, after_seq, deadline, view).await?;
        // A call that does not wait follows the output of a program, which may be fast.
        if !page.exec.pty || page.exec.state != ExecState::Running || wait.is_zero() {
            return Ok(page);
        }
        if watch.asks_now(site, &page.exec, view).await? == Asking::No {
            return Ok(page);
        }
        let prompt = prompt_of(site, &page.exec, view).await?;
        let page = settled(site, &wanted, page.exec, after_seq, view).await?;
        return Ok(ExecPage { waiting_for_input: Some(prompt), ..page });
    }
    let waiting = OutputWait::new(site, exec.clone(), after_seq, watch, view).await?;
    let waited = waiting.wait(&until, sent, after_seq, wanted.max_bytes, deadline);
    let Waited { asking, matched } = Box::pin(waited).await?;
    let exec = site.get_exec_in(&exec.cell, &exec.id).await?;
    let waiting_for_input = match (asking, exec.state) {
        (Asking::Yes, ExecState::Running) => Some(prompt_of(site, &exec, view).await?),
        (Asking::Yes | Asking::No, _) => None,
    };
    let page = match form {
        OutputForm::Screen => screen(site, exec, view).await?,
        OutputForm::Records => settled(site, &wanted, exec, after_seq, view).await?,
    };
    Ok(ExecPage { waiting_for_input, matched, ..page })
}

/// The screen of an exec's terminal.
async fn screen(site: &Site, exec: Exec, view: &View) -> Result<ExecPage> {
    let ShownScreen { screen, seq } = site.screen_of(&exec, view).await?;
    Ok(ExecPage {
        awaiting: site.calls_awaiting_approval([&exec]).await,
        complete: exec.state == ExecState::Ended,
        more: false,
        exec,
        records: Vec::new(),
        next_seq: seq,
        dropped: None,
        waiting_for_input: None,
        matched: None,
        screen: Some(Box::new(screen)),
        code: None,
    })
}

/// What there is, with what is held back for a moment.
async fn settled(
    site: &Site,
    wanted: &Wanted,
    exec: Exec,
    after_seq: u64,
    view: &View,
) -> Result<ExecPage> {
    let mut page = read(site, &exec, wanted, after_seq, view).await?;
    if let Some(left) = page.waits {
        sleep(left).await;
        page = read(site, &exec, wanted, after_seq, view).await?;
    }
    Ok(finished(site, exec, page, view).await)
}

async fn finished(site: &Site, exec: Exec, page: Page, view: &View) -> ExecPage {
    let complete = exec.state == ExecState::Ended && page.at_end;
    let printed = Printed::Beside(&page.records);
    let code = match complete {
        true => site.code_of(&exec, printed, CutStrategy::Auto, view).await,
        false => None,
    };
    let awaiting = site.calls_awaiting_approval([&exec]).await;
    ExecPage {
        awaiting,
        complete,
        more: !page.at_end,
        code,
        exec,
        records: page.records,
        next_seq: page.next_seq,
        dropped: page.dropped,
        waiting_for_input: None,
        matched: None,
        screen: None,
    }
}

/// Waits for the first output, or for the end.
async fn first_output(
    site: &Site,
    wanted: &Wanted,
    exec: Exec,
    after_seq: u64,
    deadline: Instant,
    view: &View,
) -> Result<ExecPage> {
    let (mut exec, mut after_seq) = (exec, after_seq);
    let mut awaited = None;
    let mut pending = site.pending_calls.watch(&exec.id, Seen::Present);
    let mut has_news = false;
    loop {
        // The state was read before the output: what is read after the end is complete.
        let page = read(site, &exec, wanted, after_seq, view).await?;
        let over = has_news || exec.state == ExecState::Ended || Instant::now() >= deadline;
        if over || !page.is_empty() {
            return Ok(finished(site, exec, page, view).await);
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
            tokio::select! {
                waited = wait(site, &exec, after_seq, &mut awaited, deadline) => waited?,
                () = pending.changed() => has_news = true,
            }
        }
        exec = site.get_exec_in(&exec.cell, &exec.id).await?;
    }
}

/// Reads what this caller may see after a seq.
pub(crate) async fn read(
    site: &Site,
    exec: &Exec,
    wanted: &Wanted,
    after_seq: u64,
    view: &View,
) -> Result<Page> {
    let ended = ended(exec);
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

//! More execs than may run at once.

use anyhow::{Context as _, Result, ensure};
use hotcell_link::{Started, Tell};
use hotcell_model::{CancelStatus, EndCause, ExecSpec, ExecState};

use super::DriverPlace;
use super::guest::{Guest, Outcome, open_sh, sh};

fn is_waiting(started: &Started) -> bool {
    started.state == ExecState::Queued && started.started_at.is_none() && started.end.is_none()
}

pub(super) async fn the_rest_waits_by_priority_and_then_in_order(
    place: &DriverPlace,
) -> Result<()> {
    let guest = Guest::start_with(place, |spec| spec.max_running = 1).await?;
    let first = open_sh("echo up; read word");
    let running = guest.start_until(first.clone(), "up").await?;
    let mut followings = Vec::new();
    for (name, priority) in [("a", 0), ("b", 5), ("c", -1), ("d", 5), ("e", 0)] {
        let spec = ExecSpec { priority, ..sh(&format!("echo {name} >> order")) };
        let (started, following) = guest.link.start(spec).await?;
        ensure!(is_waiting(&started), "{name} does not wait: {started:?}");
        followings.push(following);
    }
    let stats = guest.stats().await?;
    ensure!(stats.running == 1 && stats.queued == 5, "{stats:?}");
    guest.input(&first.id, "go\n").await?;
    Outcome::of(running).await?;
    for following in followings {
        let end = Outcome::of(following).await?.end;
        ensure!(end.exit_code == Some(0), "it ended as {end:?}");
    }
    let order = guest.output_of("cat order").await?;
    ensure!(order == "b\nd\na\ne\nc\n", "they ran as {order:?}");
    Ok(())
}

pub(super) async fn a_queued_exec_can_be_cancelled(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start_with(place, |spec| spec.max_running = 1).await?;
    let first = open_sh("echo up; read word");
    let running = guest.start_until(first.clone(), "up").await?;
    let spec = sh("echo ran > ran");
    let (started, following) = guest.link.start(spec.clone()).await?;
    ensure!(is_waiting(&started), "it does not wait: {started:?}");
    let told = guest.cancel(&spec.id, 1000).await?;
    ensure!(told == Tell::Cancelled(CancelStatus::Cancelled), "told {told:?}");
    let end = Outcome::of(following).await?.end;
    ensure!(end.cause == EndCause::Cancelled, "it ended as {end:?}");
    ensure!(end.exit_code.is_none() && end.signal.is_none(), "it ended as {end:?}");
    let exec = guest.journal_of(&spec.id)?;
    ensure!(exec.started_at.is_none() && exec.end.is_some(), "{exec:?}");
    guest.input(&first.id, "go\n").await?;
    Outcome::of(running).await?;
    let ran = guest.output_of("test -e ran || echo never").await.context("look for its file")?;
    ensure!(ran == "never\n", "a cancelled exec ran");
    Ok(())
}

//! More execs than may run at once.

use std::pin::pin;

use anyhow::{Context as _, Result, bail, ensure};
use hotcell_link::{Ask, Started, Tell};
use hotcell_model::{CancelStatus, EndCause, ErrorCode, ExecSpec, ExecState, Stream, TerminalSize};

use super::guest::{Guest, Outcome, open_sh, sh};
use super::{DriverPlace, refusal};

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

pub(super) async fn input_of_a_queued_exec_is_kept_for_it(place: &DriverPlace) -> Result<()> {
    const LONG: usize = 3 << 20;
    let guest = Guest::start_with(place, |spec| spec.max_running = 1).await?;
    let first = open_sh("echo up; read word");
    let running = guest.start_until(first.clone(), "up").await?;

    let piped = open_sh("read line; echo \"got $line\"; wc -c");
    let (started, piped_output) = guest.link.start(piped.clone()).await?;
    ensure!(is_waiting(&started), "it does not wait: {started:?}");
    guest.input(&piped.id, "a line\n").await?;
    let blob = vec![b'x'; LONG];
    let input = Ask::Input { exec: piped.id.clone(), eof: true };
    let mut taken = pin!(guest.ask(&input, &blob));
    tokio::select! {
        biased;
        taken = &mut taken => bail!("more was kept than is promised: {taken:?}"),
        stats = guest.stats() => ensure!(stats?.queued == 1),
    }
    let after_end = guest.input(&piped.id, "more").await;
    ensure!(refusal(after_end)? == ErrorCode::Conflict, "input was kept after its end");

    let size = TerminalSize { rows: 44, cols: 122 };
    let text = "stty -echo; stty size; read line; echo \"got $line\"; cat; exit 6";
    let typed = ExecSpec { pty: Some(TerminalSize::default()), ..sh(text) };
    let (_, typed_output) = guest.link.start(typed.clone()).await?;
    guest.ask(&Ask::Resize { exec: typed.id.clone(), size }, &[]).await?;
    guest.input(&typed.id, "keys\n").await?;
    guest.ask(&Ask::Input { exec: typed.id.clone(), eof: true }, &[]).await?;

    let closed = sh("true");
    let (_, closed_output) = guest.link.start(closed.clone()).await?;
    ensure!(refusal(guest.input(&closed.id, "x").await)? == ErrorCode::Conflict);
    let resize = Ask::Resize { exec: closed.id, size };
    ensure!(refusal(guest.ask(&resize, &[]).await)? == ErrorCode::Conflict);

    guest.input(&first.id, "go\n").await?;
    Outcome::of(running).await?;
    taken.await?;
    let outcome = Outcome::of(piped_output).await?;
    let wanted = format!("got a line\n{LONG}\n");
    ensure!(outcome.text(Stream::Stdout) == wanted, "{outcome:?}");
    let outcome = Outcome::of(typed_output).await?;
    ensure!(outcome.end.exit_code == Some(6), "{outcome:?}");
    let shown = outcome.text(Stream::Pty);
    ensure!(shown.contains("44 122\r\n") && shown.contains("got keys\r\n"), "{shown:?}");
    Outcome::of(closed_output).await?;
    Ok(())
}

pub(super) async fn input_of_a_queued_exec_that_is_cancelled_is_refused(
    place: &DriverPlace,
) -> Result<()> {
    let guest = Guest::start_with(place, |spec| spec.max_running = 1).await?;
    let first = open_sh("echo up; read word");
    let running = guest.start_until(first.clone(), "up").await?;
    let spec = open_sh("cat");
    let (_, following) = guest.link.start(spec.clone()).await?;
    let blob = vec![b'x'; 3 << 20];
    let input = Ask::Input { exec: spec.id.clone(), eof: false };
    let (taken, told) = tokio::join!(guest.ask(&input, &blob), guest.cancel(&spec.id, 1000));
    ensure!(told? == Tell::Cancelled(CancelStatus::Cancelled));
    ensure!(refusal(taken)? == ErrorCode::Conflict, "input was taken that nobody reads");
    Outcome::of(following).await?;
    guest.input(&first.id, "go\n").await?;
    Outcome::of(running).await?;
    Ok(())
}

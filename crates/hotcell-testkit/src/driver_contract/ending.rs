//! The end of an exec is the end of all its descendants.

use anyhow::{Result, ensure};
use hotcell_link::Tell;
use hotcell_model::{CancelStatus, EndCause, ExecSpec, Signal, Stream};

use super::DriverPlace;
use super::guest::{Guest, Outcome, sh};

/// A tree of those who would rather stay: children, a grandchild whose parent is gone, sessions of
/// their own, ears shut to TERM.
const TREE: &str = "
trap '' TERM
sleep 717273 &
setsid sleep 717273 &
setsid sh -c 'trap \"\" TERM; sleep 717273; sleep 717273' &
sh -c 'setsid sh -c \"trap \\\"\\\" TERM; sleep 717273\" </dev/null >/dev/null 2>&1 & exit'
( ( trap '' TERM; while :; do sleep 717273; done ) & )
while cat /proc/self/stat && [ $(grep -lsa '^sleep.717273' /proc/[0-9]*/cmdline | wc -l) -lt 5 ]; do
    sleep 0.01
done >/dev/null 2>&1
echo up
while :; do sleep 717273; done
";

pub(super) async fn a_polite_exec_ends_by_itself_when_cancelled(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let spec = sh("trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.01; done");
    let following = guest.start_until(spec.clone(), "up").await?;
    let told = guest.cancel(&spec.id, 60_000).await?;
    ensure!(told == Tell::Cancelled(CancelStatus::Cancelled), "told {told:?}");
    let outcome = Outcome::of(following).await?;
    ensure!(outcome.text(Stream::Stdout) == "bye\n", "{outcome:?}");
    ensure!(outcome.end.cause == EndCause::Cancelled, "it ended as {:?}", outcome.end);
    ensure!(outcome.end.exit_code == Some(9), "it ended as {:?}", outcome.end);
    let told = guest.cancel(&spec.id, 60_000).await?;
    ensure!(told == Tell::Cancelled(CancelStatus::AlreadyEnded), "told {told:?}");
    Ok(())
}

pub(super) async fn a_cancel_ends_every_descendant(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    for grace_ms in [0, 200] {
        let spec = sh(TREE);
        let following = guest.start_until(spec.clone(), "up").await?;
        let there = guest.count_up_to(6, "717273").await?;
        ensure!(there >= 6, "only {there} processes are there to be ended");
        guest.cancel(&spec.id, grace_ms).await?;
        let end = Outcome::of(following).await?.end;
        ensure!(end.cause == EndCause::Cancelled, "it ended as {end:?}");
        ensure!(end.signal == Some(Signal::KILL) && end.exit_code.is_none(), "{end:?}");
        let left = guest.count("717273").await?;
        ensure!(left == 0, "{left} processes outlived their exec");
    }
    Ok(())
}

pub(super) async fn a_process_that_forks_without_end_is_caught(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    // Each is gone before it can be killed, and has left another.
    let text = "loop() { trap '' TERM; sleep 0.001; ( loop & ) ; exit 0; }; \
                for i in 1 2 3 4; do ( loop & ); done; echo up; sleep 717273";
    let spec = sh(text);
    let following = guest.start_until(spec.clone(), "up").await?;
    guest.cancel(&spec.id, 50).await?;
    let end = Outcome::of(following).await?.end;
    ensure!(end.cause == EndCause::Cancelled, "it ended as {end:?}");
    let left = guest.count_of("loop()").await?;
    ensure!(left == 0, "{left} processes outlived their exec");
    Ok(())
}

pub(super) async fn descendants_end_with_the_main_process(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let text = "setsid sh -c 'trap \"\" TERM HUP; echo held; sleep 717273' & sleep 717273 & \
                while cat /proc/self/stat >/dev/null 2>&1 && \
                [ $(grep -lsa '^sleep.717273' /proc/[0-9]*/cmdline | wc -l) -lt 2 ]; \
                do sleep 0.01; done; sleep 0.3; echo done; exit 3";
    let outcome = guest.run(sh(text)).await?;
    let end = &outcome.end;
    ensure!(end.cause == EndCause::Exited && end.exit_code == Some(3), "it ended as {end:?}");
    ensure!(end.killed_descendants >= 2, "{} were killed", end.killed_descendants);
    let text = outcome.text(Stream::Stdout);
    ensure!(text.contains("held\n") && text.contains("done\n"), "it printed {text:?}");
    ensure!(guest.count("717273").await? == 0, "processes outlived their exec");

    // What is printed by a child right after the main process has ended still counts.
    let text = guest.output_of("( sleep 0.05; echo late ) & echo early").await?;
    ensure!(text == "early\nlate\n", "it printed {text:?}");
    Ok(())
}

pub(super) async fn a_timeout_needs_nobody_connected(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let spec = ExecSpec { timeout_ms: Some(200), ..sh("setsid sleep 717273 & sleep 717273") };
    let Guest { link, .. } = &guest;
    let ask = hotcell_link::Ask::Start {
        spec: Box::new(spec.clone()),
        window: None,
        secrets: Vec::new(),
    };
    link.ask(&ask, &[]).await?;
    let guest = Guest { link: guest.connect().await?, ..guest };
    let end = Outcome::of(guest.link.follow(spec.id.clone(), 0).await?).await?.end;
    // All get the signal, in no order: the shell may see its child die first and exit by itself.
    let exited_of_it = end.exit_code.is_none_or(|code| code == 128 + 15);
    ensure!(end.cause == EndCause::TimedOut && exited_of_it, "it ended as {end:?}");
    ensure!(end.usage.wall_ms >= 200, "it ended before its time: {end:?}");
    ensure!(guest.journal_of(&spec.id)?.end == Some(end), "the journal tells another end");
    ensure!(guest.count("717273").await? == 0, "processes outlived their exec");
    Ok(())
}

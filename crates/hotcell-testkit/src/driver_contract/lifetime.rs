//! Cells end or fall asleep by themselves, with no other process alive.

use anyhow::{Context as _, Result, ensure};
use hotcell_link::Ask;
use hotcell_model::{CloseReason, EndCause, ErrorCode, Keep, Stream, Timestamp};

use super::guest::{Guest, Outcome, sh};
use super::{DriverPlace, refusal};

pub(super) async fn a_busy_cell_is_closed_by_force_only(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start_with(place, |spec| spec.max_running = 1).await?;
    let spec = sh("trap '' TERM; echo up; sleep 717273");
    let following = guest.start_until(spec.clone(), "up").await?;
    let queued = sh("true");
    let (_, waiting) = guest.link.start(queued).await?;
    let close = |force| Ask::Close { reason: CloseReason::Killed, force };
    let told = refusal(guest.ask(&close(false), &[]).await)?;
    ensure!(told == ErrorCode::Conflict, "refused as {told}");
    ensure!(guest.stats().await?.running == 1, "the refused close ended an exec");

    guest.ask(&close(true), &[]).await?;
    for following in [following, waiting] {
        let end = Outcome::of(following).await?.end;
        ensure!(end.cause == EndCause::Cancelled, "it ended as {end:?}");
    }
    ensure!(guest.closed().await? == CloseReason::Killed);
    ensure!(guest.journal()?.execs().all(|exec| exec.end.is_some()), "an exec has no end");

    let idle = Guest::start(place).await?;
    idle.output_of("true").await?;
    idle.ask(&close(false), &[]).await.context("close an idle cell")?;
    ensure!(idle.closed().await? == CloseReason::Killed);
    Ok(())
}

pub(super) async fn a_held_cell_outlives_one_holder_and_not_the_last(
    place: &DriverPlace,
) -> Result<()> {
    let mut guest = Guest::start_with(place, |spec| {
        spec.keep = Keep::Holder;
        spec.orphan_grace_s = 8;
    })
    .await?;
    guest.ask(&Ask::Hold, &[]).await?;
    // The first holder goes; the second is there. An exec measures more than the grace.
    let second = guest.connect().await?;
    second.ask(&Ask::Hold, &[]).await?;
    guest.link = second;
    guest.output_of("sleep 8.5").await?;
    // None is there for less than the grace, then one is again.
    guest.link = guest.connect().await?;
    guest.ask(&Ask::Hold, &[]).await?;
    guest.output_of("sleep 8.5").await?;

    // The last one goes while something runs; a connection that holds nothing does not count.
    let spec = sh("echo up; sleep 717273");
    let other = guest.connect().await?;
    guest.start_until(spec.clone(), "up").await?;
    let following = other.follow(spec.id, 0).await?;
    guest.link = other;
    let end = Outcome::of(following).await?.end;
    ensure!(end.cause == EndCause::Cancelled, "it ended as {end:?}");
    ensure!(guest.closed().await? == CloseReason::Orphaned);
    Ok(())
}

pub(super) async fn a_cell_for_one_exec_ends_with_it(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start_with(place, |spec| spec.keep = Keep::Exec).await?;
    // All of it comes, though the cell ends at once.
    let outcome = guest.run(sh("seq 1 100000; exit 5")).await?;
    ensure!(outcome.end.exit_code == Some(5), "it ended as {:?}", outcome.end);
    let text = outcome.text(Stream::Stdout);
    ensure!(text.lines().count() == 100_000, "{} lines came", text.lines().count());
    ensure!(guest.closed().await? == CloseReason::ExecEnded);
    Ok(())
}

pub(super) async fn a_persistent_cell_sleeps_and_wakes_with_its_files(
    place: &DriverPlace,
) -> Result<()> {
    let mut guest = Guest::start_with(place, |spec| {
        spec.keep = Keep::Always;
        spec.ttl_s = None;
        spec.sleep_after_s = 4;
    })
    .await?;
    // Being connected keeps nothing awake; running does.
    let spec = sh("echo kept > kept; echo gone > ${TMPDIR:-/tmp}/gone; sleep 1.5; echo told");
    guest.run(spec.clone()).await?;
    for _ in 0..2 {
        ensure!(guest.closed().await? == CloseReason::Asleep);
        ensure!(guest.driver.list().await?.len() == 1, "a sleeping cell is not listed");
        guest.wake().await?;
        let files = guest.output_of("cat kept; ls ${TMPDIR:-/tmp}").await?;
        ensure!(files == "kept\n", "the files are {files:?}");
    }
    let end = guest.journal_of(&spec.id)?.end.context("the end was forgotten")?;
    ensure!(end.exit_code == Some(0), "it ended as {end:?}");
    ensure!(guest.log_of(&spec.id)? == "told\n", "the output was forgotten");
    Ok(())
}

pub(super) async fn a_cell_ends_when_its_time_is_over(place: &DriverPlace) -> Result<()> {
    // Far longer than a cell takes to start, also at another machine that is busy: its time counts
    // from when it was asked for.
    const TTL_S: u64 = 40;
    let guest = Guest::start_with(place, |spec| spec.ttl_s = Some(TTL_S)).await?;
    let spec = sh("echo up; sleep 717273");
    let following = guest.start_until(spec, "up").await?;
    let end = Outcome::of(following).await?.end;
    ensure!(end.cause == EndCause::Cancelled, "it ended as {end:?}");
    ensure!(end.ended_at >= guest.spec.created_at.plus_seconds(TTL_S), "before its time: {end:?}");
    ensure!(guest.closed().await? == CloseReason::Expired);

    // The time goes on while there is no supervisor.
    let late = Guest::start_with(place, |spec| {
        spec.created_at = Timestamp(spec.created_at.0 - 10_000);
        spec.ttl_s = Some(TTL_S + 10);
    })
    .await?;
    ensure!(late.closed().await? == CloseReason::Expired);
    Ok(())
}

pub(super) async fn an_idle_cell_ends_when_it_is_told_to(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start_with(place, |spec| spec.idle_ttl_s = Some(4)).await?;
    guest.output_of("sleep 4.5").await?;
    ensure!(guest.closed().await? == CloseReason::Idle);
    Ok(())
}

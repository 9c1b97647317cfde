//! Limits of a cell, where the driver says that they hold.

use anyhow::{Result, ensure};
use hotcell_model::{EndCause, Signal};

use super::DriverPlace;
use super::guest::{Guest, program, sh};

pub(super) async fn memory_ends_the_exec_alone(place: &DriverPlace) -> Result<()> {
    if !place.capabilities().await?.memory_limit {
        return Ok(());
    }
    let guest = Guest::start_with(place, |spec| spec.limits.memory_mb = 48).await?;
    guest.start_until(sh("echo up; sleep 717273"), "up").await?;
    // It looks for the end of a line that has none.
    let end = guest.run(program(&["tail", "/dev/zero"])).await?.end;
    ensure!(end.cause == EndCause::OomKilled, "it ended as {end:?}");
    ensure!(end.signal == Some(Signal::KILL), "it ended as {end:?}");
    ensure!(guest.count_up_to(1, "717273").await? == 1, "another exec went with it");
    Ok(())
}

pub(super) async fn processes_are_counted(place: &DriverPlace) -> Result<()> {
    if !place.capabilities().await?.pids_limit {
        return Ok(());
    }
    let guest = Guest::start_with(place, |spec| spec.limits.pids = 24).await?;
    let spec = sh("i=0; while [ $i -lt 60 ]; do sleep 717273 & i=$((i+1)); done; exit 0");
    let end = guest.run(spec).await?.end;
    ensure!(end.exit_code != Some(0), "more processes were made than may be");
    ensure!(end.killed_descendants < 24, "{} were killed", end.killed_descendants);
    ensure!(guest.output_of("echo well").await? == "well\n", "the cell took harm");
    Ok(())
}

//! Limits of a cell, where the driver says that they hold.

use anyhow::{Result, ensure};
use hotcell_model::{EndCause, LimitHit, Signal};

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
    let capabilities = place.capabilities().await?;
    if !capabilities.pids_limit {
        return Ok(());
    }
    // On the host the limit is one of all processes of the user, of which others end meanwhile.
    let (most, tried) = if capabilities.own_root { (24, 60) } else { (900, 1000) };
    let guest = Guest::start_with(place, |spec| spec.limits.pids = 24).await?;
    let script =
        format!("i=0; while [ $i -lt {tried} ]; do sleep 717273 & i=$((i+1)); done; exit 0");
    let end = guest.run(sh(&script)).await?.end;
    ensure!(end.exit_code != Some(0), "more processes were made than may be");
    ensure!(end.killed_descendants < most, "{} were killed", end.killed_descendants);
    ensure!(guest.output_of("echo well").await? == "well\n", "the cell took harm");
    Ok(())
}

pub(super) async fn the_disk_ends_what_fills_it(place: &DriverPlace) -> Result<()> {
    if !place.capabilities().await?.disk_limit {
        return Ok(());
    }
    // It is measured when a busy machine gets to it.
    let fill = |mb: u32| {
        sh(&format!(
            "i=0; while [ $i -lt {mb} ]; do head -c 1000000 /dev/zero >> big; sleep 0.05; \
             i=$((i+1)); done"
        ))
    };
    let guest = Guest::start_with(place, |spec| spec.limits.disk_mb = 16).await?;
    let end = guest.run(fill(600)).await?.end;
    ensure!(end.limit == Some(LimitHit::Disk), "it ended as {end:?}");
    let used = guest.driver.disk_bytes(&guest.spec.id).await?;
    ensure!(used.is_some_and(|used| used > 16 << 20), "it has {used:?} on disk");
    // What tidies up may go on.
    ensure!(guest.output_of("rm big; echo well").await? == "well\n", "the cell took harm");
    let larger = Guest::start_with(place, |spec| spec.limits.disk_mb = 256).await?;
    let end = larger.run(fill(40)).await?.end;
    ensure!(end.exit_code == Some(0), "it ended as {end:?}");
    Ok(())
}

//! Cells that are made ahead of need and given out later, and what is found of cells.

use anyhow::{Result, ensure};
use hotcell_link::Ask;
use hotcell_model::{CellSpec, CloseReason, ErrorCode, Keep, Timestamp};

use super::guest::Guest;
use super::{DriverPlace, refusal};

fn assigned(spec: &CellSpec) -> CellSpec {
    CellSpec {
        alias: "given".parse().ok(),
        keep: Keep::Always,
        sleep_after_s: 1,
        env: [("GIVEN".to_owned(), "yes".to_owned())].into(),
        created_at: Timestamp::now(),
        ..spec.clone()
    }
}

pub(super) async fn a_cell_is_given_out_once_and_stays_what_it_became(
    place: &DriverPlace,
) -> Result<()> {
    let mut guest = Guest::start_with(place, |spec| spec.keep = Keep::Pool).await?;
    guest.ask(&Ask::Hold, &[]).await?;
    let before = guest.output_of("env | sort").await?;
    let spec = assigned(&guest.spec);
    let assign = |spec: &CellSpec| Ask::Assign { spec: Box::new(spec.clone()) };

    // Whose place would be another one cannot be it.
    let mut larger = spec.clone();
    larger.limits.pids += 1;
    ensure!(refusal(guest.ask(&assign(&larger), &[]).await)? == ErrorCode::Conflict);
    let mut others = spec.clone();
    others.tenant = "tenant-2".parse()?;
    ensure!(refusal(guest.ask(&assign(&others), &[]).await)? == ErrorCode::Conflict);

    for _ in 0..2 {
        guest.ask(&assign(&spec), &[]).await?;
        guest.driver.assign(&spec).await?;
    }
    let other = CellSpec { alias: "another".parse().ok(), ..spec.clone() };
    ensure!(refusal(guest.ask(&assign(&other), &[]).await)? == ErrorCode::Conflict);
    let after = guest.output_of("env | sort").await?;
    let news: Vec<&str> = after.lines().filter(|line| !before.contains(*line)).collect();
    ensure!(news == ["GIVEN=yes"], "{news:?} is new");
    let missing = before.lines().filter(|line| !after.contains(*line)).count();
    ensure!(missing == 0, "{missing} variables are gone: {before} {after}");

    // It sleeps as it does, held or not, and wakes as what it became.
    ensure!(guest.closed().await? == CloseReason::Asleep);
    let listed = guest.driver.list().await?;
    ensure!(listed.len() == 1 && listed[0].spec.alias == spec.alias, "{listed:?}");
    guest.spec = spec;
    guest.wake().await?;
    ensure!(guest.output_of("echo $GIVEN").await? == "yes\n");
    Ok(())
}

pub(super) async fn a_cell_that_somebody_has_is_not_given_out(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start(place).await?;
    let assign = Ask::Assign { spec: Box::new(assigned(&guest.spec)) };
    ensure!(refusal(guest.ask(&assign, &[]).await)? == ErrorCode::Conflict);
    Ok(())
}

pub(super) async fn one_that_nobody_holds_ends(place: &DriverPlace) -> Result<()> {
    let guest = Guest::start_with(place, |spec| {
        spec.keep = Keep::Pool;
        // A busy machine takes a moment to connect.
        spec.orphan_grace_s = 6;
    })
    .await?;
    ensure!(guest.closed().await? == CloseReason::Orphaned);
    Ok(())
}

pub(super) async fn what_there_is_of_cells_is_found_until_it_is_removed(
    place: &DriverPlace,
) -> Result<()> {
    let guest = Guest::start(place).await?;
    let id = guest.spec.id.clone();
    ensure!(guest.driver.remains().await?.cells == std::slice::from_ref(&id));
    guest.driver.stop(&id).await?;
    ensure!(guest.driver.remains().await?.cells == std::slice::from_ref(&id));
    guest.driver.clear(&id).await?;
    ensure!(guest.driver.remains().await?.cells.is_empty());
    guest.driver.clear(&id).await?;
    Ok(())
}

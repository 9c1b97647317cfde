//! Tests of clearing away: what is over goes, what may still be needed stays.

use hotcell_model::{
    CellId, CellKill, CellList, CellSpawn, CloseReason, ErrorCode, ExecGet, Keep, KillWait,
    Timestamp,
};

use crate::testing::{House, ask, persistent, run_forever, shell};

/// What any process does in passing.
async fn sweep(house: &House) {
    ask(&house.engine(), CellList { include_stopped: true }).await.unwrap();
}

#[tokio::test]
async fn records_go_when_they_were_kept_long_enough() {
    let mut house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let exec = ask(&engine, shell(&cell, "echo x")).await.unwrap().exec.id;
    ask(
        &engine,
        CellKill { cell: cell.clone().into(), force: true, volumes: true, wait: KillWait::Removed },
    )
    .await
    .unwrap();
    sweep(&house).await;
    assert!(house.has_records(&cell));
    house.settings.log_keep_s = 0;
    sweep(&house).await;
    assert!(!house.has_records(&cell));
    let gone = ask(&house.engine(), ExecGet { exec }).await.unwrap_err();
    assert_eq!(gone.code, ErrorCode::NotFound);
}

#[tokio::test]
async fn cells_that_ended_by_themselves_are_removed_by_whoever_comes_by() {
    let house = House::new();
    let cells = [persistent(&house.engine()).await, persistent(&house.engine()).await];
    for cell in &cells {
        house.driver.supervisor(cell).close(CloseReason::Expired).await;
    }
    // Killing another cell is coming by, too.
    let other = persistent(&house.engine()).await;
    ask(
        &house.engine(),
        CellKill { cell: other.into(), force: true, volumes: true, wait: KillWait::Removed },
    )
    .await
    .unwrap();
    assert!(cells.iter().all(|cell| !house.driver.has(cell) && house.has_records(cell)));
}

#[tokio::test]
async fn sleeping_cells_end_when_their_time_is_over() {
    let house = House::new();
    let spawn = |ttl_s, idle_ttl_s| CellSpawn {
        keep: Keep::Always,
        ttl_s,
        idle_ttl_s,
        ..CellSpawn::default()
    };
    let engine = house.engine();
    let idle = ask(&engine, spawn(None, Some(60))).await.unwrap().id;
    let patient = ask(&engine, spawn(Some(60), Some(600))).await.unwrap().id;
    // With it ends what it does in passing.
    drop(engine);
    tokio::task::yield_now().await;
    let long_ago = Timestamp(Timestamp::now().0 - 120_000);
    for cell in [&idle, &patient] {
        house.driver.supervisor(cell).close_at(CloseReason::Asleep, long_ago).await;
    }
    sweep(&house).await;
    assert!(!house.driver.has(&idle));
    assert!(house.driver.has(&patient));
}

#[tokio::test]
async fn what_lives_sleeps_or_died_lately_stays() {
    let house = House::new();
    let engine = house.engine();
    let [live, asleep, stopped] = [
        persistent(&engine).await,
        persistent(&engine).await,
        ask(&engine, CellSpawn::default()).await.unwrap().id,
    ];
    run_forever(&engine, &live).await;
    house.driver.supervisor(&asleep).close(CloseReason::Asleep).await;
    house.driver.supervisor(&stopped).die().await;
    sweep(&house).await;
    assert!([live, asleep, stopped].iter().all(|cell| house.driver.has(cell)));
}

#[tokio::test]
async fn directories_that_nobody_knows_go_when_they_are_old() {
    let mut house = House::new();
    let cell = CellId::from_random(77);
    let directory = house.directory.path().join("cells").join(cell.as_str());
    std::fs::create_dir_all(directory.join("records")).unwrap();
    sweep(&house).await;
    assert!(house.has_records(&cell));
    house.settings.log_keep_s = 0;
    sweep(&house).await;
    assert!(!house.has_records(&cell));
}

#[tokio::test]
async fn a_directory_that_is_none_of_ours_is_left_alone() {
    let mut house = House::new();
    house.settings.log_keep_s = 0;
    let foreign = house.directory.path().join("cells/notes");
    std::fs::create_dir_all(&foreign).unwrap();
    sweep(&house).await;
    assert!(foreign.exists());
}

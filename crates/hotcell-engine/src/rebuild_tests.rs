//! Tests of an index that was lost: everything but the keys comes back.

use hotcell_model::{
    Alias, CellId, CellInfo, CellKill, CellList, CellRef, CellSpawn, CellState, ExecGet, ExecId,
    ExecList, ExecRun, Keep, KillWait, Stream,
};

use crate::Engine;
use crate::testing::{House, ask, isolation, persistent, poll, run_forever, shell};

#[tokio::test]
async fn cells_come_back_by_id_by_alias_and_in_lists() {
    let house = House::new();
    let alias: Alias = "work".parse().unwrap();
    let spawn =
        CellSpawn { alias: Some(alias.clone()), keep: Keep::Always, ..CellSpawn::default() };
    let cell = ask(&house.engine(), spawn.clone()).await.unwrap().id;
    house.delete_index();
    assert!(ask(&house.engine(), shell(&cell, "echo x")).await.is_ok());

    house.delete_index();
    let mut by_alias = shell(&cell, "echo x");
    by_alias.cell = CellRef::Alias(alias);
    assert_eq!(ask(&house.engine(), by_alias).await.unwrap().exec.cell, cell);

    house.delete_index();
    let listed = ask(&house.engine(), CellList { include_stopped: false }).await.unwrap().cells;
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].state, &listed[0].isolation), (CellState::Ready, &Some(isolation())));

    house.delete_index();
    let taken = ask(&house.engine(), spawn).await.unwrap_err();
    assert!(taken.message.contains(cell.as_str()));
}

#[tokio::test]
async fn execs_come_back_with_their_output_and_end() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let ended = ask(&engine, shell(&cell, "echo kept")).await.unwrap().exec.id;
    let live = run_forever(&engine, &cell).await;
    house.delete_index();
    let page = ask(&house.engine(), poll(&ended, 0)).await.unwrap();
    assert_eq!(page.records[0].bytes, b"kept\n");
    assert!(page.complete);
    house.delete_index();
    house.driver.supervisor(&cell).print(&live, Stream::Stdout, b"x");
    let page = ask(&house.engine(), poll(&live, 0)).await.unwrap();
    assert!(!page.complete);
    house.delete_index();
    let all = ExecList { cell: None, status: None, limit: 50, cursor: None };
    assert_eq!(ask(&house.engine(), all).await.unwrap().execs.len(), 2);
}

#[tokio::test]
async fn execs_of_a_cell_that_is_gone_come_back_from_its_records() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let exec = ask(&engine, shell(&cell, "echo kept")).await.unwrap().exec.id;
    ask(
        &engine,
        CellKill { cell: cell.clone().into(), force: true, volumes: true, wait: KillWait::Removed },
    )
    .await
    .unwrap();
    house.delete_index();
    let engine = house.engine();
    let seen = ask(&engine, ExecGet { exec: exec.clone() }).await.unwrap();
    assert_eq!(seen.end.unwrap().exit_code, Some(0));
    assert_eq!(ask(&engine, poll(&exec, 0)).await.unwrap().records[0].bytes, b"kept\n");
    assert!(ask(&engine, CellList { include_stopped: true }).await.unwrap().cells.is_empty());
    assert!(ask(&engine, shell(&cell, "echo x")).await.is_err());
}

/// Whether an engine knows a cell by every way to it, and the exec that ran in it.
async fn knows(engine: &Engine, cell: &CellId, alias: &Alias, exec: &ExecId) {
    let listed = ask(engine, CellList { include_stopped: true }).await.unwrap().cells;
    assert_eq!(listed.iter().map(|cell| &cell.id).collect::<Vec<_>>(), [cell]);
    let by_alias = ask(engine, CellInfo { cell: CellRef::Alias(alias.clone()) }).await.unwrap();
    assert_eq!(&by_alias.cell.id, cell);
    let seen = ask(engine, ExecGet { exec: exec.clone() }).await.unwrap();
    assert_eq!(seen.end.unwrap().exit_code, Some(0));
    let all = ExecList { cell: None, status: None, limit: 50, cursor: None };
    assert!(ask(engine, all).await.unwrap().execs.iter().any(|listed| &listed.id == exec));
}

#[tokio::test]
async fn an_engine_that_runs_on_rebuilds_an_index_that_is_lost_again_and_again() {
    let house = House::new();
    let engine = house.engine();
    let alias: Alias = "work".parse().unwrap();
    let spawn =
        CellSpawn { alias: Some(alias.clone()), keep: Keep::Always, ..CellSpawn::default() };
    let cell = ask(&engine, spawn).await.unwrap().id;
    let exec = ask(&engine, shell(&cell, "echo kept")).await.unwrap().exec.id;
    knows(&engine, &cell, &alias, &exec).await;
    for round in 0..3 {
        house.delete_index();
        // Through the link that it has: the index is not asked for the cell.
        let run = ExecRun { wait_s: 30.0, ..shell(&cell, "echo more") };
        let more = ask(&engine, run).await.unwrap().exec;
        let seen = ask(&engine, ExecGet { exec: more.id.clone() }).await.unwrap();
        assert_eq!(seen.end, more.end, "round {round}");
        knows(&engine, &cell, &alias, &exec).await;
        house.delete_index();
        knows(&engine, &cell, &alias, &exec).await;
    }
}

#[tokio::test]
async fn an_engine_that_runs_on_rebuilds_an_index_that_is_overwritten() {
    let house = House::new();
    let engine = house.engine();
    let alias: Alias = "work".parse().unwrap();
    let spawn =
        CellSpawn { alias: Some(alias.clone()), keep: Keep::Always, ..CellSpawn::default() };
    let cell = ask(&engine, spawn).await.unwrap().id;
    let exec = ask(&engine, shell(&cell, "echo kept")).await.unwrap().exec.id;
    knows(&engine, &cell, &alias, &exec).await;
    house.damage_index();
    // What it writes from now on goes on top of garbage.
    for _ in 0..3 {
        ask(&engine, shell(&cell, "echo more")).await.unwrap();
        knows(&engine, &cell, &alias, &exec).await;
    }
    knows(&house.engine(), &cell, &alias, &exec).await;
}

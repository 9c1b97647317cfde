//! Tests of an index that was lost: everything but the keys comes back.

use hotcell_model::{
    CellKill, CellList, CellRef, CellSpawn, CellState, ExecGet, ExecList, Keep, KillWait, Stream,
};

use crate::testing::{House, ask, isolation, persistent, poll, run_forever, shell};

#[tokio::test]
async fn cells_come_back_by_id_by_alias_and_in_lists() {
    let house = House::new();
    let alias: hotcell_model::Alias = "work".parse().unwrap();
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
    ask(&engine, CellKill { cell: cell.clone().into(), force: true, wait: KillWait::Removed })
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

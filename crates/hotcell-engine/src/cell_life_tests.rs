//! Tests of a cell's life: sleep, death, waking, showing, killing.

use std::sync::atomic::Ordering;

use hotcell_model::{
    CellId, CellInfo, CellKill, CellList, CellSpawn, CellState, CloseReason, EndCause, ErrorCode,
    ExecGet, Keep, KillWait, Stream,
};

use crate::testing::{House, ask, persistent, poll, run_forever, shell};
use crate::testing_supervisor::Fault;

async fn states(house: &House, include_stopped: bool) -> Vec<(CellId, CellState)> {
    let cells = ask(&house.engine(), CellList { include_stopped }).await.unwrap().cells;
    cells.into_iter().map(|cell| (cell.id, cell.state)).collect()
}

#[tokio::test]
async fn a_sleeping_cell_is_listed_and_wakes_at_the_next_run() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    house.driver.supervisor(&cell).close(CloseReason::Asleep).await;
    assert_eq!(states(&house, false).await, [(cell.clone(), CellState::Asleep)]);
    let info = ask(&engine, CellInfo { cell: cell.clone().into() }).await.unwrap();
    assert_eq!((info.cell.state, info.stats), (CellState::Asleep, None));
    assert_eq!(house.driver.starts(), 1);

    let result = ask(&engine, shell(&cell, "echo hi")).await.unwrap();
    assert_eq!(result.exec.cell, cell);
    assert_eq!(house.driver.starts(), 2);
    assert_eq!(states(&house, false).await, [(cell, CellState::Ready)]);
}

#[tokio::test]
async fn two_processes_wake_a_cell_once() {
    let house = House::new();
    let cell = persistent(&house.engine()).await;
    house.driver.supervisor(&cell).close(CloseReason::Asleep).await;
    let (one, two) = (house.engine(), house.engine());
    let (one, two) =
        tokio::join!(ask(&one, shell(&cell, "echo 1")), ask(&two, shell(&cell, "echo 2")));
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(house.driver.starts(), 2);
}

#[tokio::test]
async fn a_dead_supervisor_ends_its_execs_as_lost_and_keeps_the_cell() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let exec = run_forever(&engine, &cell).await;
    house.driver.supervisor(&cell).print(&exec, Stream::Stdout, b"kept\n");
    house.driver.supervisor(&cell).die().await;

    for engine in [&engine, &house.engine()] {
        let seen = ask(engine, ExecGet { exec: exec.clone() }).await.unwrap();
        assert_eq!(seen.end.unwrap().cause, EndCause::Lost);
        let page = ask(engine, poll(&exec, 0)).await.unwrap();
        assert!(page.complete);
        assert_eq!(page.records[0].bytes, b"kept\n");
    }
    assert_eq!(states(&house, false).await, []);
    assert_eq!(states(&house, true).await, [(cell.clone(), CellState::Stopped)]);

    ask(&engine, shell(&cell, "echo back")).await.unwrap();
    let seen = ask(&engine, ExecGet { exec }).await.unwrap();
    assert_eq!(seen.end.unwrap().cause, EndCause::Lost);
}

#[tokio::test]
async fn a_cell_that_ended_by_itself_is_removed_and_its_logs_stay() {
    let house = House::new();
    let engine = house.engine();
    let spawn = CellSpawn { keep: Keep::Exec, ..CellSpawn::default() };
    let cell = ask(&engine, spawn).await.unwrap().id;
    let exec = ask(&engine, shell(&cell, "echo hi")).await.unwrap().exec.id;
    house.driver.supervisor(&cell).close(CloseReason::ExecEnded).await;

    let refused = ask(&house.engine(), shell(&cell, "echo again")).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotFound);
    assert!(!house.driver.has(&cell));
    let page = ask(&house.engine(), poll(&exec, 0)).await.unwrap();
    assert_eq!(page.records[0].bytes, b"hi\n");
    assert_eq!(page.exec.end.unwrap().exit_code, Some(0));
}

#[tokio::test]
async fn info_shows_figures_and_live_execs() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let exec = run_forever(&engine, &cell).await;
    ask(&engine, shell(&cell, "echo done")).await.unwrap();
    let info = ask(&house.engine(), CellInfo { cell: cell.into() }).await.unwrap();
    assert_eq!(info.cell.state, CellState::Ready);
    assert_eq!(info.stats.unwrap().running, 1);
    assert_eq!(info.execs.iter().map(|e| &e.id).collect::<Vec<_>>(), [&exec]);
}

#[tokio::test]
async fn a_busy_cell_is_killed_only_by_force() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let exec = run_forever(&engine, &cell).await;
    let kill = |force| CellKill {
        cell: cell.clone().into(),
        force,
        volumes: true,
        wait: KillWait::Removed,
    };
    let refused = ask(&engine, kill(false)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Conflict);
    assert!(house.driver.supervisor(&cell).is_alive());

    ask(&engine, kill(true)).await.unwrap();
    assert!(!house.driver.has(&cell));
    assert_eq!(states(&house, true).await, []);
    let seen = ask(&house.engine(), ExecGet { exec }).await.unwrap();
    assert_eq!(seen.end.unwrap().cause, EndCause::Cancelled);
    let refused = ask(&engine, kill(true)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotFound);
}

#[tokio::test]
async fn a_kill_whose_question_got_lost_is_asked_again() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    run_forever(&engine, &cell).await;
    let supervisor = house.driver.supervisor(&cell);
    supervisor.inject(&[Fault::LoseQuestion]);
    let kill = |force| CellKill {
        cell: cell.clone().into(),
        force,
        volumes: true,
        wait: KillWait::Removed,
    };
    let refused = ask(&engine, kill(false)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Conflict);
    assert!(supervisor.is_alive());
    supervisor.inject(&[Fault::DieAfterDoing]);
    ask(&engine, kill(true)).await.unwrap();
    assert!(!house.driver.has(&cell));
}

#[tokio::test]
async fn sleeping_and_stopped_cells_can_be_killed() {
    let house = House::new();
    let engine = house.engine();
    for asleep in [true, false] {
        let cell = persistent(&engine).await;
        let supervisor = house.driver.supervisor(&cell);
        if asleep {
            supervisor.close(CloseReason::Asleep).await;
        } else {
            supervisor.die().await;
        }
        ask(
            &engine,
            CellKill {
                cell: cell.clone().into(),
                force: false,
                volumes: true,
                wait: KillWait::Removed,
            },
        )
        .await
        .unwrap();
        assert!(!house.driver.has(&cell));
    }
}

#[tokio::test]
async fn a_place_that_cannot_be_reached_is_said_so() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let exec = run_forever(&engine, &cell).await;
    house.driver.out_of_reach.store(true, Ordering::SeqCst);
    assert_eq!(states(&house, false).await, [(cell.clone(), CellState::Unavailable)]);
    let other = house.engine();
    let refused = ask(&other, shell(&cell, "echo")).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Unavailable);
    // Nobody knows that it ended, so nobody says so.
    assert!(ask(&other, ExecGet { exec }).await.unwrap().end.is_none());
}

#[tokio::test]
async fn unknown_cells_are_not_found_with_a_hint() {
    let house = House::new();
    let unknown = CellId::from_random(7);
    let refused = ask(&house.engine(), CellInfo { cell: unknown.into() }).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotFound);
    assert!(refused.hint.is_some());
}

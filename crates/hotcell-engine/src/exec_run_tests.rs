//! Tests of running: results, keys, and connections and supervisors that are lost on the way.

use hotcell_model::{
    CellId, CellKill, CellSpawn, CloseReason, EndCause, ErrorCode, ExecResult, ExecRun, ExecState,
    Keep, KillWait, Record, Stream,
};

use crate::testing::{House, ask, persistent, poll, run_forever, shell};
use crate::testing_supervisor::Fault;

fn waiting(cell: &CellId, text: &str) -> ExecRun {
    ExecRun { wait_s: 30.0, ..shell(cell, text) }
}

fn keyed(cell: &CellId, text: &str) -> ExecRun {
    ExecRun { idempotency_key: Some("k".to_owned()), ..waiting(cell, text) }
}

fn text(records: &[Record]) -> String {
    records.iter().map(|record| String::from_utf8_lossy(&record.bytes).into_owned()).collect()
}

#[tokio::test]
async fn a_run_that_ends_in_time_has_its_output_and_end() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let result = ask(&engine, waiting(&cell, "echo hello")).await.unwrap();
    assert_eq!(text(&result.records), "hello\n");
    assert_eq!(result.exec.state, ExecState::Ended);
    assert_eq!(result.exec.end.unwrap().exit_code, Some(0));
    assert_eq!((result.next_seq, result.truncated), (1, false));
}

#[tokio::test]
async fn a_run_without_a_wait_is_handed_back_at_once() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let result = ask(&engine, shell(&cell, "forever")).await.unwrap();
    assert_eq!(result.exec.state, ExecState::Running);
    assert!(result.records.is_empty());
}

#[tokio::test]
async fn a_queued_exec_is_told_as_queued_and_whole_at_its_end() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let supervisor = house.driver.supervisor(&cell);
    supervisor.queue_next();
    let queued = ask(&engine, shell(&cell, "forever")).await.unwrap().exec;
    assert_eq!((queued.state, queued.started_at), (ExecState::Queued, None));

    supervisor.queue_next();
    let run = ask(&engine, waiting(&cell, "forever"));
    let play = async {
        while supervisor.starts() < 2 {
            tokio::task::yield_now().await;
        }
        let exec = supervisor.running().into_iter().find(|exec| *exec != queued.id).unwrap();
        supervisor.begin_queued(&exec);
        supervisor.exit(&exec, 3);
    };
    let (result, ()) = tokio::join!(run, play);
    let exec = result.unwrap().exec;
    assert!(exec.started_at.is_some());
    assert_eq!(exec.end.unwrap().exit_code, Some(3));
}

#[tokio::test]
async fn what_the_supervisor_refuses_is_passed_on() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let refused = ask(&engine, keyed(&cell, "refuse")).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Unsupported);
    // The key is free again.
    ask(&engine, keyed(&cell, "echo x")).await.unwrap();
}

#[tokio::test]
async fn a_lost_question_or_answer_starts_it_once() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let supervisor = house.driver.supervisor(&cell);
    for fault in [Fault::LoseQuestion, Fault::LoseAnswer] {
        supervisor.inject(&[fault, fault]);
        let before = supervisor.starts();
        let result = ask(&engine, waiting(&cell, "echo once")).await.unwrap();
        assert_eq!(text(&result.records), "once\n");
        assert_eq!(supervisor.starts(), before + 1, "{fault:?}");
    }
}

#[tokio::test]
async fn an_exec_whose_supervisor_died_before_the_answer_is_lost_and_not_run_again() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    house.driver.supervisor(&cell).inject(&[Fault::DieAfterDoing]);
    let exec = ask(&engine, waiting(&cell, "forever")).await.unwrap().exec;
    assert_eq!(exec.end.unwrap().cause, EndCause::Lost);
    assert_eq!(house.driver.starts(), 1);
}

#[tokio::test]
async fn an_exec_that_ended_before_the_answer_was_lost_is_answered_from_the_journal() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    house.driver.supervisor(&cell).inject(&[Fault::DieAfterDoing]);
    let result = ask(&engine, waiting(&cell, "echo done")).await.unwrap();
    assert_eq!(text(&result.records), "done\n");
    assert_eq!(result.exec.end.unwrap().exit_code, Some(0));
    assert_eq!(house.driver.starts(), 1);
}

#[tokio::test]
async fn a_question_lost_with_its_supervisor_is_asked_of_the_next() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    run_forever(&engine, &cell).await;
    let first = house.driver.supervisor(&cell);
    first.close(CloseReason::Asleep).await;
    let result = ask(&engine, waiting(&cell, "echo awake")).await.unwrap();
    assert_eq!(text(&result.records), "awake\n");
}

#[tokio::test]
async fn one_key_is_one_exec_across_processes() {
    let house = House::new();
    let cell = persistent(&house.engine()).await;
    let first = ask(&house.engine(), keyed(&cell, "echo once")).await.unwrap();
    let second = ask(&house.engine(), keyed(&cell, "echo once")).await.unwrap();
    assert_eq!(first.exec, second.exec);
    assert_eq!(first.records, second.records);
    assert_eq!(house.driver.supervisor(&cell).starts(), 1);
    // The wait is no part of what was asked for.
    let unhurried = ExecRun { wait_s: 1.0, ..keyed(&cell, "echo once") };
    assert_eq!(ask(&house.engine(), unhurried).await.unwrap().exec.id, first.exec.id);
    let refused = ask(&house.engine(), keyed(&cell, "echo twice")).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Conflict);
    let other = persistent(&house.engine()).await;
    let elsewhere = ask(&house.engine(), keyed(&other, "echo twice")).await.unwrap();
    assert_ne!(elsewhere.exec.id, first.exec.id);
}

#[tokio::test]
async fn racing_runs_with_one_key_are_one_exec() {
    let house = House::new();
    let cell = persistent(&house.engine()).await;
    let (one, two) = (house.engine(), house.engine());
    let (one, two) =
        tokio::join!(ask(&one, keyed(&cell, "echo once")), ask(&two, keyed(&cell, "echo once")));
    assert_eq!(one.unwrap().exec.id, two.unwrap().exec.id);
    assert_eq!(house.driver.supervisor(&cell).starts(), 1);
}

#[tokio::test]
async fn a_key_answers_after_its_supervisor_and_after_its_cell() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let first = ask(&engine, keyed(&cell, "echo once")).await.unwrap();
    house.driver.supervisor(&cell).die().await;
    let again = ask(&engine, keyed(&cell, "echo once")).await.unwrap();
    assert_eq!((&again.exec, &again.records), (&first.exec, &first.records));
    assert_eq!(house.driver.starts(), 1);

    ask(
        &engine,
        CellKill { cell: cell.clone().into(), force: true, volumes: true, wait: KillWait::Removed },
    )
    .await
    .unwrap();
    let again = ask(&house.engine(), keyed(&cell, "echo once")).await.unwrap();
    assert_eq!(again.exec, first.exec);
}

/// What `hotcell run` without a cell does with a key.
async fn run_keyed(house: &House, text: &str) -> hotcell_model::Result<ExecResult> {
    let engine = house.engine();
    let idempotency_key = Some("k".to_owned());
    let spawn = CellSpawn { keep: Keep::Holder, idempotency_key, ..CellSpawn::default() };
    let cell = ask(&engine, spawn).await?.id;
    let ran = ask(&engine, keyed(&cell, text)).await;
    let kill =
        CellKill { cell: cell.clone().into(), force: true, volumes: true, wait: KillWait::Ended };
    match ask(&engine, kill).await {
        Err(error) if error.code != ErrorCode::NotFound => Err(error),
        Ok(_) | Err(_) => ran,
    }
}

#[tokio::test]
async fn a_key_answers_after_the_cell_that_was_made_for_it() {
    let house = House::new();
    let first = run_keyed(&house, "echo once").await.unwrap();
    assert_eq!(text(&first.records), "once\n");
    // Over and not cleared away the first time, ended in the index the second time.
    for _ in 0..2 {
        let again = run_keyed(&house, "echo once").await.unwrap();
        assert_eq!((&again.exec, &again.records), (&first.exec, &first.records));
        assert!(!house.driver.has(&first.exec.cell));
    }
    assert_eq!(house.driver.starts(), 1);
    let refused = run_keyed(&house, "echo twice").await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Conflict);
}

#[tokio::test]
async fn a_key_whose_cell_ended_before_anything_ran_is_free() {
    let house = House::new();
    let engine = house.engine();
    let idempotency_key = Some("k".to_owned());
    let spawn = CellSpawn { keep: Keep::Holder, idempotency_key, ..CellSpawn::default() };
    let cell = ask(&engine, spawn).await.unwrap().id;
    house.driver.supervisor(&cell).close(CloseReason::Orphaned).await;
    let ran = run_keyed(&house, "echo once").await.unwrap();
    assert_eq!(text(&ran.records), "once\n");
    assert_ne!(ran.exec.cell, cell);
}

#[tokio::test]
async fn a_large_result_keeps_head_and_tail() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let supervisor = house.driver.supervisor(&cell);
    let run = ask(&engine, waiting(&cell, "forever"));
    // On a thread of its own: the socket holds less than all of it.
    let play = tokio::task::spawn_blocking(move || {
        while supervisor.running().is_empty() {
            std::thread::yield_now();
        }
        let exec = supervisor.running().remove(0);
        for number in 0..160_u32 {
            let line = format!("{number:04}").repeat(4096);
            supervisor.print(&exec, Stream::Stdout, line.as_bytes());
        }
        supervisor.exit(&exec, 0);
    });
    let (result, played) = tokio::join!(run, play);
    played.unwrap();
    let result = result.unwrap();
    assert!(result.truncated);
    assert_eq!(result.next_seq, 160);
    let seqs: Vec<u64> = result.records.iter().map(|record| record.seq).collect();
    assert_eq!(seqs, (1..=32).chain(129..=160).collect::<Vec<_>>());
    let page = ask(&engine, poll(&result.exec.id, 32)).await.unwrap();
    assert_eq!(page.records[0].seq, 33);
}

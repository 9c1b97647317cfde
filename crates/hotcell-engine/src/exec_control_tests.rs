//! Tests of input, signals, cancelling and listing.

use hotcell_model::{
    CancelStatus, EndCause, ErrorCode, ExecCancel, ExecGet, ExecId, ExecInput, ExecList,
    ExecStatusFilter, Signal, TerminalSize,
};

use crate::testing::{House, ask, persistent, run_forever, shell};
use crate::testing_supervisor::Fault;

fn cancel(exec: &ExecId) -> ExecCancel {
    ExecCancel { exec: exec.clone(), signal: Signal::TERM, grace_s: 5.0 }
}

fn list() -> ExecList {
    ExecList { cell: None, status: None, limit: 50, cursor: None }
}

#[tokio::test]
async fn input_arrives_whole_and_in_order() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let exec = run_forever(&engine, &cell).await;
    let data: Vec<u8> = (0..(5 << 19)).map(|place: u32| (place % 251) as u8).collect();
    let eof = true;
    ask(&engine, ExecInput { data: data.clone(), eof, ..ExecInput::to(exec.clone()) })
        .await
        .unwrap();
    let supervisor = house.driver.supervisor(&cell);
    assert!(supervisor.input(&exec) == (data, true));

    let other = run_forever(&engine, &cell).await;
    let signal = Some(Signal::HUP);
    ask(&house.engine(), ExecInput { signal, ..ExecInput::to(other.clone()) }).await.unwrap();
    assert_eq!(supervisor.signals(&other), [Signal::HUP]);
    ask(&engine, ExecInput { eof, ..ExecInput::to(other.clone()) }).await.unwrap();
    assert_eq!(supervisor.input(&other), (Vec::new(), true));
    let size = Some(TerminalSize { rows: 0, cols: 1 });
    let refused = ask(&engine, ExecInput { size, ..ExecInput::to(other) }).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Invalid);
}

#[tokio::test]
async fn input_for_an_exec_that_has_ended_is_a_conflict() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let ended = ask(&engine, shell(&cell, "echo x")).await.unwrap().exec.id;
    let lost = run_forever(&engine, &cell).await;
    let input = |exec: &ExecId| ExecInput { eof: true, ..ExecInput::to(exec.clone()) };
    let refused = ask(&engine, input(&ended)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Conflict);
    assert_eq!(refused.message, format!("exec {ended} has ended"));
    house.driver.supervisor(&cell).die().await;
    for exec in [&ended, &lost] {
        let refused = ask(&engine, input(exec)).await.unwrap_err();
        assert_eq!(refused.message, format!("exec {exec} has ended"));
    }
}

#[tokio::test]
async fn input_is_not_sent_twice() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let exec = run_forever(&engine, &cell).await;
    let supervisor = house.driver.supervisor(&cell);
    supervisor.inject(&[Fault::LoseAnswer]);
    let input = ExecInput { data: b"rm\n".to_vec(), ..ExecInput::to(exec.clone()) };
    let refused = ask(&engine, input).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Unavailable);
    assert_eq!(supervisor.input(&exec).0, b"rm\n");
}

#[tokio::test]
async fn a_cancel_ends_what_runs_and_leaves_what_has_ended() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let exec = run_forever(&engine, &cell).await;
    let supervisor = house.driver.supervisor(&cell);
    supervisor.inject(&[Fault::LoseQuestion]);
    let answer = ask(&house.engine(), cancel(&exec)).await.unwrap();
    assert_eq!(answer.status, CancelStatus::Cancelled);
    let seen = ask(&engine, ExecGet { exec: exec.clone() }).await.unwrap();
    assert_eq!(seen.end.unwrap().cause, EndCause::Cancelled);
    let answer = ask(&engine, cancel(&exec)).await.unwrap();
    assert_eq!(answer.status, CancelStatus::AlreadyEnded);

    let lost = run_forever(&engine, &cell).await;
    supervisor.die().await;
    run_forever(&house.engine(), &cell).await;
    let answer = ask(&engine, cancel(&lost)).await.unwrap();
    assert_eq!(answer.status, CancelStatus::AlreadyEnded);
    let answer = ask(&engine, cancel(&ExecId::from_random(5))).await.unwrap();
    assert_eq!(answer.status, CancelStatus::NotFound);
    let endless = ExecCancel { grace_s: f64::NAN, ..cancel(&lost) };
    assert_eq!(ask(&engine, endless).await.unwrap_err().code, ErrorCode::Invalid);
}

#[tokio::test]
async fn execs_are_listed_newest_first_in_pages() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let mut execs = Vec::new();
    for _ in 0..5 {
        execs.push(run_forever(&engine, &cell).await);
    }
    execs.reverse();
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page = ask(&house.engine(), ExecList { limit: 2, cursor, ..list() }).await.unwrap();
        seen.extend(page.execs.into_iter().map(|exec| exec.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, execs);
    let bad = ExecList { cursor: Some("yesterday".to_owned()), ..list() };
    assert_eq!(ask(&engine, bad).await.unwrap_err().code, ErrorCode::Invalid);
    let none = ExecList { limit: 0, ..list() };
    assert_eq!(ask(&engine, none).await.unwrap_err().code, ErrorCode::Invalid);
}

#[tokio::test]
async fn lists_tell_the_living_from_the_lost() {
    let house = House::new();
    let engine = house.engine();
    let (dead, alive) = (persistent(&engine).await, persistent(&engine).await);
    let lost = run_forever(&engine, &dead).await;
    let live = run_forever(&engine, &alive).await;
    house.driver.supervisor(&dead).die().await;
    let listed = async |status, cell: Option<&hotcell_model::CellId>| {
        let cell = cell.map(|cell| cell.clone().into());
        let execs = ask(&house.engine(), ExecList { status: Some(status), cell, ..list() }).await;
        execs.unwrap().execs.into_iter().map(|exec| exec.id).collect::<Vec<_>>()
    };
    assert_eq!(listed(ExecStatusFilter::Live, None).await, [live]);
    assert_eq!(listed(ExecStatusFilter::Ended, None).await, std::slice::from_ref(&lost));
    assert_eq!(listed(ExecStatusFilter::Live, Some(&dead)).await, []);
    assert_eq!(listed(ExecStatusFilter::Ended, Some(&dead)).await, [lost]);
}

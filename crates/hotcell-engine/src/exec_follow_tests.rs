//! Tests of following: in order, whole, across lost links and dead supervisors.

use hotcell_model::{
    Caller, CellId, CellKill, EndCause, ErrorCode, Exec, ExecFollow, ExecId, KillWait, Pace, Stream,
};

use crate::testing::{House, ask, persistent, run_forever};
use crate::testing_supervisor::Fault;
use crate::{Engine, ExecEvent, ExecStream};

async fn follow(engine: &Engine, exec: &ExecId, after_seq: u64) -> ExecStream {
    let request = ExecFollow { exec: exec.clone(), after_seq, pace: Pace::Free };
    engine.follow(&Caller::local(1000), request).await.unwrap()
}

async fn record(stream: &mut ExecStream) -> (u64, String) {
    match stream.next().await.unwrap().unwrap() {
        ExecEvent::Record(record) => (record.seq, String::from_utf8(record.bytes).unwrap()),
        other @ (ExecEvent::Dropped(_) | ExecEvent::Ended(_)) => panic!("no record: {other:?}"),
    }
}

/// The rest: seqs of records and gaps, and the exec at the end.
async fn rest(stream: &mut ExecStream) -> (Vec<u64>, Exec) {
    let mut seqs = Vec::new();
    loop {
        match stream.next().await.unwrap().unwrap() {
            ExecEvent::Record(record) => seqs.push(record.seq),
            ExecEvent::Dropped(dropped) => panic!("unexpected gap: {dropped:?}"),
            ExecEvent::Ended(exec) => {
                assert!(stream.next().await.unwrap().is_none());
                return (seqs, exec);
            }
        }
    }
}

async fn running(house: &House) -> (Engine, CellId, ExecId) {
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let exec = run_forever(&engine, &cell).await;
    (engine, cell, exec)
}

#[tokio::test]
async fn output_comes_as_it_is_printed_and_then_the_end() {
    let house = House::new();
    let (engine, cell, exec) = running(&house).await;
    let supervisor = house.driver.supervisor(&cell);
    supervisor.print(&exec, Stream::Stdout, b"early");
    let mut stream = follow(&engine, &exec, 0).await;
    assert_eq!(record(&mut stream).await, (1, "early".to_owned()));
    supervisor.print(&exec, Stream::Stderr, b"late");
    assert_eq!(record(&mut stream).await, (2, "late".to_owned()));
    supervisor.exit(&exec, 4);
    let (seqs, ended) = rest(&mut stream).await;
    assert!(seqs.is_empty());
    assert_eq!(ended.end.unwrap().exit_code, Some(4));
    assert_eq!((ended.id, ended.cell), (exec, cell));
}

#[tokio::test]
async fn an_ended_exec_is_read_from_its_files() {
    let house = House::new();
    let (engine, cell, exec) = running(&house).await;
    let supervisor = house.driver.supervisor(&cell);
    (0..5).for_each(|_| supervisor.print(&exec, Stream::Stdout, b"x"));
    supervisor.exit(&exec, 0);
    ask(
        &engine,
        CellKill { cell: cell.into(), force: true, volumes: true, wait: KillWait::Removed },
    )
    .await
    .unwrap();
    let mut stream = follow(&house.engine(), &exec, 2).await;
    let (seqs, ended) = rest(&mut stream).await;
    assert_eq!(seqs, [3, 4, 5]);
    assert_eq!(ended.end.unwrap().exit_code, Some(0));
}

#[tokio::test]
async fn a_lost_link_is_opened_again_without_repeats_or_holes() {
    let house = House::new();
    let (engine, cell, exec) = running(&house).await;
    let supervisor = house.driver.supervisor(&cell);
    let mut stream = follow(&engine, &exec, 0).await;
    for seq in 1..=6 {
        supervisor.print(&exec, Stream::Stdout, b"x");
        if seq % 2 == 0 {
            supervisor.drop_links();
        }
        assert_eq!(record(&mut stream).await.0, seq);
    }
    supervisor.inject(&[Fault::LoseQuestion, Fault::LoseAnswer]);
    supervisor.drop_links();
    supervisor.print(&exec, Stream::Stdout, b"last");
    supervisor.exit(&exec, 0);
    assert_eq!(rest(&mut stream).await.0, [7]);
}

#[tokio::test]
async fn a_dead_supervisor_leaves_what_was_printed_and_a_lost_exec() {
    let house = House::new();
    let (engine, cell, exec) = running(&house).await;
    let supervisor = house.driver.supervisor(&cell);
    let mut stream = follow(&engine, &exec, 0).await;
    supervisor.print(&exec, Stream::Stdout, b"x");
    assert_eq!(record(&mut stream).await.0, 1);
    supervisor.drop_links();
    supervisor.print(&exec, Stream::Stdout, b"y");
    supervisor.die().await;
    let (seqs, ended) = rest(&mut stream).await;
    assert_eq!(seqs, [2]);
    assert_eq!(ended.end.unwrap().cause, EndCause::Lost);
}

#[tokio::test]
async fn an_end_that_was_missed_is_read_from_the_journal() {
    let house = House::new();
    let (engine, cell, exec) = running(&house).await;
    let supervisor = house.driver.supervisor(&cell);
    let mut stream = follow(&engine, &exec, 0).await;
    supervisor.drop_links();
    supervisor.print(&exec, Stream::Stdout, b"x");
    supervisor.exit(&exec, 7);
    supervisor.die().await;
    let (seqs, ended) = rest(&mut stream).await;
    assert_eq!(seqs, [1]);
    assert_eq!(ended.end.unwrap().exit_code, Some(7));
}

#[tokio::test]
async fn a_cell_that_was_woken_meanwhile_does_not_confuse_its_followers() {
    let house = House::new();
    let (engine, cell, exec) = running(&house).await;
    let mut stream = follow(&engine, &exec, 0).await;
    house.driver.supervisor(&cell).die().await;
    run_forever(&house.engine(), &cell).await;
    let (_, ended) = rest(&mut stream).await;
    assert_eq!(ended.end.unwrap().cause, EndCause::Lost);
}

#[tokio::test]
async fn what_was_dropped_is_stated_once_with_its_numbers() {
    let mut house = House::new();
    house.settings.output_bytes = 64 * 1024;
    let (engine, cell, exec) = running(&house).await;
    let supervisor = house.driver.supervisor(&cell);
    (0..40).for_each(|_| supervisor.print(&exec, Stream::Stdout, &[b'x'; 4096]));
    let mut stream = follow(&engine, &exec, 0).await;
    supervisor.exit(&exec, 0);
    let (mut last_seq, mut bytes, mut gaps) = (0, 0, 0);
    let ended = loop {
        match stream.next().await.unwrap().unwrap() {
            ExecEvent::Record(record) => {
                assert_eq!(record.seq, last_seq + 1);
                last_seq = record.seq;
                bytes += record.bytes.len() as u64;
            }
            ExecEvent::Dropped(dropped) => {
                assert_eq!(dropped.from_seq, last_seq + 1);
                last_seq = dropped.to_seq;
                bytes += dropped.dropped_bytes;
                gaps += 1;
            }
            ExecEvent::Ended(exec) => break exec,
        }
    };
    assert_eq!((last_seq, bytes, gaps), (40, 40 * 4096, 1));
    assert_eq!(ended.end.unwrap().usage.stdout_bytes, 40 * 4096);
}

#[tokio::test]
async fn what_did_not_come_before_the_end_is_read_from_the_files() {
    let house = House::new();
    let (engine, cell, exec) = running(&house).await;
    let supervisor = house.driver.supervisor(&cell);
    supervisor.print(&exec, Stream::Stdout, b"x");
    let mut stream = follow(&engine, &exec, 0).await;
    assert_eq!(record(&mut stream).await.0, 1);
    supervisor.exit_unheard(&exec, b"y");
    let (seqs, ended) = rest(&mut stream).await;
    assert_eq!(seqs, [2]);
    assert_eq!(ended.end.unwrap().usage.stdout_bytes, 2);
}

#[tokio::test]
async fn a_cancelled_wait_loses_nothing() {
    let house = House::new();
    let (engine, cell, exec) = running(&house).await;
    let supervisor = house.driver.supervisor(&cell);
    let mut stream = follow(&engine, &exec, 0).await;
    let mut seqs = Vec::new();
    for seq in 1..=20 {
        supervisor.print(&exec, Stream::Stdout, b"x");
        if seq == 10 {
            supervisor.drop_links();
        }
        let next = tokio::time::timeout(std::time::Duration::ZERO, stream.next()).await;
        if let Ok(Ok(Some(ExecEvent::Record(record)))) = next {
            seqs.push(record.seq);
        }
    }
    supervisor.exit(&exec, 0);
    seqs.extend(rest(&mut stream).await.0);
    assert_eq!(seqs, (1..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_unknown_exec_is_not_found() {
    let house = House::new();
    let request = ExecFollow { exec: ExecId::from_random(3), after_seq: 0, pace: Pace::Free };
    let refused = house.engine().follow(&Caller::local(1000), request).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotFound);
}

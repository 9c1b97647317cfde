//! Tests of polling: what comes, where it goes on, when it is complete, and waiting.

use hotcell_model::{ErrorCode, ExecId, ExecPoll, ExecState, OutputFilter, Stream};

use crate::testing::{House, ask, persistent, poll, run_forever};

async fn printing(house: &House, parts: &[(Stream, &[u8])]) -> (crate::Engine, ExecId) {
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let exec = run_forever(&engine, &cell).await;
    let supervisor = house.driver.supervisor(&cell);
    for (stream, bytes) in parts {
        supervisor.print(&exec, *stream, bytes);
    }
    // The run was followed until it was handed back.
    while supervisor.followers() > 0 {
        tokio::task::yield_now().await;
    }
    (engine, exec)
}

fn only(filter: OutputFilter, exec: &ExecId) -> ExecPoll {
    ExecPoll { filter, ..poll(exec, 0) }
}

fn exit(house: &House, engine_exec: &ExecId) {
    house.driver.only_supervisor().exit(engine_exec, 0);
}

#[tokio::test]
async fn pages_follow_each_other_without_gaps_until_complete() {
    let house = House::new();
    let (engine, exec) = printing(
        &house,
        &[(Stream::Stdout, b"one\n"), (Stream::Stderr, b"two\n"), (Stream::Stdout, b"three\n")],
    )
    .await;
    // Raised to one record.
    let first = ask(&engine, ExecPoll { max_bytes: 0, ..poll(&exec, 0) }).await.unwrap();
    assert_eq!(first.records.len(), 1);
    assert_eq!((first.next_seq, first.complete), (1, false));
    exit(&house, &exec);
    let second = ask(&engine, ExecPoll { max_bytes: 1, ..poll(&exec, 1) }).await.unwrap();
    assert_eq!(second.exec.state, ExecState::Ended);
    assert_eq!((second.next_seq, second.complete), (2, false));
    let third = ask(&engine, poll(&exec, 2)).await.unwrap();
    assert_eq!(third.records[0].bytes, b"three\n");
    assert_eq!((third.next_seq, third.complete), (3, true));
    let none = ask(&engine, poll(&exec, 3)).await.unwrap();
    assert_eq!((none.records.len(), none.next_seq, none.complete), (0, 3, true));
}

#[tokio::test]
async fn pages_by_next_seq_are_all_of_the_output() {
    // Every byte there is, also half characters at the ends of records.
    let mut state = 1_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    let printed: Vec<u8> = (0..100_000).map(|_| random()).collect();
    let lines: Vec<u8> = (1..=5000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    for output in [&printed, &lines] {
        let house = House::new();
        let parts: Vec<(Stream, &[u8])> =
            output.chunks(16 * 1024).map(|part| (Stream::Stdout, part)).collect();
        let (engine, exec) = printing(&house, &parts).await;
        exit(&house, &exec);
        for max_bytes in [1000, 16 * 1024] {
            let (mut after_seq, mut read) = (0, Vec::new());
            loop {
                let page = ask(&engine, ExecPoll { max_bytes, ..poll(&exec, after_seq) });
                let page = page.await.unwrap();
                read.extend(page.records.into_iter().flat_map(|record| record.bytes));
                after_seq = page.next_seq;
                if page.complete {
                    break;
                }
            }
            assert!(read == *output, "{max_bytes}");
        }
    }
}

#[tokio::test]
async fn an_exec_that_printed_nothing_is_complete_when_it_ends() {
    let house = House::new();
    let (engine, exec) = printing(&house, &[]).await;
    let page = ask(&engine, poll(&exec, 0)).await.unwrap();
    assert_eq!((page.next_seq, page.complete), (0, false));
    exit(&house, &exec);
    let page = ask(&engine, poll(&exec, 0)).await.unwrap();
    assert_eq!((page.next_seq, page.complete), (0, true));
}

#[tokio::test]
async fn characters_stay_whole_between_pages() {
    let house = House::new();
    let (engine, exec) =
        printing(&house, &[(Stream::Stdout, b"a\xe2\x82"), (Stream::Stdout, b"\xac!")]).await;
    let first = ask(&engine, ExecPoll { max_bytes: 1, ..poll(&exec, 0) }).await.unwrap();
    assert_eq!(first.records[0].bytes, b"a");
    let second = ask(&engine, poll(&exec, first.next_seq)).await.unwrap();
    assert_eq!(second.records[0].bytes, "€!".as_bytes());
}

#[tokio::test]
async fn a_wait_ends_with_the_next_output() {
    let house = House::new();
    let (engine, exec) = printing(&house, &[]).await;
    let supervisor = house.driver.only_supervisor();
    let waiting = ask(&engine, ExecPoll { wait_s: 60.0, ..poll(&exec, 0) });
    let play = async {
        while supervisor.followers() == 0 {
            tokio::task::yield_now().await;
        }
        supervisor.print(&exec, Stream::Stdout, b"at last\n");
    };
    let (page, ()) = tokio::join!(waiting, play);
    assert_eq!(page.unwrap().records[0].bytes, b"at last\n");
}

#[tokio::test]
async fn a_wait_ends_with_the_exec_or_with_its_supervisor() {
    for dies in [false, true] {
        let house = House::new();
        let (engine, exec) = printing(&house, &[]).await;
        let supervisor = house.driver.only_supervisor();
        let waiting = ask(&engine, ExecPoll { wait_s: 60.0, ..poll(&exec, 0) });
        let play = async {
            while supervisor.followers() == 0 {
                tokio::task::yield_now().await;
            }
            if dies {
                supervisor.die().await;
            } else {
                supervisor.exit(&exec, 0);
            }
        };
        let (page, ()) = tokio::join!(waiting, play);
        assert!(page.unwrap().complete);
    }
}

#[tokio::test]
async fn a_wait_goes_on_across_lost_links_and_output_that_is_not_wanted() {
    let house = House::new();
    let (engine, exec) = printing(&house, &[]).await;
    let supervisor = house.driver.only_supervisor();
    let filter = OutputFilter { grep: Some("^wanted".to_owned()), ..OutputFilter::default() };
    let waiting = ask(&engine, ExecPoll { wait_s: 60.0, ..only(filter, &exec) });
    let play = async {
        while supervisor.followers() == 0 {
            tokio::task::yield_now().await;
        }
        supervisor.print(&exec, Stream::Stdout, b"other\nwan");
        supervisor.drop_links();
        while supervisor.followers() == 0 {
            tokio::task::yield_now().await;
        }
        supervisor.print(&exec, Stream::Stdout, b"ted\n");
    };
    let (page, ()) = tokio::join!(waiting, play);
    assert_eq!(page.unwrap().records[0].bytes, b"wanted\n");
}

#[tokio::test]
async fn filters_choose_streams_lines_and_matches() {
    let house = House::new();
    let (engine, exec) = printing(
        &house,
        &[
            (Stream::Stdout, b"one\ntwo\n"),
            (Stream::Stderr, b"oops\n"),
            (Stream::Stdout, b"three\nfour\n"),
        ],
    )
    .await;
    let filtered = async |filter: OutputFilter| {
        let page = ask(&engine, only(filter, &exec)).await.unwrap();
        assert_eq!(page.next_seq, 3);
        let bytes: Vec<u8> = page.records.into_iter().flat_map(|record| record.bytes).collect();
        String::from_utf8(bytes).unwrap()
    };
    let none = OutputFilter::default;
    assert_eq!(filtered(OutputFilter { stream: Some(Stream::Stderr), ..none() }).await, "oops\n");
    assert_eq!(filtered(OutputFilter { tail_lines: Some(1), ..none() }).await, "four\n");
    let grep = Some("^t|o{2}".to_owned());
    let matching = filtered(OutputFilter { grep: grep.clone(), ..none() }).await;
    assert_eq!(matching, "two\noops\nthree\n");
    let last = filtered(OutputFilter { grep, tail_lines: Some(2), ..none() }).await;
    assert_eq!(last, "oops\nthree\n");
}

#[tokio::test]
async fn bad_patterns_waits_and_ids_are_refused() {
    let house = House::new();
    let (engine, exec) = printing(&house, &[]).await;
    for pattern in ["(", "(a{1000}){1000}"] {
        let filter = OutputFilter { grep: Some(pattern.to_owned()), ..OutputFilter::default() };
        let refused = ask(&engine, only(filter, &exec)).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Invalid);
    }
    let refused = ask(&engine, ExecPoll { wait_s: -1.0, ..poll(&exec, 0) }).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Invalid);
    let refused = ask(&engine, poll(&ExecId::from_random(9), 0)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotFound);
    assert!(refused.hint.is_some());
}

#[tokio::test]
async fn a_gap_is_stated_on_its_page() {
    let mut house = House::new();
    house.settings.output_bytes = 64 * 1024;
    let (engine, exec) = printing(&house, &[]).await;
    let supervisor = house.driver.only_supervisor();
    for _ in 0..40 {
        supervisor.print(&exec, Stream::Stdout, &[b'x'; 4096]);
    }
    supervisor.exit(&exec, 0);
    let page = ask(&engine, poll(&exec, 0)).await.unwrap();
    assert!(page.complete);
    let dropped = page.dropped.unwrap();
    let kept: u64 = page.records.iter().map(|record| record.bytes.len() as u64).sum();
    assert_eq!(kept + dropped.dropped_bytes, 40 * 4096);
    assert!(dropped.from_seq > 1 && dropped.to_seq < 40);
}

//! Tests of what agents see of secrets: the same however it is paged, and nothing that is one.

use std::sync::Arc;
use std::time::Duration;

use hotcell_masking::Shapes;
use hotcell_model::{
    Approval, ApprovalNeed, Caller, Checked, CheckedLanguage, ErrorCode, ExecFollow, ExecGet,
    ExecId, ExecList, ExecPoll, ExecWait, Execs, OutputFilter, Pace, PolicyCheck, Query, Record,
    Reply, Result, Role, Stream, Timestamp,
};
use hotcell_policy::{Policy, PolicyError};

use crate::testing::{House, ask, persistent, poll, run_forever, shell};
use crate::view::View;
use crate::{Engine, ExecEvent, Policies, PolicyUse};

const LETTERS: &str = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0fG3iJ6lM9oP2rS5uV8";

fn token() -> String {
    format!("gh{}_{}", "p", &LETTERS[..36])
}

fn key() -> String {
    let line = format!("{LETTERS}{}", &LETTERS[..16]);
    let dashes = "-".repeat(5);
    format!(
        "{dashes}BEGIN PRIVATE KEY{dashes}\n{line}\n{line}\n{line}\n{dashes}END PRIVATE KEY{dashes}\n"
    )
}

fn agent() -> Caller {
    Caller::of("agent".to_owned(), Role::Agent)
}

async fn ask_as_agent<Q: Query>(engine: &Engine, query: Q) -> Result<Q::Answer> {
    engine.ask(&agent(), query).await
}

/// What is printed: secrets of several forms among what is none.
fn printed() -> String {
    format!(
        "start\nTOKEN={} end\nplain 1\n{}plain 2\npostgres://u:hunter2@h/d\n{}\nlast line\n",
        token(),
        key(),
        token()
    )
}

/// An exec that printed that to stdout in small records, with something else between them.
async fn printing(house: &House, piece: usize) -> (Engine, ExecId) {
    let (engine, exec) = running(house).await;
    let supervisor = house.driver.only_supervisor();
    // The run was followed until it was handed back.
    while supervisor.followers() > 0 {
        tokio::task::yield_now().await;
    }
    for (place, piece) in printed().as_bytes().chunks(piece).enumerate() {
        supervisor.print(&exec, Stream::Stdout, piece);
        if place % 5 == 0 {
            supervisor.print(&exec, Stream::Stderr, b"other\n");
        }
    }
    (engine, exec)
}

/// An exec that prints what it is told to.
async fn running(house: &House) -> (Engine, ExecId) {
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let exec = run_forever(&engine, &cell).await;
    (engine, exec)
}

fn of(stream: Stream, records: &[Record]) -> String {
    let records = records.iter().filter(|record| record.stream == stream);
    let bytes: Vec<u8> = records.flat_map(|record| record.bytes.iter().copied()).collect();
    String::from_utf8(bytes).unwrap()
}

/// Every page after a seq.
async fn pages(engine: &Engine, exec: &ExecId, asked: ExecPoll) -> Vec<Record> {
    let (mut records, mut after_seq) = (Vec::new(), asked.after_seq);
    loop {
        let page = ask_as_agent(engine, ExecPoll { after_seq, ..asked.clone() }).await.unwrap();
        assert!(page.next_seq > after_seq || page.complete, "{exec} stands still at {after_seq}");
        after_seq = page.next_seq;
        records.extend(page.records);
        if page.complete {
            return records;
        }
    }
}

#[tokio::test]
async fn however_output_is_paged_the_same_is_shown() {
    let expected = Shapes::default().redact_text(&printed());
    assert!(!expected.contains("hunter2") && expected.matches("[REDACTED:").count() == 4);
    for piece in [1, 3, 20, 4000] {
        let house = House::new();
        let (engine, exec) = printing(&house, piece).await;
        house.driver.only_supervisor().exit(&exec, 0);
        let one_by_one = pages(&engine, &exec, ExecPoll { max_bytes: 1, ..poll(&exec, 0) }).await;
        assert_eq!(of(Stream::Stdout, &one_by_one), expected, "pieces of {piece}");
        for max_bytes in [20, 300, 1 << 20] {
            let records = pages(&engine, &exec, ExecPoll { max_bytes, ..poll(&exec, 0) }).await;
            assert_eq!(records, one_by_one, "pieces of {piece}, pages of {max_bytes}");
        }
        let last = one_by_one.last().unwrap().seq;
        for after_seq in (0..last).step_by(1 + usize::try_from(last).unwrap() / 40) {
            let rest: Vec<Record> =
                one_by_one.iter().filter(|record| record.seq > after_seq).cloned().collect();
            let page = ask_as_agent(&engine, poll(&exec, after_seq)).await.unwrap();
            assert_eq!(page.records, rest, "pieces of {piece}, after {after_seq}");
        }
        // Each stream by itself.
        let filter = OutputFilter { stream: Some(Stream::Stdout), ..OutputFilter::default() };
        let asked = ExecPoll { max_bytes: 10, filter, ..poll(&exec, 0) };
        assert_eq!(of(Stream::Stdout, &pages(&engine, &exec, asked).await), expected);
        // The operator sees what was printed.
        let page = ask(&engine, poll(&exec, 0)).await.unwrap();
        assert_eq!(of(Stream::Stdout, &page.records), printed());
    }
}

#[tokio::test]
async fn the_last_lines_of_a_stream_are_shown_whichever_came_first() {
    let house = House::new();
    let (engine, exec) = printing(&house, 4000).await;
    house.driver.only_supervisor().exit(&exec, 0);
    for (tail_lines, expected) in [(1, "other\n"), (50, "other\n")] {
        let filter =
            OutputFilter { tail_lines: Some(tail_lines), grep: None, stream: Some(Stream::Stderr) };
        let page = ask_as_agent(&engine, ExecPoll { filter, ..poll(&exec, 0) }).await.unwrap();
        assert_eq!(of(Stream::Stderr, &page.records), expected, "{tail_lines} lines");
    }
}

#[tokio::test]
async fn lines_are_matched_and_counted_as_they_are_shown() {
    let house = House::new();
    let (engine, exec) = printing(&house, 7).await;
    house.driver.only_supervisor().exit(&exec, 0);
    let secret = token();
    let lines = async |grep: Option<&str>, tail_lines, max_bytes| {
        let filter = OutputFilter {
            tail_lines,
            grep: grep.map(str::to_owned),
            stream: Some(Stream::Stdout),
        };
        let asked = ExecPoll { max_bytes, filter, ..poll(&exec, 0) };
        match tail_lines {
            None => of(Stream::Stdout, &pages(&engine, &exec, asked).await),
            Some(_) => of(Stream::Stdout, &ask_as_agent(&engine, asked).await.unwrap().records),
        }
    };
    for max_bytes in [1, 30, 1 << 20] {
        assert_eq!(lines(Some(&secret[4..20]), None, max_bytes).await, "");
        assert_eq!(lines(Some("hunter|BEGIN|END"), None, max_bytes).await, "");
        assert_eq!(lines(Some("^plain"), None, max_bytes).await, "plain 1\nplain 2\n");
        let marked = lines(Some("REDACTED"), None, max_bytes).await;
        assert_eq!(marked.lines().count(), 4, "{marked}");
    }
    let all = 1 << 20;
    assert_eq!(lines(None, Some(1), all).await, "last line\n");
    assert_eq!(lines(None, Some(2), all).await, "[REDACTED:github-token]\nlast line\n");
    let many = lines(None, Some(6), all).await;
    assert!(many.starts_with("plain 1\n[REDACTED:private-key]\nplain 2\n"), "{many}");
    assert_eq!(lines(Some("plain|last"), Some(2), all).await, "plain 2\nlast line\n");
    let filter = OutputFilter { grep: Some(secret), ..OutputFilter::default() };
    let page = ask(&engine, ExecPoll { filter, ..poll(&exec, 0) }).await.unwrap();
    assert_eq!(page.records.len(), 2);
}

#[tokio::test]
async fn streams_and_results_show_the_same() {
    let house = House::new();
    let (engine, exec) = printing(&house, 9).await;
    let follow = async |after_seq| {
        let request = ExecFollow { exec: exec.clone(), after_seq, pace: Pace::Free };
        engine.follow(&agent(), request).await.unwrap()
    };
    let mut live = follow(0).await;
    house.driver.only_supervisor().exit(&exec, 0);
    let mut records = Vec::new();
    while let Some(event) = live.next().await.unwrap() {
        if let ExecEvent::Record(record) = event {
            records.push(record);
        }
    }
    let expected = Shapes::default().redact_text(&printed());
    assert_eq!(of(Stream::Stdout, &records), expected);
    for after_seq in (0..records.last().unwrap().seq).step_by(3) {
        let mut stream = follow(after_seq).await;
        let mut later = Vec::new();
        while let Some(event) = stream.next().await.unwrap() {
            if let ExecEvent::Record(record) = event {
                later.push(record);
            }
        }
        assert!(records.ends_with(&later), "after {after_seq}");
    }
    for result_bytes in [0, 40, 100, 1 << 20] {
        let wait = ExecWait { exec: exec.clone(), wait_s: 0.0, result_bytes };
        let result = ask_as_agent(&engine, wait).await.unwrap();
        for record in &result.records {
            assert!(records.contains(record), "{record:?}");
        }
        assert_eq!(result.truncated, result_bytes < 1000);
    }
}

#[tokio::test]
async fn what_may_begin_a_secret_is_held_back_for_a_moment() {
    let house = House::new();
    let (engine, exec) = running(&house).await;
    let supervisor = house.driver.only_supervisor();
    let token = token();
    supervisor.print(&exec, Stream::Stdout, b"first\n");
    supervisor.print(&exec, Stream::Stdout, format!("a {}", &token[..9]).as_bytes());
    let page = ask_as_agent(&engine, poll(&exec, 0)).await.unwrap();
    assert_eq!((of(Stream::Stdout, &page.records).as_str(), page.next_seq), ("first\n", 1));
    supervisor.print(&exec, Stream::Stdout, format!("{} b\n", &token[9..]).as_bytes());
    let page = ask_as_agent(&engine, poll(&exec, 1)).await.unwrap();
    assert_eq!(of(Stream::Stdout, &page.records), "a [REDACTED:github-token] b\n");
    // Nothing stands still for what never comes.
    supervisor.print(&exec, Stream::Stdout, b"ends in gh");
    let page = ask_as_agent(&engine, ExecPoll { wait_s: 60.0, ..poll(&exec, page.next_seq) });
    let page = page.await.unwrap();
    assert_eq!(of(Stream::Stdout, &page.records), "ends in gh");
    assert!(!page.complete);
}

#[tokio::test]
async fn a_result_hides_what_was_printed_in_pieces() {
    let house = House::new();
    let (engine, exec) = running(&house).await;
    let supervisor = house.driver.only_supervisor();
    let token = token();
    let wait = |wait_s| ExecWait { exec: exec.clone(), wait_s, result_bytes: 1 << 20 };
    // Whoever asks while it runs is shown what has waited long enough.
    supervisor.print(&exec, Stream::Stdout, b"name: gh");
    let result = ask_as_agent(&engine, wait(0.5)).await.unwrap();
    assert_eq!((of(Stream::Stdout, &result.records).as_str(), result.next_seq), ("name: gh", 1));
    supervisor.print(&exec, Stream::Stdout, b"\n");
    let printing = async {
        for piece in token.as_bytes().chunks(15) {
            supervisor.print(&exec, Stream::Stdout, piece);
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        supervisor.exit(&exec, 0);
    };
    let (result, ()) = tokio::join!(ask_as_agent(&engine, wait(60.0)), printing);
    let expected = "name: gh\n[REDACTED:github-token]";
    assert_eq!(of(Stream::Stdout, &result.unwrap().records), expected);
}

#[tokio::test]
async fn across_a_gap_nothing_of_a_secret_is_shown() {
    let mut house = House::new();
    house.settings.output_bytes = 64 * 1024;
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let exec = run_forever(&engine, &cell).await;
    let supervisor = house.driver.supervisor(&cell);
    // Without a line break or a space, so that wherever the gap is it cuts one.
    let body = LETTERS.repeat(3000);
    supervisor.print(&exec, Stream::Stdout, format!("TOKEN={body}").as_bytes());
    supervisor.print(&exec, Stream::Stdout, b" plain\n");
    supervisor.exit(&exec, 0);
    let page = ask_as_agent(&engine, poll(&exec, 0)).await.unwrap();
    assert!(page.dropped.is_some() && page.complete);
    let records = pages(&engine, &exec, ExecPoll { max_bytes: 1, ..poll(&exec, 0) }).await;
    let shown = of(Stream::Stdout, &records);
    assert_eq!(shown, of(Stream::Stdout, &page.records));
    assert!(shown.starts_with("TOKEN=[REDACTED:token]") && shown.ends_with(" plain\n"), "{shown}");
    assert!(shown.contains("[REDACTED:cut]"), "{shown}");
}

#[tokio::test]
async fn commands_are_shown_without_secrets() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let text = format!("curl -H 'Authorization: Bearer {}'", &LETTERS[..24]);
    let exec = ask(&engine, shell(&cell, &text)).await.unwrap().exec.id;
    let list = ExecList { cell: None, status: None, limit: 5, cursor: None };
    let get = ExecGet { exec: exec.clone() };
    let shown = "curl -H 'Authorization: Bearer [REDACTED:authorization]'";
    let listed = ask_as_agent(&engine, list.clone()).await.unwrap();
    assert_eq!(listed.execs[0].command.to_string(), shown);
    assert_eq!(ask_as_agent(&engine, get.clone()).await.unwrap().command.to_string(), shown);
    let page = ask_as_agent(&engine, poll(&exec, 0)).await.unwrap();
    assert_eq!(page.exec.command.to_string(), shown);
    assert_eq!(ask(&engine, list).await.unwrap().execs[0].command.to_string(), text);
    assert_eq!(ask(&engine, get).await.unwrap().command.to_string(), text);
}

#[derive(Debug)]
struct Profile(&'static str);

impl Policies for Profile {
    fn in_force(&self) -> Arc<Policy> {
        Arc::new(self.by_profile(self.0).unwrap())
    }

    fn by_profile(&self, profile: &str) -> std::result::Result<Policy, PolicyError> {
        Policy::parse(None, profile)
    }
}

#[tokio::test]
async fn what_the_policy_says_is_shown_without_secrets() {
    let house = House::new();
    let mut engine = house.engine();
    let profile = Arc::new(Profile("allowlist"));
    engine.judge_by(profile, PolicyUse::Enforced, Duration::from_secs(9)).unwrap();
    let cell = persistent(&engine).await;
    let text = format!("unheard-of --header 'Authorization: Bearer {}'", token());
    let refused = ask_as_agent(&engine, shell(&cell, &text)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Denied);
    assert!(refused.message.contains("unheard-of"), "{refused}");
    assert!(!refused.to_string().contains(&token()), "{refused}");
    let check = PolicyCheck {
        checked: Checked::Text(CheckedLanguage::Shell, text),
        as_root: false,
        profile: None,
    };
    let verdict = ask_as_agent(&engine, check.clone()).await.unwrap();
    let shown = serde_json::to_string(&verdict).unwrap();
    assert!(shown.contains("unheard-of") && !shown.contains(&token()), "{shown}");
    // Control: the operator sees what it is about.
    let verdict = serde_json::to_string(&ask(&engine, check).await.unwrap()).unwrap();
    assert!(verdict.contains(&token()), "{verdict}");
}

#[tokio::test]
async fn why_somebody_is_asked_is_shown_without_secrets_in_lists_too() {
    let house = House::new();
    let engine = house.engine();
    let cell = persistent(&engine).await;
    let mut exec = ask(&engine, shell(&cell, "true")).await.unwrap().exec;
    let need = ApprovalNeed {
        rule: "careful.rm".to_owned(),
        reason: format!("`rm {}` must be approved", token()),
        asked_by: "agent".to_owned(),
        within_ms: 1,
        parts: Vec::new(),
        facts: Vec::new(),
    };
    exec.approval = Some(Box::new(Approval::pending(need, Timestamp::now())));
    let site = engine.site();
    let list = ExecList { cell: None, status: None, limit: 5, cursor: None };
    let execs = Execs { execs: vec![exec.clone()], ..ask(&engine, list).await.unwrap() };
    for mut reply in [Reply::Exec(exec), Reply::Execs(execs)] {
        View::of(site, &agent()).cover(site, &mut reply).await.unwrap();
        let shown = format!("{reply:?}");
        assert!(shown.contains("must be approved") && !shown.contains(&token()), "{shown}");
    }
}

#[tokio::test]
async fn switched_off_nothing_is_looked_for() {
    let mut house = House::new();
    house.settings.redact_shapes = false;
    let (engine, exec) = printing(&house, 50).await;
    house.driver.only_supervisor().exit(&exec, 0);
    let page = ask_as_agent(&engine, poll(&exec, 0)).await.unwrap();
    assert_eq!(of(Stream::Stdout, &page.records), printed());
}

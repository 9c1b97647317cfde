//! A server that does what it should not: what comes of it stays with it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use hotcell_downstream::SpecText;
use hotcell_model::{ErrorCode, ServerState, ToolServers};
use serde_json::{Value, json};

use crate::world::{
    PATIENCE, SECRET, call, call_within, is_alive, misbehaving, names, serve, serve_listed, stdio,
    surroundings, text, until, with_env,
};

fn pids(answer: &hotcell_model::ToolAnswer) -> Vec<u64> {
    let pids = answer.structured.as_ref().unwrap()["pids"].as_array().unwrap();
    pids.iter().map(|pid| pid.as_u64().unwrap()).collect()
}

/// The most memory that this process ever had, in KiB.
fn most_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn what_is_well_answers() {
    let servers = serve(misbehaving(&[]));
    let echoed = call(&servers, "echo", json!({ "text": "a\u{20ac}\n" })).await.unwrap();
    assert_eq!(echoed.structured, Some(json!({ "text": "a\u{20ac}\n" })));
    assert_eq!(text(&echoed), "a\u{20ac}\n");
    assert!(!echoed.is_error);
    let failed = call(&servers, "fail", json!({})).await.unwrap();
    assert!(failed.is_error, "{failed:?}");
    let unknown = call(&servers, "nothing", json!({})).await.unwrap_err();
    assert_eq!(unknown.code, ErrorCode::NotFound);
    let mut nobody = hotcell_model::ToolCall {
        server: "other".to_owned(),
        tool: "echo".to_owned(),
        arguments: serde_json::Map::new(),
        timeout: None,
    };
    assert_eq!(servers.call(nobody.clone()).await.unwrap_err().code, ErrorCode::NotFound);
    nobody.server = "it".to_owned();
    nobody.tool = "fail".to_owned();
    assert!(servers.call(nobody).await.is_ok());
}

#[tokio::test]
async fn a_crash_is_told_and_the_server_comes_back() {
    let servers = serve(misbehaving(&[]));
    let first = pids(&call(&servers, "pids", json!({})).await.unwrap());
    // A call that waits ends with the server too.
    let (crashed, waiting) = tokio::join!(
        async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            call(&servers, "crash", json!({})).await
        },
        call(&servers, "ignore", json!({})),
    );
    for error in [crashed.unwrap_err(), waiting.unwrap_err()] {
        assert_eq!(error.code, ErrorCode::Unavailable, "{error:?}");
        assert!(error.message.len() < 5000, "{} bytes", error.message.len());
    }
    let second = pids(&call(&servers, "pids", json!({})).await.unwrap());
    assert_ne!(first, second);
    let standing = &servers.standing()[0];
    assert_eq!((standing.state, standing.restarts), (ServerState::Ready, 1));
    let said = standing.last_error.clone().unwrap();
    assert!(said.contains("the last words"), "{said}");
    assert!(!said.contains(SECRET), "{said}");
}

#[tokio::test]
async fn a_server_whose_children_hold_its_pipes_is_seen_to_end() {
    let servers = serve(misbehaving(&[]));
    call(&servers, "pids", json!({})).await.unwrap();
    let ended = call(&servers, "outlive", json!({})).await.unwrap_err();
    assert_eq!(ended.code, ErrorCode::Unavailable, "{ended:?}");
    call(&servers, "echo", json!({ "text": "again" })).await.unwrap();
}

#[tokio::test]
async fn one_that_cannot_start_is_left_alone_for_longer_and_longer() {
    let place = tempfile::tempdir().unwrap();
    let mark = place.path().join("mark");
    let servers = serve(misbehaving(&["once", mark.to_str().unwrap()]));
    assert_eq!(call(&servers, "crash", json!({})).await.unwrap_err().code, ErrorCode::Unavailable);
    until("it is noted", || servers.standing()[0].state != ServerState::Ready).await;
    // Short pauses are sat out, a long one is told.
    let mut last = None;
    for _ in 0..8 {
        let error = call(&servers, "echo", json!({ "text": "" })).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Unavailable, "{error:?}");
        if error.retry_after_s.is_some() {
            last = Some(error);
            break;
        }
    }
    let told = last.expect("it is never left alone");
    assert!(told.message.contains("left alone"), "{told:?}");
    assert!(matches!(servers.standing()[0].state, ServerState::BackingOff { .. }));
}

#[tokio::test]
async fn why_one_does_not_start_is_told_without_its_secret() {
    for (spec, word) in [
        (misbehaving(&["exits"]), "cannot work like this"),
        (stdio("no-such-program-anywhere", &[]), "no-such-program-anywhere"),
        (
            with_env(misbehaving(&[]), "X", SpecText::Secret("absent".parse().unwrap())),
            "no secret \"absent\"",
        ),
    ] {
        let servers = serve(spec);
        let listings = servers.listings(PATIENCE).await;
        let listed = &listings.servers[0];
        let fault = listed.fault.clone().expect("it has no fault");
        assert!(listed.tools.is_empty());
        assert!(fault.message.contains(word), "{fault:?}");
        assert!(!format!("{fault:?} {servers:?}").contains(SECRET), "{fault:?}");
        // The others are there all the same.
        let both = [
            ("it".parse().unwrap(), stdio("false", &[])),
            ("well".parse().unwrap(), misbehaving(&[])),
        ];
        let servers = hotcell_downstream::McpServers::new(both, surroundings(None)).unwrap();
        let listings = servers.listings(PATIENCE).await;
        assert!(listings.servers[0].fault.is_some() && listings.servers[1].fault.is_none());
    }
}

#[tokio::test]
async fn a_call_that_hangs_ends_in_time_and_the_server_is_told() {
    let servers = serve(misbehaving(&[]));
    let soon = Some(Duration::from_millis(300));
    call(&servers, "pids", json!({})).await.unwrap();
    let late = call_within(&servers, "ignore", json!({}), soon).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::Timeout, "{late:?}");
    // One that is given up by its caller as well.
    let given_up = call(&servers, "ignore", json!({}));
    assert!(tokio::time::timeout(Duration::from_millis(300), given_up).await.is_err());
    let mut told = Value::Null;
    for _ in 0..100 {
        let answer = call(&servers, "cancelled", json!({})).await.unwrap();
        told = answer.structured.unwrap();
        if told["ids"].as_array().unwrap().len() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(told["ids"], told["ignored"], "{told}");
    assert_eq!(told["ids"].as_array().unwrap().len(), 2, "{told}");
    assert_eq!(servers.standing()[0].restarts, 0);
}

#[tokio::test]
async fn a_server_that_hangs_is_ended_and_comes_back() {
    let servers = serve(misbehaving(&[]));
    let before = pids(&call(&servers, "pids", json!({})).await.unwrap())[0];
    let soon = Some(Duration::from_millis(300));
    let late = call_within(&servers, "hang", json!({}), soon).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::Timeout, "{late:?}");
    until("it does not answer a ping and is ended", || !is_alive(before)).await;
    call(&servers, "echo", json!({ "text": "again" })).await.unwrap();
    assert_eq!(servers.standing()[0].restarts, 1);
}

#[tokio::test]
async fn one_that_is_silent_keeps_no_other_one_waiting() {
    let mut silent = misbehaving(&["silent"]);
    silent.timeout = PATIENCE;
    let both = [("it".parse().unwrap(), silent), ("well".parse().unwrap(), misbehaving(&[]))];
    let servers = hotcell_downstream::McpServers::new(both, surroundings(None)).unwrap();
    // The second list has nothing left of the time of the first.
    for within in [Duration::from_secs(10), Duration::from_secs(1)] {
        let listings = servers.listings(within).await;
        let fault = listings.servers[0].fault.as_ref().unwrap();
        assert!(fault.message.contains("has not listed its tools yet"), "{fault:?}");
        assert!(listings.servers[1].fault.is_none() && !listings.servers[1].tools.is_empty());
    }
}

#[tokio::test]
async fn one_that_never_answers_at_all_is_a_timeout() {
    let mut spec = misbehaving(&["silent"]);
    spec.timeout = Duration::from_secs(1);
    let servers = serve(spec);
    let late = call(&servers, "echo", json!({})).await.unwrap_err();
    assert!(matches!(late.code, ErrorCode::Timeout | ErrorCode::Unavailable), "{late:?}");
    assert!(servers.listings(PATIENCE).await.servers[0].fault.is_some());
}

#[tokio::test]
async fn a_hundred_megabytes_are_refused_and_not_kept() {
    let servers = serve(misbehaving(&[]));
    // The largest that may be is the measure of what memory it takes.
    let most = call(&servers, "big", json!({ "bytes": 9_999_000 })).await.unwrap();
    assert_eq!(text(&most).len(), 9_999_000);
    drop(most);
    let before = most_memory();
    for id_last in [false, true] {
        let big = json!({ "bytes": 100_000_000, "id_last": id_last });
        let refused = call(&servers, "big", big).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::LimitExceeded, "{refused:?}");
    }
    let grown = most_memory() - before;
    assert!(grown < 40_000, "{grown} KiB more");
    // The server goes on, for it may be a good one.
    call(&servers, "echo", json!({ "text": "still here" })).await.unwrap();
    assert_eq!(servers.standing()[0].restarts, 0);
}

#[tokio::test]
async fn floods_are_cut_off() {
    for tool in ["flood", "endless_line"] {
        let servers = serve(misbehaving(&[]));
        let before = pids(&call(&servers, "pids", json!({})).await.unwrap())[0];
        let memory = most_memory();
        let cut = call(&servers, tool, json!({})).await.unwrap_err();
        assert_eq!(cut.code, ErrorCode::LimitExceeded, "{tool}: {cut:?}");
        let grown = most_memory() - memory;
        assert!(grown < 40_000, "{tool}: {grown} KiB more");
        until("it is ended", || !is_alive(before)).await;
        call(&servers, "echo", json!({ "text": "again" })).await.unwrap();
    }
}

#[tokio::test]
async fn garbage_and_second_answers_do_no_harm() {
    let servers = serve(misbehaving(&[]));
    let answer = call(&servers, "garbage", json!({})).await.unwrap();
    assert_eq!(text(&answer), "after garbage");
    assert_eq!(text(&call(&servers, "duplicate", json!({})).await.unwrap()), "first");
    for word in ["a", "b", "c"] {
        assert_eq!(text(&call(&servers, "echo", json!({ "text": word })).await.unwrap()), word);
    }
    // What it says is passed on as it is, where it has a meaning.
    let lie = call(&servers, "lies", json!({})).await.unwrap();
    assert_eq!(
        (lie.structured, lie.content.len(), lie.is_error),
        (Some(json!([1, null])), 0, false)
    );
    assert_eq!(servers.standing()[0].restarts, 0);
}

#[tokio::test]
async fn secrets_stay_with_the_server() {
    let servers = serve(misbehaving(&[]));
    let env = call(&servers, "env", json!({})).await.unwrap();
    let given = env.structured.as_ref().unwrap();
    assert!(given["TOKEN"].as_str().is_some_and(|token| !token.is_empty()), "{given}");
    assert!(!format!("{env:?}").contains(SECRET));
    let variables: Vec<&String> = given.as_object().unwrap().keys().collect();
    assert!(!variables.iter().any(|name| name.starts_with("CARGO")), "{variables:?}");
    let refused = call(&servers, "refuse", json!({})).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Invalid);
    assert!(refused.message.contains("that is wrong") && !refused.message.contains(SECRET));
    let listings = servers.listings(PATIENCE).await;
    assert!(listings.servers[0].about.as_ref().unwrap().contains("Does what it should not"));
    assert!(!format!("{listings:?} {servers:?} {:?}", servers.standing()).contains(SECRET));
    // The same value where it is no secret comes back: it was looked for.
    let plain = with_env(misbehaving(&[]), "TOKEN", SpecText::Plain(SECRET.to_owned()));
    let env = call(&serve(plain), "env", json!({})).await.unwrap();
    assert_eq!(env.structured.unwrap()["TOKEN"], SECRET);
}

#[tokio::test]
async fn a_list_that_changes_is_listed_again() {
    let servers = Arc::new(serve(misbehaving(&[])));
    let before = servers.listings(PATIENCE).await;
    assert!(!names(&servers).await.contains(&"added".to_owned()));
    let version = before.version;
    let changed = servers.changed(version);
    assert!(tokio::time::timeout(Duration::from_millis(100), changed).await.is_err());
    call(&servers, "change", json!({})).await.unwrap();
    let after = servers.changed(version).await;
    assert!(after > version);
    assert!(names(&servers).await.contains(&"added".to_owned()));
}

#[tokio::test]
async fn lists_have_an_end() {
    for (mode, word) in
        [("endless-pages", "64 pages"), ("circle", "no end"), ("many", "2000 tools")]
    {
        let servers = serve(misbehaving(&[mode]));
        let fault = servers.listings(PATIENCE).await.servers[0].fault.clone().unwrap();
        assert_eq!(fault.code, ErrorCode::LimitExceeded, "{mode}: {fault:?}");
        assert!(fault.message.contains(word), "{mode}: {fault:?}");
    }
    // Pages that end are put together; what is no tool and a name that was there are left out.
    assert_eq!(names(&serve(misbehaving(&["pages"]))).await, ["t0", "t1", "t2", "t3"]);
}

#[tokio::test]
async fn a_list_that_was_kept_needs_no_start() {
    let place = tempfile::tempdir().unwrap();
    let (starts, kept) = (place.path().join("starts"), place.path().join("kept"));
    let spec = || misbehaving(&["count", starts.to_str().unwrap()]);
    let started = || fs::read(&starts).map_or(0, |bytes| bytes.len());
    let first = names(&serve_listed(spec(), Some(&kept))).await;
    assert_eq!(started(), 1);
    let servers = serve_listed(spec(), Some(&kept));
    assert_eq!(names(&servers).await, first);
    assert_eq!(started(), 1, "it was started for a list that is known");
    assert_eq!(servers.standing()[0].state, ServerState::Idle);

    let files: Vec<_> = fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(fs::metadata(&files[0]).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&files[0]).unwrap();
    assert!(text.contains("echo") && !text.contains(SECRET));

    // The next start lists it anew.
    call(&servers, "change", json!({})).await.unwrap();
    assert_eq!(started(), 2);
    until("the new list is kept", || fs::read_to_string(&files[0]).unwrap().contains("added"))
        .await;
    // Another declaration does not take it, nor does anybody one that is damaged.
    let other = with_env(spec(), "OTHER", SpecText::Plain(String::new()));
    names(&serve_listed(other, Some(&kept))).await;
    assert_eq!(started(), 3);
    fs::write(&files[0], "{").unwrap();
    names(&serve_listed(spec(), Some(&kept))).await;
    assert_eq!(started(), 4);
}

#[tokio::test]
async fn calls_run_side_by_side_up_to_a_bound() {
    let servers = Arc::new(serve(misbehaving(&[])));
    let meet = |servers: &Arc<hotcell_downstream::McpServers>, of: usize| {
        let mut met = tokio::task::JoinSet::new();
        for _ in 0..of {
            let servers = Arc::clone(servers);
            let soon = Some(Duration::from_secs(5));
            met.spawn(async move {
                call_within(&servers, "meet", json!({ "of": of }), soon).await.is_ok()
            });
        }
        met.join_all()
    };
    // They meet only if all are there at once.
    assert_eq!(meet(&servers, 8).await, [true; 8]);
    let mut narrow = misbehaving(&[]);
    narrow.parallel = 2;
    let met = meet(&Arc::new(serve(narrow)), 3).await;
    assert!(met.iter().any(|met| !met), "{met:?}");
}

#[tokio::test]
async fn a_server_that_nobody_needs_is_ended() {
    let mut spec = misbehaving(&[]);
    spec.idle = Duration::from_millis(300);
    let servers = serve(spec);
    let pid = pids(&call(&servers, "pids", json!({})).await.unwrap())[0];
    until("it is ended", || !is_alive(pid)).await;
    until("it is idle", || servers.standing()[0].state == ServerState::Idle).await;
    call(&servers, "echo", json!({ "text": "again" })).await.unwrap();
    assert_eq!(servers.standing()[0].restarts, 0, "that was no failure");
}

#[tokio::test]
async fn one_that_is_not_needed_may_tidy_up() {
    let place = tempfile::tempdir().unwrap();
    let done = place.path().join("done");
    let mut spec = misbehaving(&["tidy", done.to_str().unwrap()]);
    spec.idle = Duration::from_millis(300);
    let servers = serve(spec.clone());
    call(&servers, "pids", json!({})).await.unwrap();
    until("it tidied up", || fs::read(&done).is_ok_and(|text| !text.is_empty())).await;
    fs::remove_file(&done).unwrap();
    // One that is killed does not.
    spec.idle = Duration::from_secs(60);
    let servers = serve(spec);
    let pid = pids(&call(&servers, "pids", json!({})).await.unwrap())[0];
    drop(servers);
    until("it is ended", || !is_alive(pid)).await;
    assert!(!done.exists());
}

#[tokio::test]
async fn a_slow_start_goes_on_without_whoever_waits_for_it() {
    let place = tempfile::tempdir().unwrap();
    let starts = place.path().join("starts");
    let servers = serve(misbehaving(&["slow", starts.to_str().unwrap()]));
    let soon = Some(Duration::from_millis(200));
    let late = call_within(&servers, "echo", json!({ "text": "" }), soon).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::Timeout, "{late:?}");
    until("it is there", || servers.standing()[0].state == ServerState::Ready).await;
    call(&servers, "echo", json!({ "text": "" })).await.unwrap();
    assert_eq!(fs::read(&starts).unwrap(), b"x", "it was started more than once");
}

#[tokio::test]
async fn one_that_starts_so_slowly_that_it_is_greeted_twice_is_spoken_to() {
    let mut spec = misbehaving(&["very-slow"]);
    spec.timeout = Duration::from_secs(60);
    let servers = serve(spec);
    let answer = call(&servers, "echo", json!({ "text": "at last" })).await.unwrap();
    assert_eq!(text(&answer), "at last");
}

#[tokio::test]
async fn one_that_starts_slowly_and_speaks_the_newest_protocol_alone_is_started_again() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("started");
    let mut spec = misbehaving(&["slow-once", mark.to_str().unwrap()]);
    spec.timeout = Duration::from_secs(60);
    let servers = serve(spec);
    let answer = call(&servers, "echo", json!({ "text": "at last" })).await.unwrap();
    assert_eq!(text(&answer), "at last");
}

#[tokio::test]
async fn all_of_a_server_ends_with_its_owner() {
    let servers = serve(misbehaving(&[]));
    let group = call(&servers, "pids", json!({})).await.unwrap().structured.unwrap();
    assert_eq!(group["group"], group["pids"][0], "it has no group of its own");
    let pids = pids(&call(&servers, "spawn", json!({})).await.unwrap());
    assert!(pids.len() == 2 && pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
    drop(servers);
    for pid in pids {
        until("it ends", || !is_alive(pid)).await;
    }
}

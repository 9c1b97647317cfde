//! Every call is in the ledger once, with who asked and what came of it; so is the end of every exec,
//! whoever learns of it.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use hotcell_ledger::{ChainedLedger, LedgerSettings, Sync};
use hotcell_model::{
    AuditQuery, AuditSummary, Caller, CellList, Detail, Diagnose, EntryKind, ErrorCode, ExecGet,
    ExecId, ExecList, ExecWait, KeyScope, Ledger, LedgerCheck, LedgerRecord, LedgerState, Probe,
    Role, Store, Timestamp, Verdict,
};
use hotcell_store::SqliteStore;

use crate::testing::{House, ask, persistent, run_forever, shell};
use crate::testing_ledger::TestLedger;
use crate::{Engine, fingerprint};

pub(crate) fn settings(house: &House) -> LedgerSettings {
    let at = |name: &str| house.directory.path().join(name);
    LedgerSettings {
        directory: at("ledger"),
        key_file: at("ledger.key"),
        head_file: at("ledger.head"),
        segment_bytes: 1 << 20,
        keep: None,
        keep_bytes: None,
        floor: None,
        most_bytes: None,
        sync: Sync::Off,
    }
}

/// An engine that writes everything down, as another process would have it.
fn engine(house: &House) -> Engine {
    let mut engine = house.engine();
    engine.keep_ledger_in(Arc::new(ChainedLedger::new(settings(house)))).unwrap();
    engine
}

async fn entries(engine: &Engine) -> Vec<LedgerRecord> {
    ask(engine, AuditQuery { limit: 1000, ..AuditQuery::default() }).await.unwrap().entries
}

fn ends_of(entries: &[LedgerRecord], exec: &ExecId) -> usize {
    let is_end =
        |it: &&LedgerRecord| it.kind == EntryKind::ExecEnd && it.exec.as_ref() == Some(exec);
    entries.iter().filter(is_end).count()
}

#[tokio::test]
async fn a_run_is_written_down_with_its_start_and_its_end() {
    let house = House::new();
    let engine = engine(&house);
    let cell = persistent(&engine).await;
    let caller = Caller { call_id: Some("call-7".to_owned()), ..Caller::local(7) };
    let mut run = shell(&cell, "echo password-123");
    run.wait_s = 5.0;
    let ran = engine.ask(&caller.in_role(Role::Agent), run).await.unwrap().exec;
    let entries = entries(&engine).await;
    let of_call: Vec<&LedgerRecord> =
        entries.iter().filter(|it| it.call_id.as_deref() == Some("call-7")).collect();
    let kinds: Vec<EntryKind> = of_call.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [EntryKind::ExecStart, EntryKind::Call]);
    let (start, call) = (of_call[0], of_call[1]);
    assert_eq!((&start.exec, &call.exec), (&Some(ran.id.clone()), &Some(ran.id.clone())));
    assert_eq!(start.args, call.args);
    assert_eq!((call.what.as_str(), call.role), ("exec_run", Some(Role::Agent)));
    assert_eq!(call.cell.as_deref(), Some(cell.as_str()));
    assert_eq!((call.verdict, call.outcome.as_deref()), (Some(Verdict::Allowed), Some("ok")));
    assert_eq!(call.details["exit_code"], Detail::Number(0));
    assert_eq!(ends_of(&entries, &ran.id), 1);
    let written: String = entries.iter().map(|it| serde_json::to_string(it).unwrap()).collect();
    assert!(!written.contains("password-123") && written.contains("local:7"));
    let report = ChainedLedger::new(settings(&house)).verify(&LedgerCheck::default()).unwrap();
    assert_eq!(report.state, LedgerState::Intact, "{report:?}");
}

#[tokio::test]
async fn a_start_under_a_key_whose_process_died_is_written_down() {
    let house = House::new();
    let engine = engine(&house);
    let cell = persistent(&engine).await;
    let mut run = shell(&cell, "echo x");
    (run.idempotency_key, run.wait_s) = (Some("k".to_owned()), 5.0);
    let (id, expires) = (ExecId::from_random(42), Timestamp::now().plus_seconds(60));
    let store = SqliteStore::open(house.directory.path()).unwrap();
    let scope = KeyScope::Run(cell);
    let fingerprint = fingerprint::of_run(&run);
    store.claim_key(&scope, "k", id.as_str(), fingerprint, expires).await.unwrap();
    for _ in 0..2 {
        assert_eq!(ask(&engine, run.clone()).await.unwrap().exec.id, id);
    }
    let is_start = |it: &&LedgerRecord| it.kind == EntryKind::ExecStart;
    let entries = entries(&engine).await;
    let starts: Vec<_> = entries.iter().filter(is_start).map(|it| it.exec.clone()).collect();
    assert_eq!(starts, [Some(id)]);
}

#[tokio::test]
async fn what_is_refused_is_written_down_with_the_reason() {
    let house = House::new();
    let engine = engine(&house);
    let agent = Caller::local(7).in_role(Role::Agent);
    engine.ask(&agent, Diagnose).await.unwrap_err();
    engine.ask(&agent, AuditQuery { limit: 1, ..AuditQuery::default() }).await.unwrap_err();
    let unknown: ExecId = "e_0123456789".parse().unwrap();
    engine.ask(&agent, ExecGet { exec: unknown.clone() }).await.unwrap_err();
    // What nobody asks for is no call.
    engine.ask(&agent, Probe).await.unwrap();
    let told: Vec<_> = entries(&engine)
        .await
        .into_iter()
        .map(|it| (it.what, it.verdict, it.rule, it.outcome))
        .collect();
    let told_as = |what: &str, verdict, rule: Option<&str>, outcome: &str| {
        (what.to_owned(), Some(verdict), rule.map(str::to_owned), Some(outcome.to_owned()))
    };
    assert_eq!(
        told,
        [
            told_as("diagnose", Verdict::Denied, Some("scope:admin"), "denied"),
            told_as("audit_query", Verdict::Denied, Some("scope:audit"), "denied"),
            told_as("exec_get", Verdict::Allowed, None, "not_found"),
        ]
    );
    let summary = ask(&engine, AuditSummary::default()).await.unwrap();
    assert_eq!(summary.rules.len(), 2);
    assert_eq!((summary.refused[0].name.as_str(), summary.refused[0].count), ("local:7", 2));
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_done_for_those_who_are_served() {
    let house = House::new();
    let engine = engine(&house);
    // Where its directory should be there is a file.
    fs::write(house.directory.path().join("ledger"), "").unwrap();
    let agent = Caller::local(7).in_role(Role::Agent);
    let spawn = hotcell_model::CellSpawn::default();
    let refused = engine.ask(&agent, spawn.clone()).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Unavailable);
    assert!(refused.message.contains("cannot be written down"), "{refused}");
    assert_eq!(house.driver.starts(), 0);
    // The operator of the machine has to be able to put it right.
    ask(&engine, spawn).await.unwrap();
    assert_eq!(house.driver.starts(), 1);
}

#[tokio::test]
async fn what_a_server_looks_at_by_itself_is_no_call_and_what_it_changes_is() {
    let house = House::new();
    let engine = engine(&house);
    engine.ask(&Caller::server(), CellList::default()).await.unwrap();
    assert!(entries(&engine).await.is_empty());
    engine.ask(&Caller::server(), hotcell_model::CellSpawn::default()).await.unwrap();
    let told: Vec<String> = entries(&engine).await.into_iter().map(|it| it.what).collect();
    assert!(told.contains(&"cell_spawn".to_owned()), "{told:?}");
}

#[tokio::test]
async fn what_a_caller_may_choose_is_written_down_without_what_has_the_form_of_a_secret() {
    let house = House::new();
    let engine = engine(&house);
    let token = ["gh", "p_", "0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let caller = Caller { call_id: Some(token.clone()), ..Caller::local(7) };
    let alias = ["xox", "b-123456789012-123456789012-abcdefghijklmnopqrstuvwx"].concat();
    let named: hotcell_model::CellRef = alias.parse().unwrap();
    let info = hotcell_model::CellInfo { cell: named };
    engine.ask(&caller.in_role(Role::Agent), info).await.unwrap_err();
    let told = serde_json::to_string(&entries(&engine).await).unwrap();
    assert!(!told.contains(&token) && !told.contains(&alias), "{told}");
    assert!(told.contains("[REDACTED:github-token]"), "{told}");
}

#[tokio::test]
async fn a_call_that_is_given_up_is_written_down() {
    let house = House::new();
    let engine = engine(&house);
    let cell = persistent(&engine).await;
    let exec = run_forever(&engine, &cell).await;
    let wait = ExecWait { exec: exec.clone(), wait_s: 60.0, result_bytes: 100 };
    let waiting = ask(&engine, wait);
    assert!(tokio::time::timeout(std::time::Duration::from_millis(50), waiting).await.is_err());
    let entries = entries(&engine).await;
    let given_up = entries.iter().find(|it| it.what == "exec_wait").unwrap();
    assert_eq!(given_up.outcome.as_deref(), Some("given_up"));
}

#[tokio::test]
async fn the_end_of_an_exec_is_written_down_once() {
    let house = House::new();
    let first = engine(&house);
    let cell = persistent(&first).await;
    let exec = run_forever(&first, &cell).await;
    house.driver.supervisor(&cell).exit(&exec, 4);
    let others = [engine(&house), engine(&house), engine(&house), engine(&house)];
    let all = ExecList { cell: None, status: None, limit: 50, cursor: None };
    let looks = others.iter().map(|engine| ask(engine, all.clone()));
    futures_util::future::join_all(looks).await;
    let told = entries(&first).await;
    assert_eq!(ends_of(&told, &exec), 1);
    let end = told.iter().find(|it| it.kind == EntryKind::ExecEnd).unwrap();
    assert_eq!((end.outcome.as_deref(), end.principal.as_str()), (Some("exited"), "hotcell"));
    assert_eq!(end.details["exit_code"], Detail::Number(4));
    // An index that is begun anew learns of it a second time.
    house.delete_index();
    let anew = engine(&house);
    ask(&anew, all.clone()).await.unwrap();
    assert_eq!(ends_of(&entries(&anew).await, &exec), 1);
    // A process that died when it had written the entry and nothing else.
    let noted = house.directory.path().join("cells").join(cell.as_str()).join("noted.json");
    for left in [r#"{"journal":0,"ends_after":0}"#, "{\"journal\":"] {
        fs::write(&noted, left).unwrap();
        house.delete_index();
        let anew = engine(&house);
        ask(&anew, all.clone()).await.unwrap();
        assert_eq!(ends_of(&entries(&anew).await, &exec), 1, "{left:?}");
    }
}

#[tokio::test]
async fn the_ledger_is_not_looked_through_for_execs_that_end_together() {
    let house = House::new();
    let mut engine = house.engine();
    let ledger = Arc::new(TestLedger::new(ChainedLedger::new(settings(&house))));
    engine.keep_ledger_in(Arc::clone(&ledger) as Arc<dyn Ledger>).unwrap();
    let cell = persistent(&engine).await;
    let mut execs = Vec::new();
    for _ in 0..40 {
        execs.push(run_forever(&engine, &cell).await);
    }
    let all = ExecList { cell: None, status: None, limit: 50, cursor: None };
    // Each begins to look when some of the others are at it.
    let ended = execs.iter().zip(0..).map(async |(exec, place)| {
        tokio::time::sleep(Duration::from_micros(300 * place)).await;
        house.driver.supervisor(&cell).exit(exec, 0);
        ask(&engine, all.clone()).await.unwrap();
    });
    futures_util::future::join_all(ended).await;
    let told = entries(&engine).await;
    assert!(execs.iter().all(|exec| ends_of(&told, exec) == 1));
    assert_eq!(ledger.looks(), 0);
}

#[tokio::test]
async fn the_end_of_a_lost_exec_is_written_down_once() {
    let house = House::new();
    let first = engine(&house);
    let cell = persistent(&first).await;
    let exec = run_forever(&first, &cell).await;
    house.driver.supervisor(&cell).kill();
    for _ in 0..3 {
        // Another process, which has no connection that it has yet to find broken.
        let told = entries(&engine(&house)).await;
        assert_eq!(ends_of(&told, &exec), 1);
        let end = told.iter().find(|it| it.kind == EntryKind::ExecEnd).unwrap();
        assert_eq!(end.outcome.as_deref(), Some("lost"));
    }
}

#[tokio::test]
async fn an_auditor_sees_its_tenant_and_no_numbers() {
    let house = House::new();
    let engine = engine(&house);
    let of = |tenant: &str, role| Caller {
        tenant: tenant.parse().unwrap(),
        ..Caller::of(format!("{tenant}-user"), role)
    };
    for tenant in ["one", "two"] {
        engine.ask(&of(tenant, Role::Agent), CellList::default()).await.unwrap();
    }
    let query = AuditQuery { limit: 100, ..AuditQuery::default() };
    let auditor = of("one", Role::Auditor);
    let seen = engine.ask(&auditor, query.clone()).await.unwrap().entries;
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].principal.as_str(), seen[0].n, seen[0].mac.as_str()), ("one-user", 0, ""));
    let other = AuditQuery { tenant: Some("two".parse().unwrap()), ..query.clone() };
    assert!(engine.ask(&auditor, other).await.unwrap().entries.is_empty());
    let by_number = AuditQuery { after: Some(0), ..query };
    assert_eq!(engine.ask(&auditor, by_number).await.unwrap_err().code, ErrorCode::Denied);
    let summary = engine.ask(&auditor, AuditSummary::default()).await.unwrap();
    assert!(summary.refused.iter().all(|it| it.name == "one-user"), "{summary:?}");
    assert!(entries(&engine).await.iter().any(|it| it.principal == "two-user" && it.n > 0));
}

//! Figures about runs of code are summed from entries of the ledger.

use hotcell_model::{AnomalyKind, CodeFigures, EntryKind, LedgerEntry, LedgerRecord, Timestamp};

use crate::code_stats::summed;

/// Entries, numbered and a second apart.
fn written(entries: Vec<LedgerEntry>) -> Vec<LedgerRecord> {
    let numbered = entries.into_iter().zip(1..);
    numbered.map(|(entry, n)| LedgerRecord::new(n, Timestamp(n * 1000), entry)).collect()
}

fn figures(entries: Vec<LedgerEntry>) -> CodeFigures {
    summed(&written(entries))
}

fn end(cause: &str, exit_code: Option<i32>, wall_ms: u64) -> LedgerEntry {
    let entry = LedgerEntry::own(EntryKind::ExecEnd, "exec_end").with("code", "python");
    let entry = entry.with_some("exit_code", exit_code).with("wall_ms", wall_ms);
    LedgerEntry { outcome: Some(cause.to_owned()), ..entry }
}

fn call(exec: &str) -> LedgerEntry {
    let entry = LedgerEntry::own(EntryKind::Call, "exec_run");
    LedgerEntry { exec: Some(exec.parse().unwrap()), outcome: Some("ok".to_owned()), ..entry }
}

fn used(tool: &str, outcome: &str) -> LedgerEntry {
    let entry = call("e_0000000001").with("tool", tool).with("tokens", 10u64);
    LedgerEntry { outcome: Some(outcome.to_owned()), ..entry }
}

fn shown(exec: &str, shown: u64, kept_out: Option<u64>) -> LedgerEntry {
    call(exec).with("tokens_shown", shown).with_some("tokens_kept_out", kept_out)
}

#[test]
fn runs_are_counted_by_how_they_ended() {
    let mut entries: Vec<_> = (1..=17).map(|n| end("exited", Some(0), n * 10)).collect();
    entries.push(end("exited", Some(1), 180));
    entries.push(end("timed_out", None, 190));
    entries.push(end("oom_killed", None, 5000));
    // What is no code is no run.
    entries.push(LedgerEntry { details: Default::default(), ..end("exited", Some(0), 1) });
    let told = figures(entries);
    assert_eq!((told.runs, told.succeeded, told.success_rate), (20, 17, Some(0.85)));
    assert_eq!((told.p50_ms, told.p95_ms), (Some(100), Some(190)));
    let ends: Vec<(&str, u64)> = told.ends.iter().map(|it| (it.name.as_str(), it.count)).collect();
    assert_eq!(ends, [("ok", 17), ("error", 1), ("oom_killed", 1), ("timed_out", 1)]);
    let nothing = figures(Vec::new());
    assert_eq!((nothing.success_rate, nothing.p50_ms, nothing.p95_ms), (None, None, None));
    assert_eq!(figures(vec![end("exited", Some(0), 7)]).p95_ms, Some(7));
}

#[test]
fn tools_are_counted_unless_nobody_has_them() {
    let failed = used("a.b", "ok").with("failed", "yes");
    let beside = LedgerEntry { exec: None, ..used("a.b", "ok") };
    let told = figures(vec![
        used("a.b", "ok"),
        used("a.b", "timeout"),
        failed,
        used("c.d", "ok"),
        used("made.up", "not_found"),
        beside,
    ]);
    let tools: Vec<_> =
        told.tools.iter().map(|it| (it.tool.as_str(), it.calls, it.errors)).collect();
    assert_eq!(tools, [("a.b", 3, 2), ("c.d", 1, 0)]);
}

#[test]
fn what_was_kept_out_counts_once_and_what_was_shown_each_time() {
    let told = figures(vec![
        shown("e_0000000001", 10, None),
        shown("e_0000000001", 20, Some(500)),
        shown("e_0000000001", 30, Some(400)),
        shown("e_0000000001", 20, Some(500)),
        shown("e_0000000002", 5, Some(7)).with("cut", "yes"),
    ]);
    assert_eq!((told.tokens.shown, told.tokens.kept_out, told.cut), (85, 407, 1));
}

#[test]
fn what_stands_out_is_held_against_what_was_before() {
    let runs = |good: usize, bad: usize| {
        let mut entries = vec![end("exited", Some(0), 1); good];
        entries.extend(vec![end("exited", Some(1), 1); bad]);
        figures(entries).anomalies
    };
    let kinds =
        |found: &[hotcell_model::Anomaly]| found.iter().map(|it| it.kind).collect::<Vec<_>>();
    let found = runs(30, 10);
    assert_eq!(kinds(&found), [AnomalyKind::FailingRuns]);
    assert_eq!(
        (found[0].count, found[0].since, found[0].until),
        (10, Timestamp(21_000), Timestamp(40_000))
    );
    assert!(found[0].message.contains("10 of the last 20, 0 of 20 before"), "{}", found[0].message);
    // Less than half, or nothing to hold it against.
    assert_eq!((kinds(&runs(31, 9)), kinds(&runs(29, 10))), (vec![], vec![]));
    // What always fails does not stand out.
    assert_eq!(kinds(&runs(0, 60)), []);
    let mut entries = vec![used("a.b", "ok"); 30];
    entries.extend(vec![used("a.b", "unavailable"); 12]);
    entries.extend(vec![used("c.d", "ok"); 50]);
    let mut answers = vec![shown("e_0000000001", 1, Some(1)); 25];
    answers.extend(vec![shown("e_0000000002", 1, Some(1)).with("cut", "yes"); 20]);
    let found = figures(entries.into_iter().chain(answers).collect()).anomalies;
    assert_eq!(kinds(&found), [AnomalyKind::FailingTool, AnomalyKind::CutAnswers]);
    assert!(found[0].message.contains("a.b"), "{}", found[0].message);
}

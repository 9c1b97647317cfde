//! What stands out is told, and what is ordinary is not.

use hotcell_model::{
    AnomalyKind, EntryKind, LedgerEntry, LedgerRecord, LedgerSummary, Timestamp, Verdict,
};

use crate::audit_summary::Summing;

fn summed(entries: impl IntoIterator<Item = (u64, LedgerEntry)>) -> LedgerSummary {
    let mut summing = Summing::default();
    for (number, (second, entry)) in entries.into_iter().enumerate() {
        let time = Timestamp(1_000_000 + second * 1000);
        summing.add(&LedgerRecord::new(number as u64 + 1, time, entry));
    }
    summing.finish()
}

fn call(outcome: &str) -> LedgerEntry {
    let mut entry = LedgerEntry::own(EntryKind::Call, "exec_run");
    entry.verdict = Some(if outcome == "denied" { Verdict::Denied } else { Verdict::Allowed });
    entry.rule = (outcome == "denied").then(|| "no-rm".to_owned());
    (entry.outcome, entry.args) = (Some(outcome.to_owned()), Some("d1".to_owned()));
    entry
}

fn run(wall_s: u64) -> LedgerEntry {
    let entry = LedgerEntry::own(EntryKind::ExecEnd, "exec_end");
    entry.with("wall_ms", wall_s * 1000).with("cause", "exited").with("exit_code", 0)
}

fn anomalies(summary: &LedgerSummary) -> Vec<(AnomalyKind, u64)> {
    summary.anomalies.iter().map(|it| (it.kind, it.count)).collect()
}

#[test]
fn nothing_stands_out_in_nothing() {
    assert_eq!(summed([]), LedgerSummary::default());
}

#[test]
fn refusals_are_counted_and_many_at_once_are_a_burst() {
    // Nine within a minute are not, and neither are many that are far apart.
    let few = summed((0..9).map(|second| (second, call("denied"))));
    assert!(!anomalies(&few).iter().any(|(kind, _)| *kind == AnomalyKind::DenialBurst));
    assert_eq!((few.violations[0].name.as_str(), few.violations[0].count), ("exec_run denied", 9));
    assert_eq!((few.rules[0].name.as_str(), few.rules[0].count), ("no-rm", 9));
    let seldom = summed((0..40).map(|minute| (minute * 60, call("denied"))));
    assert!(!anomalies(&seldom).iter().any(|(kind, _)| *kind == AnomalyKind::DenialBurst));
    let burst = summed((0..14).map(|second| (second, call("denied"))));
    assert!(anomalies(&burst).contains(&(AnomalyKind::DenialBurst, 14)), "{burst:?}");
    // Two bursts with a pause between are two.
    let two = (0..12).chain(1000..1010).map(|second| (second, call("denied")));
    let two = summed(two);
    let bursts: Vec<u64> = two
        .anomalies
        .iter()
        .filter(|it| it.kind == AnomalyKind::DenialBurst)
        .map(|it| it.count)
        .collect();
    assert_eq!(bursts, [12, 10]);
}

#[test]
fn the_same_that_fails_again_and_again_is_told() {
    let four = summed((0..4).map(|second| (second * 100, call("not_found"))));
    assert!(four.anomalies.is_empty());
    let five = summed((0..5).map(|second| (second * 100, call("not_found"))));
    assert_eq!(anomalies(&five), [(AnomalyKind::RepeatedFailure, 5)]);
    // A success between is a new beginning.
    let outcomes = ["invalid", "invalid", "invalid", "ok", "invalid", "invalid"];
    let mixed = summed((0..).zip(outcomes.map(call)));
    assert!(mixed.anomalies.is_empty());
    // A command that exits with something else than 0 has failed, though its call has not.
    let failing = summed((0..6).map(|second| (second, call("ok").with("exit_code", 1))));
    assert_eq!(anomalies(&failing), [(AnomalyKind::RepeatedFailure, 6)]);
}

#[test]
fn runs_that_take_much_longer_than_others_are_told() {
    let alike = summed((0..30).map(|second| (second, run(3))));
    assert!(alike.anomalies.is_empty());
    let one = summed((0..30).map(|second| (second, run(if second == 9 { 40 } else { 3 }))));
    assert_eq!(anomalies(&one), [(AnomalyKind::SlowRun, 1)]);
    // Among few it takes ten minutes.
    let few = summed([(0, run(1)), (1, run(500)), (2, run(601))]);
    assert_eq!(anomalies(&few), [(AnomalyKind::SlowRun, 1)]);
    // Short ones are not slow.
    let short = summed((0..30).map(|second| (second, run(if second == 9 { 9 } else { 0 }))));
    assert!(short.anomalies.is_empty());
}

#[test]
fn limits_and_connections_are_violations() {
    let mut denied = LedgerEntry::own(EntryKind::Egress, "denied");
    (denied.verdict, denied.cell) = (Some(Verdict::Denied), Some("c_1".to_owned()));
    let killed = LedgerEntry::own(EntryKind::ExecEnd, "exec_end")
        .with("cause", "oom_killed")
        .with("limits_hit", "memory,pids");
    let summary = summed([(0, denied), (1, killed)]);
    let names: Vec<&str> = summary.violations.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["egress denied", "exec oom_killed", "limit memory", "limit pids"]);
    assert_eq!(summary.refused[0].name, "cell c_1");
}

//! What stands out in a ledger: refusals, limits, and three kinds of anomalies.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use hotcell_model::{
    Anomaly, AnomalyKind, Detail, EntryKind, LedgerRecord, LedgerSummary, Tally, Timestamp, Verdict,
};

/// How many names of each sort are told.
const MOST_NAMES: usize = 10;
/// How many anomalies are told.
const MOST_ANOMALIES: usize = 100;
/// So many refusals within such a time are a burst.
const BURST: usize = 10;
const BURST_WITHIN: Duration = Duration::from_secs(60);
/// The same failed so often in a row.
const FAILURES: u64 = 5;
/// A run is slow that took so long,
const SLOW: Duration = Duration::from_secs(600);
/// or so much longer than half of all runs, if there are enough and it was not short.
const TIMES_MEDIAN: u64 = 10;
const ENOUGH_RUNS: usize = 20;
const NOT_SHORT: Duration = Duration::from_secs(10);

/// Goes through entries in their order.
#[derive(Debug, Default)]
pub(crate) struct Summing {
    summary: LedgerSummary,
    kinds: BTreeMap<&'static str, u64>,
    violations: BTreeMap<String, u64>,
    rules: BTreeMap<String, u64>,
    refused: BTreeMap<String, u64>,
    denials: HashMap<String, Denials>,
    failures: HashMap<(String, String, Option<String>), Failures>,
    runs: Vec<Run>,
}

/// The refusals of one party within a window.
#[derive(Debug, Default)]
struct Denials {
    recent: VecDeque<Timestamp>,
    burst: Option<(Timestamp, Timestamp, u64)>,
}

#[derive(Debug)]
struct Failures {
    since: Timestamp,
    until: Timestamp,
    count: u64,
}

#[derive(Debug)]
struct Run {
    wall_ms: u64,
    at: Timestamp,
    exec: String,
    cell: String,
}

impl Summing {
    /// Takes the next entry.
    pub(crate) fn add(&mut self, record: &LedgerRecord) {
        self.summary.since.get_or_insert(record.time);
        self.summary.until = Some(record.time);
        self.summary.entries += 1;
        *self.kinds.entry(record.kind.as_str()).or_default() += 1;
        if record.verdict == Some(Verdict::Denied) {
            self.deny(record);
        }
        match record.kind {
            EntryKind::Call | EntryKind::Admin => self.note_failure(record),
            EntryKind::ExecEnd => self.note_run(record),
            EntryKind::ExecStart
            | EntryKind::Egress
            | EntryKind::Decision
            | EntryKind::Approval
            | EntryKind::Recovered
            | EntryKind::Missed
            | EntryKind::Retention => {}
            EntryKind::Broken => {
                *self.violations.entry("ledger broken".to_owned()).or_default() += 1
            }
        }
    }

    fn deny(&mut self, record: &LedgerRecord) {
        let is_egress = record.kind == EntryKind::Egress;
        let what = if is_egress { "egress" } else { &record.what };
        let what = format!("{what} denied");
        *self.violations.entry(what).or_default() += 1;
        if let Some(rule) = &record.rule {
            *self.rules.entry(rule.clone()).or_default() += 1;
        }
        // Connections are nobody's call: the cell is what they have in common.
        let who = match record.cell.as_ref().filter(|_| is_egress) {
            Some(cell) => format!("cell {cell}"),
            None => record.principal.clone(),
        };
        *self.refused.entry(who.clone()).or_default() += 1;
        let denials = self.denials.entry(who.clone()).or_default();
        denials.recent.push_back(record.time);
        while denials.recent.front().is_some_and(|at| at.until(record.time) > BURST_WITHIN) {
            denials.recent.pop_front();
        }
        if denials.recent.len() >= BURST {
            let since = denials.recent.front().copied().unwrap_or(record.time);
            let burst = denials.burst.get_or_insert((since, record.time, BURST as u64 - 1));
            (burst.1, burst.2) = (record.time, burst.2 + 1);
        } else if denials.recent.len() == 1
            && let Some(burst) = denials.burst.take()
        {
            self.tell_burst(&who, burst);
        }
    }

    fn tell_burst(&mut self, who: &str, (since, until, count): (Timestamp, Timestamp, u64)) {
        let message =
            format!("{who} was refused {count} times within {} s", BURST_WITHIN.as_secs());
        self.tell(Anomaly { kind: AnomalyKind::DenialBurst, since, until, count, message });
    }

    fn note_failure(&mut self, record: &LedgerRecord) {
        let exit_code = record.details.get("exit_code");
        let failed_run = exit_code.is_some_and(|code| *code != Detail::Number(0));
        let failed = failed_run || record.outcome.as_deref().is_some_and(|outcome| outcome != "ok");
        let key = (record.principal.clone(), record.what.clone(), record.args.clone());
        if failed {
            let at = record.time;
            let failures =
                self.failures.entry(key).or_insert(Failures { since: at, until: at, count: 0 });
            (failures.until, failures.count) = (at, failures.count + 1);
        } else if let Some(failures) = self.failures.remove(&key) {
            self.tell_failures(&key.0, &key.1, &failures);
        }
    }

    fn tell_failures(&mut self, who: &str, what: &str, failures: &Failures) {
        let Failures { since, until, count } = *failures;
        if count >= FAILURES {
            let message = format!("the same {what} of {who} failed {count} times in a row");
            self.tell(Anomaly { kind: AnomalyKind::RepeatedFailure, since, until, count, message });
        }
    }

    fn note_run(&mut self, record: &LedgerRecord) {
        let text = |name: &str| match record.details.get(name) {
            Some(Detail::Text(text)) => Some(text.as_str()),
            Some(Detail::Number(_)) | None => None,
        };
        for limit in text("limits_hit").into_iter().flat_map(|limits| limits.split(',')) {
            *self.violations.entry(format!("limit {limit}")).or_default() += 1;
        }
        if let Some(cause @ ("timed_out" | "oom_killed" | "lost")) = text("cause") {
            *self.violations.entry(format!("exec {cause}")).or_default() += 1;
        }
        if let Some(Detail::Number(wall_ms)) = record.details.get("wall_ms") {
            self.runs.push(Run {
                wall_ms: u64::try_from(*wall_ms).unwrap_or_default(),
                at: record.time,
                exec: record.exec.as_ref().map(ToString::to_string).unwrap_or_default(),
                cell: record.cell.clone().unwrap_or_default(),
            });
        }
    }

    fn tell(&mut self, anomaly: Anomaly) {
        self.summary.anomalies.push(anomaly);
    }

    /// What stands out in all of them.
    pub(crate) fn finish(mut self) -> LedgerSummary {
        for (who, denials) in std::mem::take(&mut self.denials) {
            if let Some(burst) = denials.burst {
                self.tell_burst(&who, burst);
            }
        }
        for ((who, what, _), failures) in std::mem::take(&mut self.failures) {
            self.tell_failures(&who, &what, &failures);
        }
        self.tell_slow_runs();
        let mut summary = self.summary;
        summary.anomalies.sort_by(|a, b| (a.since, &a.message).cmp(&(b.since, &b.message)));
        let spare = summary.anomalies.len().saturating_sub(MOST_ANOMALIES);
        summary.anomalies.drain(..spare);
        summary.kinds = tallies(self.kinds, usize::MAX);
        summary.violations = tallies(self.violations, usize::MAX);
        summary.rules = tallies(self.rules, MOST_NAMES);
        summary.refused = tallies(self.refused, MOST_NAMES);
        summary
    }

    fn tell_slow_runs(&mut self) {
        let mut times: Vec<u64> = self.runs.iter().map(|run| run.wall_ms).collect();
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        let bound = match times.len() >= ENOUGH_RUNS {
            true => (median * TIMES_MEDIAN).max(milliseconds(NOT_SHORT)),
            false => u64::MAX,
        };
        for run in std::mem::take(&mut self.runs) {
            if run.wall_ms >= bound.min(milliseconds(SLOW)) {
                let Run { wall_ms, at, exec, cell } = run;
                let message = format!("exec {exec} in {cell} took {} s", wall_ms / 1000);
                let kind = AnomalyKind::SlowRun;
                self.tell(Anomaly { kind, since: at, until: at, count: 1, message });
            }
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The most frequent first.
pub(crate) fn tallies(counted: BTreeMap<impl Into<String>, u64>, most: usize) -> Vec<Tally> {
    let mut tallies: Vec<Tally> =
        counted.into_iter().map(|(name, count)| Tally { name: name.into(), count }).collect();
    tallies.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    tallies.truncate(most);
    tallies
}

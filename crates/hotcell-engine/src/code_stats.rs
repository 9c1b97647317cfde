//! What runs of code came to, summed from the ledger: it is everybody's, and outlives processes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_model::{
    Anomaly, AnomalyKind, Caller, CodeFigures, CodeStats, CodeTokens, Detail, EntryKind, ErrorCode,
    ExecId, LedgerFilter, LedgerRecord, Result, Tenant, Tenants, Timestamp, ToolFigures,
};

use crate::audit::{Sight, ledger};
use crate::audit_summary::tallies;
use crate::code_counts::CalledTool;
use crate::fault;
use crate::site::Site;

/// The latest runs by which it is told how long they take.
const TIMED: usize = 100_000;
/// Tools that are told by name.
const MOST_TOOLS: usize = 100;
/// What happened last so many times is held against all that was before,
const LATELY: usize = 20;
/// of which there has to be as much.
const BEFORE: u64 = 20;
/// It stands out if so much of it failed, in percent,
const MUCH: u64 = 50;
/// and so many times what failed before.
const TIMES: u64 = 3;
/// Runs of which more may be shown later.
const SHOWN: usize = 10_000;

/// What runs came to so far, as one process has read it.
#[derive(Debug, Default)]
pub(crate) struct CodeSums {
    /// Up to which entry, and the sums; by the tenant that they are of, or of all.
    known: Mutex<HashMap<Option<Tenant>, (u64, Sums)>>,
}

/// Tells what runs of code came to.
pub(crate) async fn code_stats(
    site: &Arc<Site>,
    caller: &Caller,
    request: CodeStats,
) -> Result<CodeFigures> {
    let ledger = ledger(site)?;
    let sight = match caller.tenants() {
        // A server that tells its operator.
        Tenants::All => Sight::All,
        Tenants::Of(_) => Sight::of(caller),
    };
    let Some(tenant) = sight.tenant(request.tenant) else {
        return Ok(CodeFigures::default());
    };
    site.bring_ends_up_to_date().await?;
    let filter =
        LedgerFilter { since: request.since, until: request.until, ..LedgerFilter::default() };
    let site = Arc::clone(site);
    fault::blocking(move || {
        if filter.since.is_some() || filter.until.is_some() {
            let mut sums = Sums::default();
            let filter = LedgerFilter { tenant, ..filter };
            ledger.scan(&filter, &mut |record| sums.add(&record))?;
            return Ok(sums.told());
        }
        // What was read once is not read again, whosever it was.
        let mut known = site.code_sums.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, sums) = known.entry(tenant.clone()).or_default();
        let filter = LedgerFilter { after: Some(*last), ..filter };
        ledger.scan(&filter, &mut |record| {
            *last = (*last).max(record.n);
            if tenant.as_ref().is_none_or(|tenant| record.tenant == *tenant) {
                sums.add(&record);
            }
        })?;
        Ok(sums.told())
    })
    .await
}

/// Goes through entries in their order.
#[derive(Debug, Default)]
struct Sums {
    ends: BTreeMap<String, u64>,
    runs: Outcomes,
    times: VecDeque<u64>,
    tools: BTreeMap<String, Tool>,
    tokens: CodeTokens,
    answers: Outcomes,
    /// What was kept out of each of the latest runs: shown again, it counts once.
    kept_out: HashMap<ExecId, u64>,
    order: VecDeque<ExecId>,
}

#[derive(Debug, Default)]
struct Tool {
    outcomes: Outcomes,
    tokens: u64,
}

/// How something went, again and again.
#[derive(Debug, Default)]
struct Outcomes {
    all: u64,
    bad: u64,
    lately: VecDeque<(Timestamp, bool)>,
}

impl Outcomes {
    fn add(&mut self, at: Timestamp, is_bad: bool) {
        self.all += 1;
        self.bad += u64::from(is_bad);
        self.lately.push_back((at, is_bad));
        if self.lately.len() > LATELY {
            self.lately.pop_front();
        }
    }

    /// Whether much of what happened last went badly, and much more of it than before.
    fn stand_out(&self, kind: AnomalyKind, what: &str) -> Option<Anomaly> {
        let lately = self.lately.len() as u64;
        let count = self.lately.iter().filter(|(_, is_bad)| *is_bad).count() as u64;
        let (before, bad_before) = (self.all - lately, self.bad - count);
        let is_much = count * 100 >= MUCH * lately;
        let is_more = count * before > TIMES * bad_before * lately;
        if before < BEFORE || !is_much || !is_more {
            return None;
        }
        let (since, until) = (self.lately.front()?.0, self.lately.back()?.0);
        let message =
            format!("{what}: {count} of the last {lately}, {bad_before} of {before} before");
        Some(Anomaly { kind, since, until, count, message })
    }
}

impl Sums {
    fn add(&mut self, record: &LedgerRecord) {
        match record.kind {
            EntryKind::ExecEnd => self.add_end(record),
            EntryKind::Call => self.add_call(record),
            EntryKind::Admin
            | EntryKind::ExecStart
            | EntryKind::Egress
            | EntryKind::Decision
            | EntryKind::Approval
            | EntryKind::Recovered
            | EntryKind::Broken
            | EntryKind::Missed
            | EntryKind::Retention => {}
        }
    }

    fn add_end(&mut self, record: &LedgerRecord) {
        if !record.details.contains_key("code") {
            return;
        }
        let cause = record.outcome.as_deref().unwrap_or_default();
        let end = match (cause, number(record, "exit_code")) {
            ("exited", Some(0)) => "ok",
            ("exited", _) => "error",
            (cause, _) => cause,
        };
        *self.ends.entry(end.to_owned()).or_default() += 1;
        self.runs.add(record.time, end != "ok");
        if let Some(wall_ms) = number(record, "wall_ms") {
            self.times.push_back(wall_ms);
            if self.times.len() > TIMED {
                self.times.pop_front();
            }
        }
    }

    fn add_call(&mut self, record: &LedgerRecord) {
        if let (Some(called), Some(_)) = (CalledTool::read(record), &record.exec) {
            // A name that nobody has is the code's own invention.
            let is_known = record.outcome.as_deref() != Some(ErrorCode::NotFound.as_str());
            if is_known {
                let tool = self.tools.entry(called.name.to_owned()).or_default();
                tool.outcomes.add(called.at, called.failed);
                tool.tokens = tool.tokens.saturating_add(called.tokens);
            }
            return;
        }
        let (Some(shown), Some(exec)) = (number(record, "tokens_shown"), &record.exec) else {
            return;
        };
        self.tokens.shown = self.tokens.shown.saturating_add(shown);
        let Some(kept_out) = number(record, "tokens_kept_out") else { return };
        self.answers.add(record.time, record.details.contains_key("cut"));
        // What was shown of it once is not kept out, whoever looks how often.
        let is_new = !self.kept_out.contains_key(exec);
        let known = self.kept_out.entry(exec.clone()).or_insert(kept_out);
        let before = if is_new { 0 } else { *known };
        *known = kept_out.min(*known);
        self.tokens.kept_out = (self.tokens.kept_out.saturating_sub(before)).saturating_add(*known);
        if is_new {
            self.order.push_back(exec.clone());
            if self.order.len() > SHOWN
                && let Some(oldest) = self.order.pop_front()
            {
                self.kept_out.remove(&oldest);
            }
        }
    }

    fn told(&self) -> CodeFigures {
        let succeeded = self.runs.all - self.runs.bad;
        let mut times: Vec<u64> = self.times.iter().copied().collect();
        times.sort_unstable();
        let at =
            |percent: usize| times.get((times.len() * percent).div_ceil(100).max(1) - 1).copied();
        let mut tools: Vec<ToolFigures> = self
            .tools
            .iter()
            .map(|(name, tool)| ToolFigures {
                tool: name.clone(),
                calls: tool.outcomes.all,
                errors: tool.outcomes.bad,
                tokens: tool.tokens,
            })
            .collect();
        tools.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.tool.cmp(&b.tool)));
        tools.truncate(MOST_TOOLS);
        CodeFigures {
            runs: self.runs.all,
            succeeded,
            success_rate: (self.runs.all > 0).then(|| succeeded as f64 / self.runs.all as f64),
            ends: tallies(self.ends.clone(), usize::MAX),
            p50_ms: at(50),
            p95_ms: at(95),
            tools,
            tokens: self.tokens,
            cut: self.answers.bad,
            anomalies: self.anomalies(),
        }
    }

    fn anomalies(&self) -> Vec<Anomaly> {
        let runs = self.runs.stand_out(AnomalyKind::FailingRuns, "runs that failed");
        let cut = self.answers.stand_out(AnomalyKind::CutAnswers, "answers that were cut");
        let tools = self.tools.iter().filter_map(|(name, tool)| {
            let what = format!("calls of {name} that failed");
            tool.outcomes.stand_out(AnomalyKind::FailingTool, &what)
        });
        runs.into_iter().chain(tools).chain(cut).take(MOST_TOOLS).collect()
    }
}

fn number(record: &LedgerRecord, name: &str) -> Option<u64> {
    match record.details.get(name)? {
        Detail::Number(number) => u64::try_from(*number).ok(),
        Detail::Text(_) => None,
    }
}

#[cfg(test)]
pub(crate) fn summed<'a>(records: impl IntoIterator<Item = &'a LedgerRecord>) -> CodeFigures {
    let mut sums = Sums::default();
    records.into_iter().for_each(|record| sums.add(record));
    sums.told()
}

//! Counts the ends of execs, whichever process began them, each of them once.
//!
//! The journals are the truth and everybody shares them, so ends are looked up there and not
//! counted where somebody happened to wait.

use std::collections::{HashMap, HashSet};

use hotcell_model::{
    Caller, Exec, ExecEnd, ExecGet, ExecId, ExecList, ExecState, ExecStatusFilter, Result,
    Timestamp,
};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::door::Door;

const PAGE: u32 = 1000;
/// Pages that one look goes through; what lies beyond is left out, and the log says so.
const MOST_PAGES: usize = 200;
/// Execs are listed by when they were asked for, and one may come into the list a little late.
const LATE_MS: u64 = 5000;
const SECONDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cause {
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Source {
    stream: &'static str,
}

/// What is known of execs.
pub(super) struct ExecEnds {
    ends: Family<Cause, Counter>,
    seconds: Histogram,
    output: Family<Source, Counter>,
    running: Gauge,
    queued: Gauge,
    /// Execs that had not ended at the last look.
    live: HashSet<ExecId>,
    /// Those that were asked for shortly before the newest one that was seen.
    recent: HashMap<ExecId, Timestamp>,
    newest: Timestamp,
}

impl ExecEnds {
    /// Execs that were asked for since then are counted.
    pub(super) fn new(registry: &mut Registry, began: Timestamp) -> Self {
        let known = Self {
            ends: Family::default(),
            seconds: Histogram::new(SECONDS),
            output: Family::default(),
            running: Gauge::default(),
            queued: Gauge::default(),
            live: HashSet::new(),
            recent: HashMap::new(),
            newest: began,
        };
        registry.register("execs_ended", "Execs that ended, by cause", known.ends.clone());
        registry.register_with_unit(
            "exec_duration",
            "How long execs that ended had run",
            Unit::Seconds,
            known.seconds.clone(),
        );
        registry.register_with_unit(
            "exec_output",
            "What execs that ended had printed; a terminal counts as stdout",
            Unit::Bytes,
            known.output.clone(),
        );
        registry.register("execs_running", "Execs that run", known.running.clone());
        registry.register("execs_queued", "Execs that wait in a queue", known.queued.clone());
        known
    }

    /// Counts what has ended since the last look.
    pub(super) async fn look(&mut self, door: &Door, own: &Caller) -> Result<()> {
        self.count_new(door, own).await?;
        let mut live = HashMap::new();
        each(door, own, Some(ExecStatusFilter::Live), |exec| {
            live.insert(exec.id, exec.state);
            Next::GoOn
        })
        .await?;
        for exec in std::mem::take(&mut self.live) {
            if live.contains_key(&exec) {
                continue;
            }
            // One that is gone from the records was not looked at for a day.
            if let Ok(exec) = door.ask(own, ExecGet { exec }).await
                && let Some(end) = &exec.end
            {
                self.count(end);
            }
        }
        let count = |wanted| live.values().filter(|state| **state == wanted).count();
        self.running.set(super::whole(count(ExecState::Running)));
        self.queued.set(super::whole(count(ExecState::Queued)));
        self.live = live.into_keys().collect();
        Ok(())
    }

    /// Goes through what was asked for since the last look.
    async fn count_new(&mut self, door: &Door, own: &Caller) -> Result<()> {
        let since = Timestamp(self.newest.0.saturating_sub(LATE_MS));
        let mut fresh = Vec::new();
        each(door, own, None, |exec| {
            if exec.queued_at < since {
                return Next::Enough;
            }
            fresh.push(exec);
            Next::GoOn
        })
        .await?;
        for exec in fresh {
            let seen = self.recent.insert(exec.id.clone(), exec.queued_at).is_some();
            self.newest = self.newest.max(exec.queued_at);
            match &exec.end {
                Some(end) if !seen => self.count(end),
                Some(_) => {}
                None => drop(self.live.insert(exec.id)),
            }
        }
        let since = self.newest.0.saturating_sub(LATE_MS);
        self.recent.retain(|_, queued_at| queued_at.0 >= since);
        Ok(())
    }

    fn count(&self, end: &ExecEnd) {
        self.ends.get_or_create(&Cause { cause: end.cause.as_str() }).inc();
        self.seconds.observe(end.usage.wall_ms as f64 / 1000.0);
        let printed = [("stdout", end.usage.stdout_bytes), ("stderr", end.usage.stderr_bytes)];
        for (stream, bytes) in printed {
            self.output.get_or_create(&Source { stream }).inc_by(bytes);
        }
    }
}

/// Whether a list is gone through further.
enum Next {
    GoOn,
    Enough,
}

/// Goes through execs, the newest first.
async fn each(
    door: &Door,
    own: &Caller,
    status: Option<ExecStatusFilter>,
    mut take: impl FnMut(Exec) -> Next,
) -> Result<()> {
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let request = ExecList { cell: None, status, limit: PAGE, cursor };
        let page = door.ask(own, request).await?;
        for exec in page.execs {
            if let Next::Enough = take(exec) {
                return Ok(());
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
    tracing::warn!("there are more execs than the metrics look at");
    Ok(())
}

//! What code called: counted where its calls are answered, whatever the code says of them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hotcell_model::{
    Detail, EntryKind, Exec, ExecId, LedgerFilter, LedgerRecord, Timestamp, ToolRan, ToolRun,
    ToolUse,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::fault;
use crate::site::Site;

/// The most tools of one run that are told apart: the names are the code's own.
const MOST_TOOLS: usize = 200;
/// Runs whose calls this process remembers; those of others are in the ledger.
const REMEMBERED: usize = 4096;
/// An entry is written when its call is over, which may be after the end of the code.
const LATE_S: u64 = 60;

/// What the calls of recent runs came to.
#[derive(Debug, Default)]
pub(crate) struct CodeCounts {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    runs: HashMap<ExecId, Arc<RunCounts>>,
    order: VecDeque<ExecId>,
}

impl CodeCounts {
    /// Begins to count the calls of a run, or goes on.
    pub(crate) fn begin(&self, exec: &ExecId) -> Arc<RunCounts> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = known.runs.get(exec) {
            return Arc::clone(counts);
        }
        let counts = Arc::new(RunCounts::default());
        known.runs.insert(exec.clone(), Arc::clone(&counts));
        known.order.push_back(exec.clone());
        if known.order.len() > REMEMBERED
            && let Some(oldest) = known.order.pop_front()
        {
            known.runs.remove(&oldest);
        }
        counts
    }

    fn find(&self, exec: &ExecId) -> Option<Arc<RunCounts>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.runs.get(exec).map(Arc::clone)
    }
}

/// What the calls of one run came to so far, by server and tool, and how many there were and are,
/// whichever of its processes made them.
#[derive(Debug, Default)]
pub(crate) struct RunCounts {
    tools: Mutex<BTreeMap<(String, String), ToolUse>>,
    begun: AtomicU64,
    under_way: OnceLock<Arc<Semaphore>>,
}

impl RunCounts {
    /// Counts one that begins; how many there were with it.
    pub(crate) fn count_one(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Waits until one more may be under way.
    pub(crate) async fn place(&self, most: usize) -> Option<OwnedSemaphorePermit> {
        let places = self.under_way.get_or_init(|| Arc::new(Semaphore::new(most)));
        // It is never closed.
        Arc::clone(places).acquire_owned().await.ok()
    }

    /// Counts a call that begins. Dropped without an answer, it has failed.
    pub(crate) fn call(self: &Arc<Self>, run: &ToolRun) -> CountedCall {
        let key = (run.server.clone(), run.tool.clone());
        self.add(&key, |used| {
            used.calls += 1;
            used.bytes_in += run.bytes();
        });
        CountedCall { counts: Arc::clone(self), key, is_answered: false }
    }

    fn add(&self, key: &(String, String), count: impl FnOnce(&mut ToolUse)) {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if tools.contains_key(key) || tools.len() < MOST_TOOLS {
            let (server, tool) = key.clone();
            let fresh = || ToolUse { server, tool, ..ToolUse::default() };
            count(tools.entry(key.clone()).or_insert_with(fresh));
        }
    }

    fn told(&self) -> Vec<ToolUse> {
        let tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        tools.values().cloned().collect()
    }
}

/// A call that is under way.
#[derive(Debug)]
pub(crate) struct CountedCall {
    counts: Arc<RunCounts>,
    key: (String, String),
    is_answered: bool,
}

impl CountedCall {
    /// Counts its answer.
    pub(crate) fn answered(mut self, ran: &ToolRan) {
        self.is_answered = true;
        self.counts.add(&self.key, |used| {
            used.errors += u64::from(ran.failed);
            used.bytes_out += ran.bytes;
            used.tokens += ran.tokens;
        });
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        if !self.is_answered {
            self.counts.add(&self.key, |used| used.errors += 1);
        }
    }
}

impl Site {
    /// The tools that code called so far. What another process answered is looked up in the ledger,
    /// where each call stands once it is over.
    pub(crate) async fn tools_called(&self, exec: &Exec) -> Vec<ToolUse> {
        if let Some(counts) = self.counts.find(&exec.id) {
            return counts.told();
        }
        let Some(ledger) = self.ledger.as_ref().map(Arc::clone) else { return Vec::new() };
        let until = exec.end.as_ref().map(|end| end.ended_at.plus_seconds(LATE_S));
        let filter = LedgerFilter {
            since: Some(exec.queued_at),
            until,
            exec: Some(exec.id.clone()),
            kind: Some(EntryKind::Call),
            ..LedgerFilter::default()
        };
        let found = fault::blocking(move || {
            let mut tools = BTreeMap::new();
            ledger.scan(&filter, &mut |record| add_entry(&mut tools, &record))?;
            Ok(tools.into_values().collect())
        });
        found.await.unwrap_or_else(|error| {
            tracing::warn!(exec = %exec.id, %error, "what code called cannot be told");
            Vec::new()
        })
    }
}

/// A call of a tool as the ledger has it.
#[derive(Debug)]
pub(crate) struct CalledTool<'a> {
    /// Its full name.
    pub(crate) name: &'a str,
    /// Whether it failed, by the server's word or without an answer.
    pub(crate) failed: bool,
    bytes_in: u64,
    bytes_out: u64,
    /// What its result would have cost a model.
    pub(crate) tokens: u64,
    /// When it was over.
    pub(crate) at: Timestamp,
}

impl<'a> CalledTool<'a> {
    /// Reads an entry, if it is about one.
    pub(crate) fn read(record: &'a LedgerRecord) -> Option<Self> {
        let Some(Detail::Text(name)) = record.details.get("tool") else { return None };
        let number = |name: &str| match record.details.get(name) {
            Some(Detail::Number(number)) => u64::try_from(*number).unwrap_or_default(),
            Some(Detail::Text(_)) | None => 0,
        };
        let is_ok = record.outcome.as_deref() == Some("ok");
        Some(Self {
            name,
            failed: !is_ok || record.details.contains_key("failed"),
            bytes_in: number("bytes_in"),
            bytes_out: number("bytes_out"),
            tokens: number("tokens"),
            at: record.time,
        })
    }
}

fn add_entry(tools: &mut BTreeMap<String, ToolUse>, record: &LedgerRecord) {
    let Some(called) = CalledTool::read(record) else { return };
    let Some((server, tool)) = called.name.split_once('.') else { return };
    if !tools.contains_key(called.name) && tools.len() >= MOST_TOOLS {
        return;
    }
    let used = tools.entry(called.name.to_owned()).or_default();
    (used.server, used.tool) = (server.to_owned(), tool.to_owned());
    used.calls += 1;
    used.errors += u64::from(called.failed);
    used.bytes_in += called.bytes_in;
    used.bytes_out += called.bytes_out;
    used.tokens += called.tokens;
}

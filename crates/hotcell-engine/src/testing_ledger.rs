//! A ledger for tests: the real one, which can lack room and is watched.

use std::sync::atomic::{AtomicUsize, Ordering};

use hotcell_ledger::ChainedLedger;
use hotcell_model::{
    AppendWait, Appended, EntryKind, Error, Ledger, LedgerCheck, LedgerEntry, LedgerFilter,
    LedgerRecord, LedgerReport, Result,
};

#[derive(Debug)]
pub(crate) struct TestLedger {
    ledger: ChainedLedger,
    no_room_for: Option<EntryKind>,
    looks: AtomicUsize,
}

impl TestLedger {
    pub(crate) fn new(ledger: ChainedLedger) -> Self {
        Self { ledger, no_room_for: None, looks: AtomicUsize::new(0) }
    }

    /// One that has no room for one kind of entry.
    pub(crate) fn without(ledger: ChainedLedger, kind: EntryKind) -> Self {
        Self { no_room_for: Some(kind), ..Self::new(ledger) }
    }

    /// How often it was looked through.
    pub(crate) fn looks(&self) -> usize {
        self.looks.load(Ordering::Relaxed)
    }
}

impl Ledger for TestLedger {
    fn is_open(&self) -> bool {
        self.ledger.is_open()
    }

    fn reserve(&self) -> Result<()> {
        self.ledger.reserve()
    }

    fn append(&self, entry: &LedgerEntry, wait: AppendWait) -> Result<Appended> {
        if self.no_room_for == Some(entry.kind) {
            return Err(Error::unavailable("no space left on device"));
        }
        self.ledger.append(entry, wait)
    }

    fn digest(&self, parts: &[&[u8]]) -> Result<String> {
        self.ledger.digest(parts)
    }

    fn last(&self) -> Result<u64> {
        self.ledger.last()
    }

    fn scan(&self, filter: &LedgerFilter, each: &mut dyn FnMut(LedgerRecord)) -> Result<()> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.ledger.scan(filter, each)
    }

    fn query(&self, filter: &LedgerFilter, limit: usize) -> Result<Vec<LedgerRecord>> {
        self.ledger.query(filter, limit)
    }

    fn verify(&self, check: &LedgerCheck) -> Result<LedgerReport> {
        self.ledger.verify(check)
    }
}

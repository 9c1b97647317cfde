//! A ledger for tests.

use std::fs;
use std::path::PathBuf;

use hotcell_model::{
    AppendWait, Appended, EntryKind, Ledger, LedgerCheck, LedgerEntry, LedgerReport,
};
use tempfile::TempDir;

use crate::ledger::{ChainedLedger, LedgerSettings, Sync};

/// A directory with a ledger.
pub(crate) struct Home {
    directory: TempDir,
    pub(crate) settings: LedgerSettings,
}

impl Home {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let settings = LedgerSettings {
            directory: at("ledger"),
            key_file: at("ledger.key"),
            head_file: at("ledger.head"),
            segment_bytes: 1 << 20,
            keep: None,
            keep_bytes: None,
            floor: None,
            most_bytes: None,
            sync: Sync::Off,
        };
        Self { directory, settings }
    }

    /// One that has so many entries, in segments of this size.
    pub(crate) fn with(entries: u64, segment_bytes: u64) -> Self {
        let mut home = Self::new();
        home.settings.segment_bytes = segment_bytes;
        let ledger = home.open();
        (1..=entries).for_each(|n| assert_eq!(append(&ledger), n));
        home
    }

    pub(crate) fn open(&self) -> ChainedLedger {
        ChainedLedger::new(self.settings.clone())
    }

    pub(crate) fn verify(&self) -> LedgerReport {
        self.open().verify(&LedgerCheck::default()).unwrap()
    }

    /// The segments, the oldest first.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = fs::read_dir(&self.settings.directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
            .collect();
        found.sort();
        found
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// Adds an entry; its number.
pub(crate) fn append(ledger: &ChainedLedger) -> u64 {
    let entry = LedgerEntry::own(EntryKind::Call, "exec_run").with("exit_code", 0);
    match ledger.append(&entry, AppendWait::Bounded).unwrap() {
        Appended::Written(n) => n,
        Appended::Busy => panic!("it was to be waited for"),
    }
}

/// What is wrong, in a word each, with the numbers of the entries.
pub(crate) fn faults(report: &LedgerReport) -> Vec<(&'static str, u64, u64)> {
    report.faults.iter().map(|it| (it.kind.as_str(), it.from, it.to)).collect()
}

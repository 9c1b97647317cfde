//! Many processes write to one ledger, and are killed at any moment: the chain holds.
#![expect(clippy::disallowed_methods, reason = "the tests need other processes, with a part each")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use hotcell_ledger::{ChainedLedger, LedgerSettings, Sync};
use hotcell_model::{
    AppendWait, EntryKind, Ledger, LedgerCheck, LedgerEntry, LedgerFilter, LedgerReport,
    LedgerState,
};

const DIRECTORY: &str = "HOTCELL_TEST_DIRECTORY";
const ENTRIES: &str = "HOTCELL_TEST_ENTRIES";

fn ledger(home: &Path) -> ChainedLedger {
    ChainedLedger::new(LedgerSettings {
        directory: home.join("ledger"),
        key_file: home.join("ledger.key"),
        head_file: home.join("ledger.head"),
        // Small, so that a new one is begun all the time.
        segment_bytes: 8 << 10,
        keep: None,
        keep_bytes: None,
        floor: None,
        most_bytes: None,
        sync: Sync::Off,
    })
}

fn verify(home: &Path) -> LedgerReport {
    ledger(home).verify(&LedgerCheck::default()).unwrap()
}

/// Another process that adds so many entries, or until it is killed, and says so after each.
fn start(home: &Path, entries: u64) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["adds_entries", "--exact", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, home)
        .env(ENTRIES, entries.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

/// The part of the other processes; alone it does nothing.
#[test]
fn adds_entries() {
    let Some(home) = std::env::var_os(DIRECTORY) else { return };
    let entries: u64 = std::env::var(ENTRIES).unwrap().parse().unwrap();
    let ledger = ledger(Path::new(&home));
    for _ in 0..entries {
        // Longer than a page now and then, so that a kill may come in the middle of a write.
        let mut entry = LedgerEntry::own(EntryKind::Call, "exec_run");
        for number in 0..40 {
            entry = entry.with(&format!("detail-{number}"), "x".repeat(200));
        }
        ledger.append(&entry, AppendWait::Bounded).unwrap();
        println!("added");
        // Nobody who writes all the time leaves a turn to the others.
        std::thread::sleep(std::time::Duration::from_micros(500));
    }
}

#[test]
fn many_processes_leave_no_gap() {
    let home = tempfile::tempdir().unwrap();
    let (processes, each) = (8, 50);
    let children: Vec<_> = (0..processes).map(|_| start(home.path(), each)).collect();
    for (mut child, lines) in children {
        assert_eq!(
            lines.lines().filter(|line| line.as_ref().unwrap().ends_with("added")).count(),
            50
        );
        assert!(child.wait().unwrap().success());
    }
    let report = verify(home.path());
    assert_eq!(report.state, LedgerState::Intact, "{report:?}");
    assert_eq!(
        (report.first, report.last, report.verified),
        (1, processes * each, processes * each)
    );
}

#[test]
fn processes_that_are_killed_while_they_write_break_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mut told = 0;
    for round in 0..6_u64 {
        let children: Vec<_> = (0..8).map(|_| start(home.path(), u64::MAX)).collect();
        for (place, (mut child, mut lines)) in children.into_iter().enumerate() {
            // Each after another number of entries, so that nothing is told by chance alone.
            let wanted = 1 + (round * 7 + place as u64 * 3) % 11;
            let (mut line, mut heard) = (String::new(), 0);
            while heard < wanted {
                line.clear();
                assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it ended by itself");
                heard += u64::from(line.trim_end().ends_with("added"));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            // What it said before it died counts too.
            let rest = lines.lines().map_while(Result::ok);
            told += heard + rest.filter(|line| line.ends_with("added")).count() as u64;
        }
        let report = verify(home.path());
        assert_eq!(report.state, LedgerState::Intact, "round {round}: {report:?}");
    }
    let (mut calls, mut others) = (0, 0);
    let count = &mut |record: hotcell_model::LedgerRecord| {
        *(if record.kind == EntryKind::Call { &mut calls } else { &mut others }) += 1;
    };
    ledger(home.path()).scan(&LedgerFilter::default(), count).unwrap();
    // Nothing that was said to be added is missing; one of each may have been added unsaid.
    assert!((told..=told + 6 * 8).contains(&calls), "{told} were told, {calls} are there");
    let report = verify(home.path());
    assert_eq!(report.last, calls + others, "{report:?}");
}

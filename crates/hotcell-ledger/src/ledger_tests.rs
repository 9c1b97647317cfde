//! Entries are numbered without gaps among all processes, read by filters, rotated and removed as
//! the settings say.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::Duration;

use hotcell_model::{
    AppendWait, Detail, EntryKind, ErrorCode, Ledger, LedgerCheck, LedgerEntry, LedgerFilter,
    LedgerState, Verdict,
};

use crate::testing::{Home, append, faults};

#[test]
fn a_ledger_that_nobody_wrote_to_is_empty_and_not_begun() {
    let home = Home::new();
    let report = home.verify();
    assert_eq!((report.state, report.last, report.notes.len()), (LedgerState::Intact, 0, 1));
    assert!(home.open().query(&LedgerFilter::default(), 10).unwrap().is_empty());
    assert!(!home.settings.key_file.exists() && !home.settings.head_file.exists());
}

#[test]
fn its_files_are_its_owners_alone() {
    let home = Home::with(2, 1 << 20);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.settings.directory), 0o700);
    for file in [&home.settings.key_file, &home.settings.head_file, &home.segments()[0]] {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
}

#[test]
fn several_that_write_at_once_leave_no_gap() {
    let home = Home::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            // Each as if it were a process of its own.
            let ledger = home.open();
            scope.spawn(move || (0..200).for_each(|_| _ = append(&ledger)));
        }
        let shared = home.open();
        scope.spawn(move || {
            std::thread::scope(|inner| {
                for _ in 0..4 {
                    inner.spawn(|| (0..100).for_each(|_| _ = append(&shared)));
                }
            });
        });
    });
    let report = home.verify();
    assert_eq!((report.state, report.verified), (LedgerState::Intact, 2000), "{report:?}");
}

#[test]
fn whoever_does_not_want_to_wait_is_told() {
    let home = Home::with(1, 1 << 20);
    let file = fs::File::open(&home.settings.head_file).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let ledger = home.open();
    let entry = LedgerEntry::own(EntryKind::Call, "exec_run");
    // It was not even opened yet: then it is waited for, with a bound.
    let refused = ledger.append(&entry, AppendWait::Never).unwrap_err();
    assert_eq!(refused.code, ErrorCode::Unavailable);
    drop(file);
    // That it was not written is told first.
    assert_eq!(append(&ledger), 3);
    let file = fs::File::open(&home.settings.head_file).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let busy = ledger.append(&entry, AppendWait::Never).unwrap();
    assert_eq!(busy, hotcell_model::Appended::Busy);
}

#[test]
fn a_lock_that_others_write_under_is_waited_for() {
    let home = Home::with(1, 1 << 20);
    let ledger = home.open();
    let file = fs::File::options().write(true).open(&home.settings.head_file).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let (ended, ends) = std::sync::mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(move || ended.send(append(&ledger)));
        // Longer than one that writes nothing is waited for. Between the slots lies nothing.
        for number in 1..=7_u8 {
            file.write_all_at(&[number], 1000).unwrap();
            assert!(ends.recv_timeout(Duration::from_secs(1)).is_err(), "it did not wait");
        }
        drop(file);
        assert_eq!(ends.recv().unwrap(), 2);
    });
    assert_eq!(home.verify().state, LedgerState::Intact);
}

#[test]
fn filters_take_what_they_say() {
    let home = Home::new();
    let ledger = home.open();
    let put = |entry: LedgerEntry| _ = ledger.append(&entry, AppendWait::Bounded).unwrap();
    for round in 0..10_u64 {
        let mut entry = LedgerEntry::own(EntryKind::Call, "exec_run").with("round", round);
        entry.principal = format!("user-{}", round % 2);
        entry.tenant = if round < 5 { "one" } else { "two" }.parse().unwrap();
        entry.cell = Some(format!("cell-{}", round % 3));
        entry.verdict = Some(if round == 7 { Verdict::Denied } else { Verdict::Allowed });
        put(entry);
    }
    let numbers = |filter: LedgerFilter, limit: usize| -> Vec<u64> {
        ledger.query(&filter, limit).unwrap().iter().map(|it| it.n).collect()
    };
    let all = LedgerFilter::default;
    assert_eq!(numbers(all(), 3), [8, 9, 10]);
    assert_eq!(numbers(LedgerFilter { after: Some(4), ..all() }, 3), [5, 6, 7]);
    assert_eq!(numbers(LedgerFilter { verdict: Some(Verdict::Denied), ..all() }, 9), [8]);
    let tenant = Some("one".parse().unwrap());
    assert_eq!(numbers(LedgerFilter { tenant, ..all() }, 9), [1, 2, 3, 4, 5]);
    let cells = vec!["cell-2".to_owned(), "another".to_owned()];
    assert_eq!(numbers(LedgerFilter { cells, ..all() }, 9), [3, 6, 9]);
    let principal = Some("user-1".to_owned());
    assert_eq!(numbers(LedgerFilter { principal, ..all() }, 9), [2, 4, 6, 8, 10]);
    assert!(numbers(LedgerFilter { kind: Some(EntryKind::Admin), ..all() }, 9).is_empty());
    let far = hotcell_model::Timestamp::now().plus_seconds(100);
    assert!(numbers(LedgerFilter { since: Some(far), ..all() }, 9).is_empty());
    assert_eq!(numbers(LedgerFilter { until: Some(far), ..all() }, 99).len(), 10);
    let mut scanned = 0;
    ledger.scan(&all(), &mut |_| scanned += 1).unwrap();
    assert_eq!(scanned, 10);
    let text = Detail::from("x".repeat(5000));
    assert!(matches!(text, Detail::Text(text) if text.len() == Detail::MAX_CHARS));
}

#[test]
fn pages_go_through_segments() {
    let home = Home::with(100, 4096);
    let ledger = home.open();
    let mut seen = Vec::new();
    loop {
        let after = Some(seen.last().copied().unwrap_or(0));
        let page = ledger.query(&LedgerFilter { after, ..LedgerFilter::default() }, 7).unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page.iter().map(|it| it.n));
    }
    assert_eq!(seen, (1..=100).collect::<Vec<_>>());
    let newest = ledger.query(&LedgerFilter::default(), 40).unwrap();
    assert_eq!(newest.iter().map(|it| it.n).collect::<Vec<_>>(), (61..=100).collect::<Vec<_>>());
}

#[test]
fn old_segments_are_removed_and_the_rest_is_verified() {
    let mut home = Home::with(100, 2048);
    let segments = home.segments();
    assert!(segments.len() > 6, "{segments:?}");
    home.settings.keep_bytes = Some(5_000);
    let ledger = home.open();
    while home.segments().contains(&segments[1]) {
        append(&ledger);
    }
    let report = home.verify();
    assert_eq!(report.state, LedgerState::Intact, "{report:?}");
    assert!(report.first > 1 && report.verified == report.last - report.first + 1, "{report:?}");
    let told = LedgerFilter { kind: Some(EntryKind::Retention), ..LedgerFilter::default() };
    let told = ledger.query(&told, 9).unwrap();
    assert_eq!(told[0].details["from"], Detail::Number(1));
    // One more that nobody said was to be removed is missed.
    fs::remove_file(&home.segments()[0]).unwrap();
    let found = faults(&home.verify());
    assert_eq!((found[0].0, found[0].1), ("removed", report.first));
}

#[test]
fn what_is_young_is_not_removed_for_room_and_too_much_of_it_refuses_more() {
    let mut home = Home::with(100, 2048);
    let oldest = home.segments()[0].clone();
    home.settings.keep_bytes = Some(5_000);
    home.settings.floor = Some(Duration::from_secs(3600));
    home.settings.most_bytes = Some(100_000);
    let ledger = home.open();
    for _ in 0..100 {
        ledger.reserve().unwrap();
        append(&ledger);
    }
    assert!(oldest.exists());
    home.settings.most_bytes = Some(30_000);
    let refused = home.open().reserve().unwrap_err();
    assert_eq!(refused.code, ErrorCode::Unavailable);
    assert!(refused.message.contains("ledger.floor_days"), "{refused}");
    // What happened all the same is written down.
    append(&home.open());
    let report = home.verify();
    assert_eq!((report.state, report.verified), (LedgerState::Intact, 201), "{report:?}");
    // Past the floor there is room again.
    home.settings.floor = Some(Duration::ZERO);
    let ledger = home.open();
    while oldest.exists() {
        append(&ledger);
    }
    home.open().reserve().unwrap();
    assert_eq!(home.verify().state, LedgerState::Intact);
}

#[test]
fn nobody_without_the_key_makes_entries_old() {
    let mut home = Home::with(100, 2048);
    let segments = home.segments();
    for path in &segments[1..4] {
        let text = fs::read_to_string(path).unwrap();
        let year = text.split("\"time\":\"").nth(1).unwrap()[..4].to_owned();
        fs::write(path, text.replacen(&year, "1999", 1)).unwrap();
    }
    home.settings.keep = Some(Duration::from_secs(3600));
    let ledger = home.open();
    let before = home.segments().len();
    while home.segments().len() == before {
        append(&ledger);
    }
    // They are still there to be found.
    assert!(segments.iter().all(|path| path.exists()));
    let found = faults(&home.verify());
    assert!(found.len() >= 3 && found.iter().all(|(kind, ..)| *kind == "changed"), "{found:?}");
}

#[test]
fn entries_go_by_their_age_though_a_segment_is_far_from_full() {
    let mut home = Home::with(50, 1 << 20);
    home.settings.keep = Some(Duration::from_millis(20));
    let oldest = home.segments()[0].clone();
    let ledger = home.open();
    while oldest.exists() {
        append(&ledger);
    }
    let report = home.verify();
    assert_eq!(report.state, LedgerState::Intact, "{report:?}");
    assert!(report.first > 50, "{report:?}");
}

#[test]
fn a_process_that_died_while_it_removed_old_segments_did_no_harm() {
    let mut home = Home::with(60, 2048);
    let oldest = home.segments()[0].clone();
    let bytes = fs::read(&oldest).unwrap();
    home.settings.keep_bytes = Some(5_000);
    let ledger = home.open();
    while oldest.exists() {
        append(&ledger);
    }
    fs::write(&oldest, bytes).unwrap();
    assert_eq!(home.verify().state, LedgerState::Intact);
    while oldest.exists() {
        append(&ledger);
    }
    assert_eq!(home.verify().state, LedgerState::Intact);
}

#[test]
fn equal_arguments_have_equal_digests_and_others_do_not() {
    let (home, other) = (Home::with(1, 1 << 20), Home::with(1, 1 << 20));
    let digest = |parts: &[&[u8]]| home.open().digest(parts).unwrap();
    assert_eq!(digest(&[b"ls", b"-l"]), digest(&[b"ls", b"-l"]));
    assert_ne!(digest(&[b"ls", b"-l"]), digest(&[b"ls-", b"l"]));
    assert_ne!(digest(&[b"ls"]), other.open().digest(&[b"ls"]).unwrap());
}

#[test]
fn room_is_made_before_it_is_needed() {
    let home = Home::new();
    let ledger = home.open();
    ledger.reserve().unwrap();
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(&home.segments()[0]).unwrap();
    assert!(found.blocks() * 512 >= 64 << 10 && found.len() < 1000, "{found:?}");
    append(&ledger);
    assert_eq!(home.verify().verified, 1);
}

#[test]
fn each_entry_can_be_on_the_disk_before_it_is_answered() {
    let mut home = Home::new();
    home.settings.sync = crate::Sync::Each;
    let ledger = home.open();
    (1..=5).for_each(|n| assert_eq!(append(&ledger), n));
    assert_eq!(home.open().verify(&LedgerCheck::default()).unwrap().verified, 5);
}

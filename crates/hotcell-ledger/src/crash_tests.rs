//! A process that dies anywhere leaves a ledger that is verified, and the next one goes on.

use std::fs;

use hotcell_model::{EntryKind, Ledger, LedgerFilter, LedgerState};

use crate::head::SLOT_BYTES;
use crate::testing::{Home, append, faults};

/// The ledger before and after its last entry: the segment and the head.
fn around_the_last_entry(home: &Home) -> [(Vec<u8>, Vec<u8>); 2] {
    let read =
        || (fs::read(&home.segments()[0]).unwrap(), fs::read(&home.settings.head_file).unwrap());
    let before = read();
    append(&home.open());
    [before, read()]
}

#[test]
fn an_entry_that_is_half_written_is_taken_away_and_that_is_told() {
    let home = Home::with(3, 1 << 20);
    let [before, after] = around_the_last_entry(&home);
    for length in before.0.len()..after.0.len() {
        let path = &home.segments()[0];
        fs::write(path, &after.0[..length]).unwrap();
        fs::write(&home.settings.head_file, &before.1).unwrap();
        let report = home.verify();
        assert_eq!((report.state, report.last), (LedgerState::Intact, 3), "{length}: {report:?}");
        let torn = length > before.0.len();
        assert_eq!(report.notes.len(), usize::from(torn), "{length}: {report:?}");
        assert_eq!(append(&home.open()), if torn { 5 } else { 4 });
        let report = home.verify();
        assert_eq!(report.state, LedgerState::Intact, "{length}: {report:?}");
        let kind = Some(EntryKind::Recovered);
        let told = home.open().query(&LedgerFilter { kind, ..LedgerFilter::default() }, 9).unwrap();
        assert_eq!(told.len(), usize::from(torn));
    }
}

#[test]
fn an_entry_whose_head_was_not_written_is_taken_in() {
    let home = Home::with(3, 1 << 20);
    let [before, after] = around_the_last_entry(&home);
    // No head, or a part of one.
    let slot = (0..after.1.len()).find(|at| before.1.get(*at) != after.1.get(*at)).unwrap();
    let slot = slot - slot % 4096;
    for length in 0..=SLOT_BYTES {
        let mut head = before.1.clone();
        head.resize(after.1.len(), 0);
        head[slot..slot + length].copy_from_slice(&after.1[slot..slot + length]);
        fs::write(&home.settings.head_file, head).unwrap();
        fs::write(&home.segments()[0], &after.0).unwrap();
        let report = home.verify();
        assert_eq!((report.state, report.last), (LedgerState::Intact, 4), "{length}: {report:?}");
        assert_eq!(append(&home.open()), 5);
        let report = home.verify();
        assert_eq!(
            (report.state, report.verified),
            (LedgerState::Intact, 5),
            "{length}: {report:?}"
        );
    }
}

#[test]
fn a_segment_that_was_begun_and_not_gone_on_with_is_used_or_passed_over() {
    for left in [0, 10, 10_000] {
        let home = Home::with(20, 2048);
        let report = home.verify();
        // What a process leaves that dies between making the next segment and telling the head.
        let next = home.settings.directory.join(format!("{:016}.jsonl", report.last + 1));
        let mut opening = fs::read(&home.segments()[1]).unwrap();
        let end = opening.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        opening.truncate(end.min(left));
        fs::write(&next, opening).unwrap();
        assert_eq!(home.verify().state, LedgerState::Intact);
        let ledger = home.open();
        (0..20).for_each(|_| _ = append(&ledger));
        let report = home.verify();
        assert_eq!((report.state, report.verified), (LedgerState::Intact, 40), "{report:?}");
    }
}

#[test]
fn the_first_process_dies_before_it_wrote_anything() {
    let home = Home::new();
    fs::write(&home.settings.head_file, "").unwrap();
    fs::create_dir(&home.settings.directory).unwrap();
    assert_eq!(append(&home.open()), 1);
    assert_eq!(home.verify().state, LedgerState::Intact);
    // With a key it looks as if everything had been removed, and that is told.
    let home = Home::with(1, 1 << 20);
    fs::remove_dir_all(&home.settings.directory).unwrap();
    fs::write(&home.settings.head_file, "").unwrap();
    assert_eq!(append(&home.open()), 2);
    assert_eq!(faults(&home.verify()), [("broken", 1, 1)]);
}

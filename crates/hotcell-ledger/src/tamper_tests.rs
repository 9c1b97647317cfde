//! Whatever is done to a ledger is found, and called by its name.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use hotcell_model::{
    AppendWait, EntryKind, ErrorCode, KnownEntry, Ledger, LedgerCheck, LedgerEntry, LedgerFilter,
    LedgerState,
};
use proptest::prelude::*;

use crate::chain::{Keys, hex, line, take_apart, unhex};
use crate::head::SLOT_BYTES;
use crate::segment::Opening;
use crate::testing::{Home, append, faults};

const ENTRIES: u64 = 9;

/// A ledger of a few entries in one segment that is found to be as it was written.
fn intact() -> Home {
    let home = Home::with(ENTRIES, 1 << 20);
    let report = home.verify();
    assert_eq!((report.state, report.verified), (LedgerState::Intact, ENTRIES), "{report:?}");
    assert_eq!((report.first, report.last), (1, ENTRIES));
    home
}

fn lines_of(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn put_lines(path: &Path, lines: &[String]) {
    fs::write(path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
}

/// Changes the lines of the only segment; what is found then. The first line is that of the segment,
/// so that entry n stands at n.
fn after(change: impl FnOnce(&mut Vec<String>)) -> Vec<(&'static str, u64, u64)> {
    let home = intact();
    let path = &home.segments()[0];
    let mut lines = lines_of(path);
    change(&mut lines);
    put_lines(path, &lines);
    let report = home.verify();
    assert_eq!(report.state, LedgerState::Damaged);
    faults(&report)
}

#[test]
fn every_byte_of_every_entry_counts() {
    let home = intact();
    let path = &home.segments()[0];
    let whole = fs::read(path).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    for at in 0..whole.len() {
        file.write_all_at(&[whole[at] ^ 1], at as u64).unwrap();
        let report = home.verify();
        assert_eq!(report.state, LedgerState::Damaged, "byte {at} of {}", whole.len());
        let line = whole[..at].iter().filter(|byte| **byte == b'\n').count() as u64;
        let found = faults(&report);
        // The line itself is named; a newline that is gone makes one line of two.
        assert!(
            found.iter().any(|(_, from, to)| (*from..=*to).contains(&line.max(1))),
            "{at}: {found:?}"
        );
        file.write_all_at(&[whole[at]], at as u64).unwrap();
    }
    assert_eq!(home.verify().state, LedgerState::Intact);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_other_bytes_anywhere_are_found(at in 0.0..1.0_f64, put in prop::collection::vec(any::<u8>(), 0..40), taken in 0_usize..40) {
        let home = intact();
        let path = &home.segments()[0];
        let whole = fs::read(path).unwrap();
        let at = (whole.len() as f64 * at) as usize;
        let end = (at + taken).min(whole.len());
        let mut changed = whole.clone();
        changed.splice(at..end, put);
        prop_assume!(changed != whole);
        // The beginning of an entry at the very end is what a process leaves that dies.
        prop_assume!(!changed.starts_with(&whole) || changed[whole.len()..].contains(&b'\n'));
        fs::write(path, &changed).unwrap();
        prop_assert_eq!(home.verify().state, LedgerState::Damaged);
    }
}

#[test]
fn what_was_changed_is_named() {
    let changed = after(|lines| lines[4] = lines[4].replace("exec_run", "exec_get"));
    assert_eq!(changed, [("changed", 4, 4)]);
    let number = after(|lines| lines[4] = lines[4].replace("\"n\":4", "\"n\":7"));
    assert_eq!(number, [("changed", 4, 4)]);
    let two = after(|lines| {
        for at in [3, 8] {
            lines[at] = lines[at].replace("exec_run", "exec_get");
        }
    });
    assert_eq!(two, [("changed", 3, 3), ("changed", 8, 8)]);
    let not_json = after(|lines| lines[4] = "{".to_owned());
    assert_eq!(not_json, [("changed", 4, 4)]);
    let last = after(|lines| lines[9] = lines[9].replace("exec_run", "exec_get"));
    assert_eq!(last, [("changed", 9, 9)]);
    let opening = after(|lines| lines[0] = lines[0].replace("\"ledger\":1", "\"ledger\":2"));
    assert_eq!(opening, [("changed", 1, 1)]);
}

#[test]
fn what_was_removed_added_or_moved_is_named() {
    assert_eq!(after(|lines| drop(lines.remove(1))), [("removed", 1, 1)]);
    assert_eq!(after(|lines| drop(lines.remove(5))), [("removed", 5, 5)]);
    assert_eq!(after(|lines| drop(lines.drain(3..6))), [("removed", 3, 5)]);
    assert_eq!(after(|lines| lines.insert(5, lines[4].clone())), [("duplicated", 4, 4)]);
    assert_eq!(after(|lines| lines.insert(8, lines[2].clone())), [("duplicated", 2, 2)]);
    assert_eq!(after(|lines| lines.swap(4, 5)), [("reordered", 4, 4)]);
    assert_eq!(
        after(|lines| lines.swap(2, 7)),
        [
            ("reordered", 2, 2),
            ("reordered", 3, 3),
            ("reordered", 4, 4),
            ("reordered", 5, 5),
            ("reordered", 6, 6)
        ]
    );
    assert_eq!(after(|lines| lines.insert(5, "nonsense".to_owned())), [("foreign", 5, 5)]);
    assert_eq!(after(|lines| lines.push("nonsense".to_owned())), [("foreign", 10, 10)]);
    assert_eq!(after(|lines| lines.push(lines[9].clone())), [("foreign", 10, 10)]);
}

#[test]
fn a_cut_is_found_at_a_line_and_within_one() {
    assert_eq!(after(|lines| lines.truncate(9)), [("cut", 9, 9)]);
    assert_eq!(after(|lines| lines.truncate(4)), [("cut", 4, 9)]);
    assert_eq!(after(|lines| lines.truncate(1)), [("cut", 1, 9)]);
    let home = intact();
    let path = &home.segments()[0];
    let whole = fs::read(path).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    for length in (0..whole.len()).rev() {
        file.set_len(length as u64).unwrap();
        let report = home.verify();
        assert_eq!(report.state, LedgerState::Damaged, "cut to {length}");
        let found = report.faults.iter().any(|it| it.to == ENTRIES);
        assert!(found, "cut to {length}: {:?}", report.faults);
    }
}

/// Writes a whole ledger with some key, as somebody would who has not ours.
fn rewritten(path: &Path, keys: &Keys, claimed: Option<&str>) {
    // The name of the ledger is no secret.
    let text = lines_of(path)[0].split("\"id\":\"").nth(1).unwrap()[..32].to_owned();
    let id = unhex(text.as_bytes()).unwrap();
    let mut before = keys.begin(&id);
    let mut lines: Vec<String> = Vec::new();
    let opening = String::from_utf8(Opening::line(keys, &id, 1, &before)).unwrap();
    lines.push(match claimed {
        Some(id) => opening.replace(&hex(&keys.id), id),
        None => opening,
    });
    for text in lines_of(path).iter().skip(1) {
        let mut body = take_apart(text.as_bytes()).unwrap().body;
        body = String::from_utf8(body).unwrap().replace("exec_run", "exec_get").into_bytes();
        before = keys.entry(&before, &body);
        lines.push(String::from_utf8(line(body, &before)).unwrap());
    }
    fs::write(path, lines.concat()).unwrap();
}

#[test]
fn a_chain_that_was_rewritten_without_the_key_is_found() {
    let home = intact();
    let path = &home.segments()[0];
    let key = fs::read_to_string(&home.settings.key_file).unwrap();
    let id = lines_of(path)[0].split("\"key\":\"").nth(1).unwrap()[..16].to_owned();
    // The name of the key is no secret, so it may be copied.
    for claimed in [None, Some(id.as_str())] {
        rewritten(path, &Keys::new(&[7; 32]), claimed);
        let report = home.verify();
        assert_eq!(faults(&report)[0], ("changed", 1, 1));
        assert_eq!(report.verified, 0, "{report:?}");
    }
    // Without the head nothing is left to compare with but the key.
    let head = fs::read(&home.settings.head_file).unwrap();
    fs::remove_file(&home.settings.head_file).unwrap();
    rewritten(path, &Keys::new(&[7; 32]), None);
    let found = faults(&home.verify());
    assert_eq!(found, [("head_missing", 0, 0), ("key_wrong", 0, 0)]);
    fs::write(&home.settings.head_file, head).unwrap();
    // With the key itself it could be done: whoever keeps that apart keeps the ledger safe.
    let mut bytes = [0; 32];
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&key[at..at + 2], 16).unwrap();
    }
    assert_ne!(Keys::new(&bytes).id, Keys::new(&[7; 32]).id);
}

#[test]
fn another_key_is_called_another_key_and_writes_nothing() {
    let home = intact();
    let before = fs::read(&home.segments()[0]).unwrap();
    let key = fs::read(&home.settings.key_file).unwrap();
    fs::write(&home.settings.key_file, "ab".repeat(32)).unwrap();
    assert_eq!(faults(&home.verify()), [("key_wrong", 0, 0)]);
    let entry = LedgerEntry::own(EntryKind::Call, "exec_run");
    let refused = home.open().append(&entry, AppendWait::Bounded).unwrap_err();
    assert!(
        refused.code == ErrorCode::Unavailable && refused.message.contains("another key"),
        "{refused}"
    );
    assert_eq!(fs::read(&home.segments()[0]).unwrap(), before);
    // None at all is no reason to make one.
    fs::remove_file(&home.settings.key_file).unwrap();
    assert_eq!(faults(&home.verify()), [("key_missing", 0, 0)]);
    home.open().append(&entry, AppendWait::Bounded).unwrap_err();
    assert!(!home.settings.key_file.exists());
    fs::write(&home.settings.key_file, key).unwrap();
    fs::set_permissions(&home.settings.key_file, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(home.verify().state, LedgerState::Intact);
}

#[test]
fn an_older_head_is_found() {
    let home = Home::with(4, 1 << 20);
    let older = fs::read(&home.settings.head_file).unwrap();
    let ledger = home.open();
    assert_eq!((append(&ledger), append(&ledger)), (5, 6));
    let newest = fs::read(&home.settings.head_file).unwrap();
    fs::write(&home.settings.head_file, &older).unwrap();
    assert_eq!(faults(&home.verify()), [("head_older", 5, 6)]);
    // With the tail gone as well, the older head is all there is to tell: then it is kept elsewhere.
    fs::write(&home.settings.head_file, &newest).unwrap();
    assert_eq!(home.verify().state, LedgerState::Intact);
    // It goes on, and says so for ever.
    fs::write(&home.settings.head_file, &older).unwrap();
    assert_eq!(append(&home.open()), 8);
    let report = home.verify();
    assert_eq!((faults(&report), report.verified), (vec![("broken", 7, 7)], 8));
}

#[test]
fn a_head_that_is_gone_or_changed_is_found() {
    let home = intact();
    let head = fs::read(&home.settings.head_file).unwrap();
    for at in (0..SLOT_BYTES).step_by(5).chain((4096..4096 + SLOT_BYTES).step_by(5)) {
        let mut changed = head.clone();
        changed[at] ^= 1;
        fs::write(&home.settings.head_file, &changed).unwrap();
        let report = home.verify();
        // Without its newest slot it looks as after a crash, and nothing is missing; then the last
        // entry has to be there.
        let all = (report.state, report.verified) == (LedgerState::Intact, ENTRIES);
        assert!(all || report.state == LedgerState::Damaged, "byte {at} of the head");
        let path = &home.segments()[0];
        let whole = fs::read(path).unwrap();
        let lines = lines_of(path);
        put_lines(path, &lines[..lines.len() - 1]);
        assert_eq!(home.verify().state, LedgerState::Damaged, "byte {at} of the head, and a cut");
        fs::write(path, whole).unwrap();
    }
    fs::write(&home.settings.head_file, vec![1; head.len()]).unwrap();
    assert_eq!(faults(&home.verify()), [("head_changed", 0, 0)]);
    for empty in [true, false] {
        if empty {
            fs::write(&home.settings.head_file, "").unwrap();
        } else {
            fs::remove_file(&home.settings.head_file).unwrap();
        }
        assert_eq!(faults(&home.verify()), [("head_missing", 0, 0)]);
    }
    // A cut that nobody could tell without it: it goes on from what is there, and says so for ever.
    let path = &home.segments()[0];
    let mut lines = lines_of(path);
    lines.truncate(6);
    put_lines(path, &lines);
    assert_eq!(append(&home.open()), 7);
    let report = home.verify();
    assert_eq!((faults(&report), report.verified), (vec![("broken", 6, 6)], 7));
}

#[test]
fn a_segment_that_is_gone_renamed_or_from_elsewhere_is_found() {
    let home = Home::with(60, 2048);
    assert_eq!(home.verify().state, LedgerState::Intact);
    let segments = home.segments();
    assert!(segments.len() >= 5, "{segments:?}");
    let first_of =
        |path: &Path| path.file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    for gone in 0..segments.len() {
        let bytes = fs::read(&segments[gone]).unwrap();
        fs::remove_file(&segments[gone]).unwrap();
        let from = first_of(&segments[gone]);
        let (kind, to) = match segments.get(gone + 1) {
            Some(next) => ("removed", first_of(next) - 1),
            None => ("cut", 60),
        };
        assert_eq!(faults(&home.verify()), [(kind, from, to)]);
        fs::write(&segments[gone], bytes).unwrap();
    }
    fs::rename(&segments[1], home.path("aside")).unwrap();
    fs::rename(&segments[2], &segments[1]).unwrap();
    fs::rename(home.path("aside"), &segments[2]).unwrap();
    assert_ne!(home.verify().state, LedgerState::Intact);
}

#[test]
fn all_of_it_removed_is_told_as_long_as_the_key_is_there() {
    let home = intact();
    fs::remove_dir_all(&home.settings.directory).unwrap();
    assert_eq!(faults(&home.verify()), [("cut", 1, 9)]);
    fs::remove_file(&home.settings.head_file).unwrap();
    assert_eq!(faults(&home.verify()), [("head_missing", 0, 0)]);
    assert_eq!(append(&home.open()), 2);
    assert_eq!(faults(&home.verify()), [("broken", 1, 1)]);
    // A process that has it open knows what there was.
    let home = Home::new();
    let ledger = home.open();
    append(&ledger);
    fs::remove_dir_all(&home.settings.directory).unwrap();
    fs::remove_file(&home.settings.head_file).unwrap();
    assert_eq!(append(&ledger), 3);
    assert_eq!(faults(&home.verify()), [("removed", 1, 1), ("broken", 2, 2)]);
}

#[test]
fn a_ledger_that_was_cut_goes_on_and_says_so() {
    let home = intact();
    let open = home.open();
    assert_eq!(append(&open), 10);
    let path = &home.segments()[0];
    let mut lines = lines_of(path);
    lines.truncate(6);
    put_lines(path, &lines);
    // Both the process that has it open and the next one.
    assert_eq!(append(&open), 12);
    assert_eq!(append(&home.open()), 13);
    let report = home.verify();
    assert_eq!(faults(&report), [("removed", 6, 10), ("broken", 11, 11)]);
    let known = LedgerCheck { after: 11, ..LedgerCheck::default() };
    let later = home.open().verify(&known).unwrap();
    assert_eq!(later.state, LedgerState::Intact, "{later:?}");
}

#[test]
fn an_entry_that_is_known_from_elsewhere_shows_a_ledger_that_was_put_back() {
    let home = Home::with(5, 1 << 20);
    let (segment, head) =
        (fs::read(&home.segments()[0]).unwrap(), fs::read(&home.settings.head_file).unwrap());
    append(&home.open());
    let report = home.verify();
    let known = KnownEntry { n: report.last, mac: report.mac.unwrap() };
    let check = LedgerCheck { known: Some(known), after: 0 };
    assert_eq!(home.open().verify(&check).unwrap().state, LedgerState::Intact);
    fs::write(&home.segments()[0], segment).unwrap();
    fs::write(&home.settings.head_file, head).unwrap();
    // All of it is as it once was.
    assert_eq!(home.verify().state, LedgerState::Intact);
    assert_eq!(faults(&home.open().verify(&check).unwrap()), [("unexpected", 6, 6)]);
    // Another sixth entry is another one, though it may be of the same millisecond.
    let other = LedgerEntry::own(EntryKind::Call, "exec_run").with("exit_code", 1);
    home.open().append(&other, AppendWait::Bounded).unwrap();
    assert_eq!(faults(&home.open().verify(&check).unwrap()), [("unexpected", 6, 6)]);
}

#[test]
fn what_is_read_is_byte_for_byte_what_was_written() {
    let home = intact();
    let records = home.open().query(&LedgerFilter::default(), 100).unwrap();
    let shown: Vec<String> = records.iter().map(|it| serde_json::to_string(it).unwrap()).collect();
    assert_eq!(shown, lines_of(&home.segments()[0])[1..]);
}

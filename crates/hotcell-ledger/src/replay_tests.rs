//! Older parts of a ledger, or parts of another one, do not pass for what was written last.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hotcell_model::{
    AppendWait, EntryKind, KnownEntry, Ledger, LedgerCheck, LedgerEntry, LedgerFilter,
    LedgerReport, LedgerState,
};

use crate::head::SLOT_BYTES;
use crate::testing::{Home, append, faults};

const SECOND_SLOT: usize = 4096;

/// All files of a ledger but the key.
fn files(home: &Home) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found: Vec<PathBuf> = fs::read_dir(&home.settings.directory)
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    found.push(home.settings.head_file.clone());
    found.into_iter().filter_map(|path| Some((path.clone(), fs::read(path).ok()?))).collect()
}

/// Puts them back as they were, and nothing else.
fn put_back(home: &Home, kept: &BTreeMap<PathBuf, Vec<u8>>) {
    for path in files(home).into_keys() {
        fs::remove_file(path).unwrap();
    }
    for (path, bytes) in kept {
        fs::write(path, bytes).unwrap();
    }
}

fn cut_last_line(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let end = text.trim_end().rfind('\n').unwrap() + 1;
    fs::write(path, &text[..end]).unwrap();
}

/// What the ledger says of itself that was found to be wrong.
fn broken(home: &Home) -> Vec<String> {
    let filter = LedgerFilter { kind: Some(EntryKind::Broken), ..LedgerFilter::default() };
    home.open().query(&filter, 9).unwrap().into_iter().map(|it| it.what).collect()
}

/// A head whose slots were changed, together with a ledger without its newest entry.
fn with_slots(change: impl Fn(&mut Vec<u8>, usize, usize)) -> Vec<(LedgerReport, LedgerReport)> {
    // The newest head is in the first slot of one of them and in the second of the other.
    [5, 6]
        .map(|entries| {
            let home = Home::with(entries, 1 << 20);
            let mut head = fs::read(&home.settings.head_file).unwrap();
            let generation =
                |at: usize| u64::from_be_bytes(head[at + 16..at + 24].try_into().unwrap());
            let (newest, other) = match generation(0) > generation(SECOND_SLOT) {
                true => (0, SECOND_SLOT),
                false => (SECOND_SLOT, 0),
            };
            change(&mut head, newest, other);
            fs::write(&home.settings.head_file, &head).unwrap();
            let whole = home.verify();
            cut_last_line(&home.segments()[0]);
            (whole, home.verify())
        })
        .into()
}

#[test]
fn no_play_with_the_slots_of_a_head_hides_a_cut() {
    let copy = |head: &mut Vec<u8>, from: usize, to: usize| {
        head.copy_within(from..from + SLOT_BYTES, to);
    };
    // Control: as they are.
    for (whole, cut) in with_slots(|_, _, _| {}) {
        assert_eq!((whole.state, cut.state), (LedgerState::Intact, LedgerState::Damaged));
    }
    for (_, cut) in with_slots(|head, newest, other| copy(head, other, newest)) {
        assert_eq!(cut.state, LedgerState::Damaged, "the older in both places: {cut:?}");
    }
    for (_, cut) in with_slots(|head, newest, _| head[newest..newest + SLOT_BYTES].fill(0)) {
        assert_eq!(cut.state, LedgerState::Damaged, "the newest erased: {cut:?}");
    }
    for (_, cut) in with_slots(|head, newest, _| head[newest + 30] ^= 1) {
        assert_eq!(cut.state, LedgerState::Damaged, "the newest changed: {cut:?}");
    }
    for (whole, cut) in with_slots(|head, newest, other| {
        let kept = head[newest..newest + SLOT_BYTES].to_vec();
        copy(head, other, newest);
        head[other..other + SLOT_BYTES].copy_from_slice(&kept);
    }) {
        assert_eq!(whole.state, LedgerState::Damaged, "swapped: {whole:?}");
        assert_eq!(cut.state, LedgerState::Damaged, "swapped: {cut:?}");
    }
}

#[test]
fn an_older_head_is_found_though_another_segment_was_begun_since() {
    for entries in [3, 5, 6, 7] {
        let home = Home::with(entries, 2048);
        let older = fs::read(&home.settings.head_file).unwrap();
        let before = home.segments().len();
        let (ledger, mut last) = (home.open(), entries);
        while home.segments().len() < before + 3 {
            last = append(&ledger);
        }
        assert_eq!(home.verify().state, LedgerState::Intact);
        fs::write(&home.settings.head_file, older).unwrap();
        let kept = files(&home);
        assert_eq!(faults(&home.verify()), [("head_older", entries + 1, last)], "{entries}");
        // Whoever writes next goes on after the newest, and touches nothing of it.
        assert_eq!(append(&home.open()), last + 2);
        let report = home.verify();
        assert_eq!(faults(&report), [("broken", last + 1, last + 1)], "{entries}");
        assert_eq!(report.verified, last + 2);
        let segments = kept.iter().filter(|(path, _)| **path != home.settings.head_file);
        for (path, bytes) in segments {
            assert_eq!(fs::read(path).unwrap(), *bytes, "{}", path.display());
        }
    }
}

#[test]
fn a_process_that_has_it_open_sees_that_all_of_it_was_put_back() {
    let home = Home::with(4, 1 << 20);
    let ledger = home.open();
    let kept = files(&home);
    assert_eq!((append(&ledger), append(&ledger)), (5, 6));
    put_back(&home, &kept);
    // Nobody else can tell.
    assert_eq!(home.verify().state, LedgerState::Intact);
    assert_eq!(append(&ledger), 8);
    assert_eq!(broken(&home), ["rolled_back"]);
    assert_eq!(faults(&home.verify()), [("removed", 5, 6), ("broken", 7, 7)]);
}

#[test]
fn a_process_that_has_it_open_sees_that_others_went_on_from_an_older_state() {
    let home = Home::with(4, 1 << 20);
    let ledger = home.open();
    let kept = files(&home);
    assert_eq!((append(&ledger), append(&ledger)), (5, 6));
    put_back(&home, &kept);
    let other = home.open();
    let entry = LedgerEntry::own(EntryKind::Call, "exec_get");
    (0..5).for_each(|_| _ = other.append(&entry, AppendWait::Bounded).unwrap());
    // Another fifth and sixth entry than it wrote.
    assert_eq!(append(&ledger), 11);
    assert_eq!(broken(&home), ["rolled_back"]);
    assert_eq!(faults(&home.verify()), [("broken", 10, 10)]);
    // Control: others who went on from the newest are no reason to say anything.
    let home = Home::with(4, 1 << 20);
    let (ledger, other) = (home.open(), home.open());
    for n in [5, 7, 9] {
        assert_eq!((append(&ledger), append(&other)), (n, n + 1));
    }
    assert_eq!(faults(&home.verify()), []);
}

/// Another ledger with the same key.
fn with_key_of(home: &Home, entries: u64) -> Home {
    let other = Home::new();
    fs::copy(&home.settings.key_file, &other.settings.key_file).unwrap();
    let ledger = other.open();
    // It has a key and no entries, which is told.
    (2..=entries).for_each(|n| assert_eq!(append(&ledger), n));
    other
}

#[test]
fn entries_of_another_ledger_with_the_same_key_are_not_of_this_one() {
    let home = Home::with(6, 1 << 20);
    let known = home.verify();
    let other = with_key_of(&home, 6);
    assert_ne!(known.ledger, other.verify().ledger);
    // Its entries with our head.
    let kept = files(&home);
    fs::copy(&other.segments()[0], &home.segments()[0]).unwrap();
    let report = home.verify();
    assert!(faults(&report).contains(&("foreign", 1, 1)), "{report:?}");
    // An entry of it in the place of ours.
    put_back(&home, &kept);
    let theirs = fs::read_to_string(&other.segments()[0]).unwrap();
    let ours = fs::read_to_string(&home.segments()[0]).unwrap();
    let mixed: Vec<&str> = ours.lines().take(6).chain(theirs.lines().skip(6)).collect();
    fs::write(&home.segments()[0], mixed.join("\n") + "\n").unwrap();
    assert_eq!(home.verify().state, LedgerState::Damaged);
    // All of it, with its head: a process that has ours open says so, and so does what is known.
    put_back(&home, &kept);
    let ledger = home.open();
    append(&ledger);
    put_back(&home, &BTreeMap::new());
    fs::copy(&other.segments()[0], home.settings.directory.join("0000000000000001.jsonl")).unwrap();
    fs::copy(&other.settings.head_file, &home.settings.head_file).unwrap();
    assert_eq!(faults(&home.verify()), [("broken", 1, 1)]);
    let check = LedgerCheck {
        known: Some(KnownEntry { n: known.last, mac: known.mac.unwrap() }),
        ..LedgerCheck::default()
    };
    assert!(faults(&home.open().verify(&check).unwrap()).contains(&("unexpected", 6, 6)));
    append(&ledger);
    assert_eq!(broken(&home), ["begun_anew", "replaced"]);
}

#[test]
fn whoever_verifies_changes_nothing() {
    let begin = |home: &Home, n: u64| {
        let text = fs::read_to_string(&home.segments()[0]).unwrap();
        let line = text.lines().last().unwrap().replace("\"n\":5", &format!("\"n\":{n}"));
        line.as_bytes()[..100].to_vec()
    };
    let add = |home: &Home, bytes: &[u8]| {
        let path = &home.segments()[0];
        let mut whole = fs::read(path).unwrap();
        whole.extend_from_slice(bytes);
        fs::write(path, whole).unwrap();
    };
    let torn = Home::with(5, 1 << 20);
    add(&torn, &begin(&torn, 6));
    let foreign = Home::with(5, 1 << 20);
    add(&foreign, b"no entry\n");
    let cut = Home::with(5, 1 << 20);
    cut_last_line(&cut.segments()[0]);
    let headless = Home::with(5, 1 << 20);
    fs::remove_file(&headless.settings.head_file).unwrap();
    let empty = Home::new();
    for (home, state, found) in [
        (torn, LedgerState::Intact, vec![]),
        (foreign, LedgerState::Damaged, vec![("foreign", 6, 6)]),
        (cut, LedgerState::Damaged, vec![("cut", 5, 5)]),
        (headless, LedgerState::Damaged, vec![("head_missing", 0, 0)]),
        (empty, LedgerState::Intact, vec![]),
    ] {
        let before = files(&home);
        let report = home.verify();
        assert_eq!((report.state, faults(&report)), (state, found), "{report:?}");
        assert_eq!(files(&home), before);
        assert_eq!(home.settings.directory.exists(), !before.is_empty());
    }
}

#[test]
fn what_others_write_at_the_end_is_told_from_a_part_of_an_entry() {
    let entries = 4;
    for (bytes, torn) in [
        (&b"{\"n\":5,\"time\":\"2026"[..], true),
        (b"{\"n\":5,", true),
        (b"{", true),
        (b"x", false),
        (b"{\"n\":6,\"time\":\"2026", false),
        (b"{\"n\":5,\"kind\":", false),
        (b"\0\0\0\0", false),
    ] {
        let home = Home::with(entries, 1 << 20);
        let path = home.segments()[0].clone();
        let mut whole = fs::read(&path).unwrap();
        whole.extend_from_slice(bytes);
        fs::write(&path, &whole).unwrap();
        let report = home.verify();
        let shown = String::from_utf8_lossy(bytes);
        let expected = if torn { vec![] } else { vec![("foreign", 5, 5)] };
        assert_eq!(faults(&report), expected, "{shown}");
        assert_eq!(report.notes.len(), usize::from(torn), "{shown}");
        assert_eq!(append(&home.open()), 6, "{shown}");
        let expected = if torn { vec![] } else { vec![("broken", 5, 5)] };
        assert_eq!(faults(&home.verify()), expected, "{shown}");
        // What is no part of an entry is evidence, for its owner alone.
        let aside: Vec<PathBuf> = files(&home)
            .into_keys()
            .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("aside-"))
            .collect();
        assert_eq!(aside.len(), usize::from(!torn), "{shown}");
        for path in aside {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::read(&path).unwrap(), bytes);
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}

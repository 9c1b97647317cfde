//! Tests of the journal: torn, damaged, newer, on a full disk.

use std::fs;

use hotcell_model::{Command, EndCause, ExecEnd, ExecId, Timestamp, Usage};
use proptest::prelude::*;

use crate::disk::full;
use crate::testing::Records;
use crate::{Entry, JournalError, JournalWriter, read_journal};

fn queued(number: u64, text: &str) -> Entry {
    Entry::Queued {
        exec: ExecId::from_random(number),
        command: Command::Shell(text.to_owned()),
        pty: true,
        as_root: false,
        keep_s: None,
        at: Timestamp(1_700_000_000_000 + number),
    }
}

fn ended(number: u64) -> Entry {
    let end = ExecEnd {
        cause: EndCause::Exited,
        exit_code: Some(0),
        signal: None,
        limit: None,
        limits_hit: Vec::new(),
        killed_descendants: 0,
        ended_at: Timestamp(1_700_000_000_000),
        usage: Usage::default(),
        session: None,
    };
    Entry::Ended { exec: ExecId::from_random(number), end }
}

fn entries(count: u64) -> Vec<Entry> {
    (0..count).map(|number| queued(number, "echo 'a\nb' \u{1f600}")).collect()
}

#[test]
fn what_is_appended_is_read_from_any_point_on() {
    let records = Records::new();
    assert_eq!(read_journal(records.path(), 0).unwrap().entries, []);
    let (mut writer, left) = JournalWriter::open(records.fd()).unwrap();
    assert_eq!(left, []);
    let start = read_journal(records.path(), 0).unwrap().end;
    assert!(start > 0, "there is a header");
    let mut at = start;
    for entry in entries(5) {
        writer.append(&entry);
        let tail = read_journal(records.path(), at).unwrap();
        assert_eq!((tail.entries, tail.skipped), (vec![entry], 0));
        at = tail.end;
    }
    assert_eq!(read_journal(records.path(), 0).unwrap().entries, entries(5));
    assert_eq!(read_journal(records.path(), at + 1000).unwrap().entries, entries(5));
    assert_eq!(fs::metadata(records.path().join("journal")).unwrap().len(), at);
}

#[test]
fn a_new_writer_learns_which_execs_have_no_end() {
    let records = Records::new();
    let (mut writer, _) = JournalWriter::open(records.fd()).unwrap();
    for entry in [queued(3, "a"), queued(1, "b"), ended(3), queued(2, "c")] {
        writer.append(&entry);
    }
    let (_, left) = JournalWriter::open(records.fd()).unwrap();
    assert_eq!(left, [ExecId::from_random(1), ExecId::from_random(2)]);
}

#[test]
fn wherever_it_is_torn_the_whole_lines_stay_and_writing_goes_on() {
    let records = Records::new();
    let (mut writer, _) = JournalWriter::open(records.fd()).unwrap();
    entries(2).iter().for_each(|entry| writer.append(entry));
    let path = records.path().join("journal");
    let whole = fs::read(&path).unwrap();
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let lines = memchr::memchr_iter(b'\n', &whole[..cut]).count();
        let read = read_journal(records.path(), 0).unwrap();
        assert_eq!((read.entries.len(), read.skipped), (lines.saturating_sub(1), 0));
        let (mut writer, left) = JournalWriter::open(records.fd()).unwrap();
        assert_eq!(left.len(), read.entries.len());
        writer.append(&queued(9, "x"));
        let read = read_journal(records.path(), 0).unwrap();
        assert_eq!((read.entries.len(), read.skipped), (left.len() + 1, 0));
    }
}

#[test]
fn a_damaged_line_is_skipped_and_counted() {
    let records = Records::new();
    let (mut writer, _) = JournalWriter::open(records.fd()).unwrap();
    entries(3).iter().for_each(|entry| writer.append(entry));
    let path = records.path().join("journal");
    let whole = fs::read(&path).unwrap();
    let header = memchr::memchr(b'\n', &whole).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&path, &damaged).unwrap();
        let read = read_journal(records.path(), 0).unwrap();
        // A newline that is gone joins two lines, or leaves the last one torn; one that came to be
        // makes two out of one.
        assert!((1..=2).contains(&read.skipped) || at + 1 == whole.len());
        assert!(read.entries.len() >= if at < header { 3 } else { 1 });
        assert!(read.entries.iter().all(|entry| entries(3).contains(entry)));
    }
}

#[test]
fn a_newer_version_is_refused_and_a_newer_kind_of_entry_is_not() {
    let records = Records::new();
    let path = records.path().join("journal");
    let line = |json: &str| format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
    fs::write(&path, line(r#"{"hotcell_journal":2}"#)).unwrap();
    let newer = |error| matches!(error, JournalError::NewerVersion { found: 2, known: 1 });
    assert!(newer(read_journal(records.path(), 0).unwrap_err()));
    assert!(newer(JournalWriter::open(records.fd()).unwrap_err()));

    let text = line(r#"{"hotcell_journal":1}"#) + &line(r#"{"painted":{"colour":"red"}}"#);
    fs::write(&path, text).unwrap();
    let (mut writer, _) = JournalWriter::open(records.fd()).unwrap();
    writer.append(&queued(1, "x"));
    let read = read_journal(records.path(), 0).unwrap();
    assert_eq!((read.entries, read.skipped), (vec![queued(1, "x")], 1));
}

#[test]
fn the_format_stays_what_it_is() {
    let mut line = Vec::new();
    crate::entry::encode_entry(&ended(1), &mut line);
    assert_eq!(
        String::from_utf8(line).unwrap(),
        "62dff2ad {\"ended\":{\"exec\":\"e_1000000000\",\"end\":{\"cause\":\"exited\",\"exit_code\":0,\
         \"killed_descendants\":0,\"ended_at\":\"2023-11-14T22:13:20.000Z\",\"usage\":{\"wall_ms\":0,\
         \"cpu_ms\":0,\"max_rss_kb\":0,\"stdout_bytes\":0,\"stderr_bytes\":0}}}}\n"
    );
}

proptest! {
    #[test]
    fn a_full_disk_loses_no_entry(budgets in prop::collection::vec(prop::option::of(0..400_usize), 1..40)) {
        full::leave(Some(0));
        let records = Records::new();
        let (mut writer, _) = JournalWriter::open(records.fd()).unwrap();
        let mut from = 0;
        let mut seen = Vec::new();
        for (number, budget) in (0..).zip(&budgets) {
            full::leave(*budget);
            writer.append(&queued(number, "some command"));
            let tail = read_journal(records.path(), from).unwrap();
            prop_assert_eq!(tail.skipped, 0);
            seen.extend(tail.entries);
            from = tail.end;
        }
        full::leave(None);
        prop_assert!(writer.flush_pending());
        seen.extend(read_journal(records.path(), from).unwrap().entries);
        let all: Vec<_> = (0..budgets.len() as u64).map(|n| queued(n, "some command")).collect();
        prop_assert_eq!(&seen, &all);
        prop_assert_eq!(read_journal(records.path(), 0).unwrap().entries, all);
    }
}

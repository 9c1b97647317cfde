//! Tests of reading a records directory that a hostile supervisor has filled.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use hotcell_model::{ExecId, Stream, Timestamp};
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::journal_read::{MAX_JOURNAL_BYTES, MAX_LINE_BYTES};
use crate::log_place::MAX_SEGMENT_BYTES;
use crate::record_file::open_step_by_step;
use crate::segment::{GAP_BYTES, SegmentHeader, gap_record, record_head};
use crate::testing::{Records, exec};
use crate::{
    Align, Ended, Entry, JournalError, JournalWriter, LogReader, RecordError, first_entry,
    forget_output, journal_length, last_entry, list_logs, open_record, read_journal, read_report,
    read_terminal_sizes,
};

/// What a compromised supervisor may put in the place of a file.
#[derive(Debug, Clone, Copy)]
enum Trap {
    Fifo,
    Socket,
    Directory,
    SymbolicLink,
    HardLink,
    HugeSparse,
}

const TRAPS: [Trap; 6] = [
    Trap::Fifo,
    Trap::Socket,
    Trap::Directory,
    Trap::SymbolicLink,
    Trap::HardLink,
    Trap::HugeSparse,
];

/// Puts a trap at a name, with a secret that must not be read behind the links.
fn lay(records: &Records, name: &str, trap: Trap) {
    let path = records.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let secret = records.path().join("secret");
    fs::write(&secret, "root:x:0:0\n").unwrap();
    match trap {
        Trap::Fifo => mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        Trap::Socket => drop(UnixListener::bind(&path).unwrap()),
        Trap::Directory => fs::create_dir(&path).unwrap(),
        Trap::SymbolicLink => symlink(&secret, &path).unwrap(),
        Trap::HardLink => fs::hard_link(&secret, &path).unwrap(),
        Trap::HugeSparse => File::create(&path).unwrap().set_len(1 << 40).unwrap(),
    }
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

#[test]
fn a_journal_that_is_no_regular_file_is_refused_by_every_reader() {
    for trap in TRAPS {
        let records = Records::new();
        lay(&records, "journal", trap);
        let errors = [
            read_journal(records.path(), 0).unwrap_err(),
            journal_length(records.path()).unwrap_err(),
            first_entry(records.path()).unwrap_err(),
            last_entry(records.path()).unwrap_err(),
        ];
        for error in errors {
            assert!(error.is_permanent(), "{trap:?}: {error}");
            let JournalError::Open(source) = error else { panic!("{trap:?}: {error}") };
            assert!(is_refused(&source), "{trap:?}: {source}");
            assert!(source.to_string().contains("journal"), "{trap:?}: {source}");
        }
    }
}

#[test]
fn a_log_that_is_no_regular_file_is_refused_by_every_reader() {
    for trap in TRAPS {
        let records = Records::new();
        lay(&records, &format!("log/{}.{:020}", exec(), 1), trap);
        let read = records.reader().read_after(0, 1000, Align::Raw, Ended::Yes);
        assert!(is_refused(&read.unwrap_err()), "{trap:?}");
        assert!(is_refused(&records.reader().tail_lines(1, None, 10).unwrap_err()), "{trap:?}");
    }
}

#[test]
fn other_records_that_are_no_regular_files_are_refused() {
    for trap in TRAPS {
        let records = Records::new();
        lay(&records, &format!("log/{}.report", exec()), trap);
        lay(&records, &format!("log/{}.sizes", exec()), trap);
        assert!(is_refused(&read_report(records.path(), &exec()).unwrap_err()), "{trap:?}");
        let sizes = read_terminal_sizes(records.path(), &exec());
        assert!(is_refused(&sizes.unwrap_err()), "{trap:?}");
    }
}

#[test]
fn the_same_is_refused_without_openat2() {
    let records = Records::new();
    lay(&records, "log/link", Trap::SymbolicLink);
    symlink("log", records.path().join("elsewhere")).unwrap();
    fs::write(records.path().join("log/file"), "x").unwrap();
    assert!(open_step_by_step(records.fd(), "log/file").is_ok());
    assert!(open_step_by_step(records.fd(), "log/link").is_err());
    assert!(open_step_by_step(records.fd(), "elsewhere/file").is_err());
}

#[test]
fn a_directory_of_logs_that_leads_elsewhere_is_not_followed() {
    let victim = Records::new();
    victim.log(1 << 20).append(Stream::Stdout, Timestamp::default(), b"private");
    fs::write(victim.path().join(format!("log/{}.report", exec())), "{}").unwrap();
    let records = Records::new();
    symlink(victim.path().join("log"), records.path().join("log")).unwrap();

    let read = records.reader().read_after(0, 1000, Align::Raw, Ended::Yes);
    assert!(is_refused(&read.unwrap_err()));
    assert!(is_refused(&read_report(records.path(), &exec()).unwrap_err()));
    assert!(is_refused(&list_logs(records.path()).unwrap_err()));
    assert!(is_refused(&forget_output(records.path(), &exec()).unwrap_err()));
    // The control: the victim's log is still there and read by its own directory.
    let own = victim.reader().read_after(0, 1000, Align::Raw, Ended::Yes).unwrap();
    assert_eq!(own.records[0].bytes, b"private");
}

#[test]
fn a_name_that_leads_out_of_the_records_is_refused() {
    let records = Records::new();
    fs::create_dir(records.path().join("log")).unwrap();
    let outside = open_record(records.fd(), "log/../../passwd", 1000);
    assert!(matches!(outside, Err(RecordError::Outside { .. })));
}

#[test]
fn a_log_that_is_none_is_removed_all_the_same() {
    let records = Records::new();
    lay(&records, &format!("log/{}.{:020}", exec(), 1), Trap::Fifo);
    forget_output(records.path(), &exec()).unwrap();
    assert!(records.segments().is_empty());
}

#[test]
fn an_endless_line_is_refused_and_not_kept_in_memory() {
    let records = Records::new();
    let journal = File::create(records.path().join("journal")).unwrap();
    journal.set_len(MAX_JOURNAL_BYTES).unwrap();
    let error = read_journal(records.path(), 0).unwrap_err();
    assert!(
        matches!(error, JournalError::LongLine { at: 0, max_bytes: MAX_LINE_BYTES }),
        "{error}"
    );
    assert!(error.is_permanent());
    assert!(last_entry(records.path()).unwrap_err().is_permanent());
}

#[test]
fn a_long_journal_is_read_in_pieces() {
    let records = Records::new();
    let (mut writer, _) = JournalWriter::open(records.fd()).unwrap();
    let entry = |number: u64| Entry::Queued {
        exec: ExecId::from_random(number),
        command: hotcell_model::Command::Shell("x".repeat(1 << 20)),
        pty: false,
        as_root: false,
        keep_s: None,
        at: Timestamp(number),
    };
    let all: Vec<Entry> = (0..9).map(entry).collect();
    all.iter().for_each(|entry| writer.append(entry));
    let (mut from, mut read, mut pieces) = (0, Vec::new(), 0);
    loop {
        let tail = read_journal(records.path(), from).unwrap();
        assert!(tail.end - from <= 6 << 20);
        (from, pieces) = (tail.end, pieces + 1);
        read.extend(tail.entries);
        if tail.at_end {
            break;
        }
    }
    assert!(pieces > 2);
    assert_eq!(read, all);
    assert_eq!(first_entry(records.path()).unwrap().as_ref(), all.first());
    assert_eq!(last_entry(records.path()).unwrap().as_ref(), all.last());
}

#[test]
fn a_log_with_too_many_segments_is_refused() {
    let records = Records::new();
    fs::create_dir(records.path().join("log")).unwrap();
    for name in 1..100 {
        fs::write(records.path().join(format!("log/{}.{name:020}", exec())), "").unwrap();
    }
    let read = records.reader().read_after(0, 1000, Align::Raw, Ended::Yes);
    assert!(is_refused(&read.unwrap_err()));
}

#[test]
fn a_segment_that_grows_after_it_was_opened_is_read_up_to_its_bound() {
    let records = Records::new();
    records.log(1 << 20).append(Stream::Stdout, Timestamp::default(), b"x");
    let mut reader = records.reader();
    assert_eq!(reader.read_after(0, 1, Align::Raw, Ended::NotYet).unwrap().records.len(), 1);
    let segment = File::options().write(true).open(&records.segments()[0]).unwrap();
    segment.set_len(MAX_SEGMENT_BYTES * 1000).unwrap();
    // The reader may keep the file open: it ends, with a gap.
    match reader.read_after(1, 1000, Align::Raw, Ended::Yes) {
        Ok(batch) => assert!(batch.records.is_empty()),
        Err(error) => assert!(is_refused(&error)),
    }
}

/// A number that a supervisor would not write.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), 0_u64..40, Just(u64::MAX), Just(u64::MAX - 1), any::<u64>()]
}

#[derive(Debug, Clone)]
enum Piece {
    Record(u64, u8),
    Gap(u64, u64, u64),
    Garbage(Vec<u8>),
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        (number(), any::<u8>()).prop_map(|(seq, byte)| Piece::Record(seq, byte)),
        (number(), number(), number()).prop_map(|(from, to, lost)| Piece::Gap(from, to, lost)),
        prop::collection::vec(any::<u8>(), 0..60).prop_map(Piece::Garbage),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Checksums are no obstacle to a supervisor: what they cover is not trusted either.
    #[test]
    fn reading_forged_segments_ends_without_a_panic(
        segments in prop::collection::vec(
            (number(), [number(), number(), number()], prop::collection::vec(piece(), 0..12)),
            1..5,
        ),
        note in (number(), number()),
        after in 0_u64..50,
    ) {
        let records = Records::new();
        fs::create_dir(records.path().join("log")).unwrap();
        for (place, (name, before, pieces)) in segments.iter().enumerate() {
            let mut bytes = SegmentHeader {
                first_seq: *name,
                payload_bound: before[2],
                file_bound: before[1],
                before: *before,
                line_starts: *before,
                held: Default::default(),
            }.encode().to_vec();
            for piece in pieces {
                match piece {
                    Piece::Record(seq, byte) => {
                        let head = record_head(Stream::Stdout, *seq, Timestamp(1), &[*byte]);
                        bytes.extend_from_slice(&head);
                        bytes.push(*byte);
                    }
                    Piece::Gap(from, to, lost) => {
                        let gap: [u8; GAP_BYTES] = gap_record(*from, *to, *lost);
                        bytes.extend_from_slice(&gap);
                    }
                    Piece::Garbage(garbage) => bytes.extend_from_slice(garbage),
                }
            }
            let name = if place == 0 { 1 } else { *name };
            fs::write(records.path().join(format!("log/{}.{name:020}", exec())), bytes).unwrap();
        }
        let target = format!("1.{}.{}", note.0, note.1);
        symlink(target, records.path().join(format!("log/{}.gap", exec()))).unwrap();
        let pattern = regex::bytes::Regex::new("x").unwrap();
        for ended in [Ended::Yes, Ended::NotYet] {
            let mut reader = LogReader::open(records.fd().as_fd(), &exec()).unwrap();
            let mut from = after;
            for _ in 0..100 {
                let Ok(batch) = reader.read_after(from, 64, Align::Utf8, ended) else { break };
                if batch.at_end {
                    break;
                }
                from = batch.next_seq;
            }
            let _ = reader.tail_lines(3, Some(Stream::Stdout), 100);
            let _ = reader.read_before(after, 100, Align::Raw);
            let _ = reader.grep(&pattern, None, after, 100, ended);
        }
        let _ = forget_output(records.path(), &exec());
    }
}

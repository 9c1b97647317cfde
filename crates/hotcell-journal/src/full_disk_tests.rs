//! Tests on a disk that is full, a real one where one can be mounted.
#![expect(
    clippy::disallowed_methods,
    reason = "a small disk is mounted in a mount namespace of a process of its own"
)]

use std::env;
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

use hotcell_model::{Dropped, ExecId, Stream, Timestamp};

use crate::disk::full;
use crate::testing::{Model, Records, exec, read_all, read_on};
use crate::{Align, Ended, Entry, JournalWriter, LogReader, OutputLog, read_journal};

#[test]
fn a_gap_is_stated_once_the_disk_takes_it() {
    let records = Records::new();
    let mut log = records.log(1 << 20);
    let mut model = Model::default();
    model.append(&mut log, Stream::Stdout, b"before");
    full::leave(Some(0));
    model.append(&mut log, Stream::Stdout, &[b'x'; 40_000]);
    model.append(&mut log, Stream::Stderr, b"y");
    assert_eq!(read_all(&records, Ended::NotYet).next_seq, 1);
    full::leave(None);
    model.append(&mut log, Stream::Stdout, b"after");
    let read = read_all(&records, Ended::NotYet);
    assert_eq!(read.dropped, [Dropped { dropped_bytes: 40_001, from_seq: 2, to_seq: 5 }]);
    assert_eq!(model.check(&read.records, &read.dropped), 0);
}

#[test]
fn a_gap_at_the_end_is_stated_though_the_disk_stays_full() {
    for kept in [0, 1] {
        let records = Records::new();
        let mut log = records.log(1 << 20);
        let mut model = Model::default();
        (0..kept).for_each(|_| model.append(&mut log, Stream::Stdout, b"kept"));
        full::leave(Some(0));
        model.append(&mut log, Stream::Stdout, b"dropped");
        log.finish();
        let read = read_all(&records, Ended::Yes);
        let gap = Dropped { dropped_bytes: 7, from_seq: kept + 1, to_seq: kept + 1 };
        assert_eq!(read.dropped, [gap]);
        assert_eq!(model.check(&read.records, &read.dropped), 0);
        let tail = records.reader().tail_lines(5, None, 100).unwrap();
        assert_eq!((tail.dropped, tail.next_seq), (vec![gap], kept + 1));
        full::leave(None);
    }
}

#[test]
fn records_that_a_refused_write_left_whole_count() {
    let records = Records::new();
    let mut log = records.log(1 << 20);
    let mut model = Model::default();
    // A header, one whole record, and half of the second.
    full::leave(Some(96 + 25 + 16_384 + 8_000));
    model.append(&mut log, Stream::Stdout, &[b'x'; 50_000]);
    let read = read_all(&records, Ended::NotYet);
    assert_eq!((read.records.len(), read.next_seq, read.dropped.len()), (1, 1, 0));
    assert_eq!(fs::metadata(&records.segments()[0]).unwrap().len(), 96 + 25 + 16_384);
    full::leave(None);
    log.finish();
    assert_eq!(model.check(&read.records, &read_all(&records, Ended::Yes).dropped), 0);
}

#[test]
fn a_directory_that_cannot_be_made_is_like_a_full_disk() {
    let records = Records::new();
    fs::write(records.path().join("log"), b"in the way").unwrap();
    let mut log = records.log(1 << 20);
    let mut model = Model::default();
    model.append(&mut log, Stream::Stdout, b"lost");
    fs::remove_file(records.path().join("log")).unwrap();
    model.append(&mut log, Stream::Stdout, b"kept");
    let read = read_all(&records, Ended::NotYet);
    assert_eq!(read.dropped, [Dropped { dropped_bytes: 4, from_seq: 1, to_seq: 1 }]);
    assert_eq!(model.check(&read.records, &read.dropped), 0);
}

/// Runs the test below in a mount namespace of its own, on a disk of 256 KiB.
#[test]
fn a_real_disk_that_fills_up() {
    let directory = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=256k tmpfs "$1" && cd "$1" && echo mounted && exec "$2" \
        --exact full_disk_tests::on_a_small_disk --ignored --nocapture"#;
    let namespaces = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
    let output = Command::new("unshare")
        .args([namespaces, "sh", "-c", script, "sh"])
        .arg(directory.path())
        .arg(env::current_exe().unwrap())
        .output();
    let output = match output {
        Ok(output) if output.stdout.starts_with(b"mounted") => output,
        outcome => {
            let required = env::var("HOTCELL_REQUIRE").unwrap_or_default();
            assert!(!required.contains("native"), "no small disk can be mounted: {outcome:?}");
            eprintln!("SKIPPED: no small disk can be mounted here: {outcome:?}");
            return;
        }
    };
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
}

#[test]
#[ignore = "fills the disk that the working directory is on; started by the test above"]
fn on_a_small_disk() {
    let here = fs::File::open(".").unwrap();
    let size = rustix::fs::fstatvfs(&here).unwrap();
    assert!(size.f_blocks * size.f_frsize <= 1 << 20, "this is no small disk");
    let (mut journal, _) = JournalWriter::open(here.as_fd()).unwrap();
    let mut log = OutputLog::new(here.as_fd(), &exec(), 64 << 20).unwrap();
    let mut model = Model::default();
    for number in 0..100_u8 {
        model.append(&mut log, Stream::Stdout, &vec![number; 10_000]);
    }
    let reader = || LogReader::at(Path::new("."), &exec()).unwrap();
    let full = read_on(&mut reader(), 0, 50_000, Align::Raw, Ended::NotYet);
    assert!(full.next_seq < 100, "the disk did not fill up");

    // The journal has its reserve.
    let entry = |number| Entry::Started {
        exec: ExecId::from_random(number),
        pid: None,
        at: Timestamp(number),
    };
    (0..100).for_each(|number| journal.append(&entry(number)));
    assert!(journal.flush_pending());
    assert_eq!(read_journal(Path::new("."), 0).unwrap().entries.len(), 100);
    // It has an end, and even then nothing is lost.
    (100..2000).for_each(|number| journal.append(&entry(number)));
    assert!(!journal.flush_pending());

    log.finish();
    let read = read_on(&mut reader(), 0, 50_000, Align::Raw, Ended::Yes);
    assert_eq!(read.dropped.len(), 1);
    assert_eq!(model.check(&read.records, &read.dropped), 0);

    // Space comes back: the log goes on and so does the journal.
    crate::forget_output(Path::new("."), &exec()).unwrap();
    assert!(journal.flush_pending());
    let entries = read_journal(Path::new("."), 0).unwrap().entries;
    assert_eq!(entries, (0..2000).map(entry).collect::<Vec<_>>());
}

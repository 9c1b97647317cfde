//! Nothing is read twice and nothing is passed over, whenever files are put aside.

use std::fs;
use std::path::Path;

use hotcell_model::{NetCursor, NetTail, NetVerdict};
use rustix::fs::{Mode, OFlags};

use crate::records::{RecordLog, blank};
use crate::records_after::{has_records, read_after};

fn log(directory: &Path, bytes: u64) -> RecordLog {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    RecordLog::with_bound(rustix::fs::open(directory, flags, Mode::empty()).unwrap(), bytes)
}

fn write(log: &mut RecordLog, number: u64) {
    let mut record = blank(NetVerdict::Opened);
    (record.name, record.connection) = ("example.org".to_owned(), Some(number));
    log.write(&record).unwrap();
}

fn numbers(tail: &NetTail) -> Vec<u64> {
    tail.records.iter().filter_map(|record| record.connection).collect()
}

#[test]
fn every_record_is_read_once_while_files_are_put_aside() {
    let home = tempfile::tempdir().unwrap();
    assert!(!has_records(home.path()));
    let mut log = log(home.path(), 1000);
    let (mut cursor, mut seen) = (NetCursor::default(), Vec::new());
    for number in 0..200 {
        write(&mut log, number);
        // Now and then, but before a file is thrown away that was not read.
        if number % 4 == 0 {
            let tail = read_after(home.path(), &cursor).unwrap();
            assert!(!tail.missed);
            seen.extend(numbers(&tail));
            cursor = tail.cursor;
        }
    }
    let tail = read_after(home.path(), &cursor).unwrap();
    seen.extend(numbers(&tail));
    assert_eq!(seen, (0..200).collect::<Vec<_>>());
    let again = read_after(home.path(), &tail.cursor).unwrap();
    assert!(again.records.is_empty() && again.cursor == tail.cursor && !again.missed);
    assert!(has_records(home.path()));
}

#[test]
fn what_was_thrown_away_unread_is_told() {
    let home = tempfile::tempdir().unwrap();
    let mut log = log(home.path(), 1000);
    write(&mut log, 0);
    let tail = read_after(home.path(), &NetCursor::default()).unwrap();
    assert_eq!((numbers(&tail), tail.missed), (vec![0], false));
    (1..100).for_each(|number| write(&mut log, number));
    let tail = read_after(home.path(), &tail.cursor).unwrap();
    assert!(tail.missed);
    let read = numbers(&tail);
    assert_eq!(read, (100 - read.len() as u64..100).collect::<Vec<_>>());
}

#[test]
fn half_a_line_is_left_for_the_next_time() {
    let home = tempfile::tempdir().unwrap();
    let mut log = log(home.path(), 10_000);
    write(&mut log, 1);
    write(&mut log, 2);
    let file = home.path().join("network.jsonl");
    let whole = fs::read(&file).unwrap();
    let cut = fs::File::options().write(true).open(&file).unwrap();
    cut.set_len(whole.len() as u64 - 10).unwrap();
    let tail = read_after(home.path(), &NetCursor::default()).unwrap();
    assert_eq!(numbers(&tail), [1]);
    std::os::unix::fs::FileExt::write_all_at(&cut, &whole, 0).unwrap();
    let tail = read_after(home.path(), &tail.cursor).unwrap();
    assert_eq!((numbers(&tail), tail.missed), (vec![2], false));
    // Another file in its place is read from its beginning.
    fs::write(&file, [&whole[..10], b"\n", &whole[..]].concat()).unwrap();
    let tail = read_after(home.path(), &tail.cursor).unwrap();
    assert_eq!((numbers(&tail), tail.missed), (vec![1, 2], true));
}

//! Records on disk.

use hotcell_model::NetVerdict;

use crate::records::{RecordLog, blank, read_records};

fn open(directory: &tempfile::TempDir) -> std::os::fd::OwnedFd {
    std::fs::File::open(directory.path()).unwrap().into()
}

fn record(number: usize) -> hotcell_model::NetRecord {
    hotcell_model::NetRecord { name: format!("n{number}.test"), ..blank(NetVerdict::Closed) }
}

#[test]
fn the_newest_are_kept_and_the_oldest_thrown_away() {
    let directory = tempfile::tempdir().unwrap();
    let log = RecordLog::with_bound(open(&directory), 2000);
    for number in 0..1000 {
        log.write(&record(number)).unwrap();
    }
    let found = read_records(directory.path(), 10_000).unwrap();
    assert!(found.len() < 100 && found.len() > 20, "{}", found.len());
    assert_eq!(found.last().unwrap().name, "n999.test");
    let newest = read_records(directory.path(), 2).unwrap();
    assert_eq!(
        newest.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(),
        ["n998.test", "n999.test"]
    );
    assert!(read_records(directory.path(), 0).unwrap().is_empty());
    let bytes: u64 = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes <= 4000, "{bytes}");
}

#[test]
fn lookups_without_end_are_counted_and_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = RecordLog::new(open(&directory));
    for number in 0..500 {
        log.write_lookup(&format!("{number}.{}", "x".repeat(1000))).unwrap();
    }
    let found = read_records(directory.path(), 10_000).unwrap();
    assert_eq!(found.len(), 50);
    assert!(found.iter().all(|it| it.name.len() <= 255 && it.verdict == NetVerdict::Denied));
}

#[test]
fn a_line_that_is_not_whole_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let log = RecordLog::new(open(&directory));
    log.write(&record(1)).unwrap();
    let path = directory.path().join("network.jsonl");
    let mut text = std::fs::read(&path).unwrap();
    text.extend_from_slice(b"{\"ts\":\"20\n\xff\xfe\n");
    std::fs::write(&path, text).unwrap();
    log.write(&record(2)).unwrap();
    assert_eq!(read_records(directory.path(), 10).unwrap().len(), 2);
    assert!(read_records(&directory.path().join("nowhere"), 10).unwrap().is_empty());
}

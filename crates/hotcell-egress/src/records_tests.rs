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
    let mut log = RecordLog::with_bound(open(&directory), 2000);
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
    let mut log = RecordLog::new(open(&directory));
    log.write(&record(1)).unwrap();
    let path = directory.path().join("network.jsonl");
    let mut text = std::fs::read(&path).unwrap();
    text.extend_from_slice(b"{\"ts\":\"20\n\xff\xfe\n");
    std::fs::write(&path, text).unwrap();
    log.write(&record(2)).unwrap();
    assert_eq!(read_records(directory.path(), 10).unwrap().len(), 2);
    assert!(read_records(&directory.path().join("nowhere"), 10).unwrap().is_empty());
}

#[test]
fn refusals_without_end_push_nothing_out() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = RecordLog::with_bound(open(&directory), 32 << 10);
    let opened =
        hotcell_model::NetRecord { name: "first.test".to_owned(), ..blank(NetVerdict::Opened) };
    log.write(&opened).unwrap();
    for number in 0..5000 {
        let verdict = if number % 2 == 0 { NetVerdict::Denied } else { NetVerdict::Failed };
        log.write(&hotcell_model::NetRecord { name: format!("n{number}.test"), ..blank(verdict) })
            .unwrap();
    }
    log.tell_left_out().unwrap();
    let found = read_records(directory.path(), 10_000).unwrap();
    assert_eq!(found.len(), 52);
    assert_eq!(found[0].name, "first.test");
    assert_eq!(found[51].reason.as_deref(), Some("4950 refusals are left out"));
    log.tell_left_out().unwrap();
    assert_eq!(read_records(directory.path(), 10_000).unwrap().len(), 52);
}

#[test]
fn what_is_no_plain_file_is_neither_written_nor_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("network.jsonl");
    let other = directory.path().join("other");
    std::fs::write(&other, "").unwrap();
    let mut log = RecordLog::new(open(&directory));
    let put: [(&str, &dyn Fn()); 4] = [
        ("a link to what has no end", &|| std::os::unix::fs::symlink("/dev/zero", &path).unwrap()),
        ("a link to a file", &|| std::os::unix::fs::symlink(&other, &path).unwrap()),
        ("a second name of a file", &|| std::fs::hard_link(&other, &path).unwrap()),
        ("a pipe", &|| {
            let (here, mode) = (rustix::fs::CWD, rustix::fs::Mode::from_raw_mode(0o600));
            rustix::fs::mknodat(here, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }),
    ];
    for (what, put) in put {
        put();
        assert!(log.write(&record(1)).is_err(), "{what}");
        assert!(read_records(directory.path(), 10).is_err(), "{what}");
        assert_eq!(std::fs::metadata(&other).unwrap().len(), 0, "{what}");
        std::fs::remove_file(&path).unwrap();
    }
    log.write(&record(1)).unwrap();
    assert_eq!(read_records(directory.path(), 10).unwrap().len(), 1);
}

#[test]
fn a_line_without_end_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = RecordLog::new(open(&directory));
    log.write(&record(1)).unwrap();
    let path = directory.path().join("network.jsonl");
    let mut text = std::fs::read(&path).unwrap();
    // Its end alone would be a record.
    let whole = text.clone();
    text.extend_from_slice(&vec![b' '; 64 << 10]);
    text.extend_from_slice(&whole);
    std::fs::write(&path, text).unwrap();
    log.write(&record(2)).unwrap();
    let names: Vec<String> =
        read_records(directory.path(), 10).unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["n1.test", "n2.test"]);
}

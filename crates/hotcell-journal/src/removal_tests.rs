//! Tests of removing records directories that a hostile supervisor has filled.

use std::fs::{self, File};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, mkdirat, openat};

use crate::remove_records;

/// A directory with so many directories in one another, deeper than any path.
fn nest(directory: &std::path::Path, depth: u32) {
    let mut at = OwnedFd::from(File::open(directory).unwrap());
    for _ in 0..depth {
        mkdirat(&at, "inner", Mode::RWXU).unwrap();
        fs::write(format!("/proc/self/fd/{}/file", std::os::fd::AsRawFd::as_raw_fd(&at)), "x")
            .unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        at = openat(&at, "inner", flags, Mode::empty()).unwrap();
    }
}

#[test]
fn directories_deeper_than_any_path_are_removed() {
    let place = tempfile::tempdir().unwrap();
    let records = place.path().join("records");
    fs::create_dir_all(records.join("log")).unwrap();
    fs::write(records.join("journal"), "x").unwrap();
    fs::create_dir(records.join("removed-1")).unwrap();
    nest(&records.join("log"), 1500);
    remove_records(&records).unwrap();
    assert!(!records.exists());
    remove_records(&records).unwrap();
}

#[test]
fn a_link_is_removed_and_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let (records, other) = (place.path().join("records"), place.path().join("other"));
    fs::create_dir(&records).unwrap();
    fs::create_dir(&other).unwrap();
    fs::write(other.join("kept"), "x").unwrap();
    std::os::unix::fs::symlink(&other, records.join("log")).unwrap();
    remove_records(&records).unwrap();
    assert!(!records.exists() && other.join("kept").exists());
}

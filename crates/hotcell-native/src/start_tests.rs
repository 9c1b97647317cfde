//! What is given to the supervisor before it starts.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use rustix::process::{getegid, geteuid};

use crate::start::give_records;

#[test]
fn nothing_but_records_is_given_to_the_supervisor() {
    let outside = tempfile::tempdir().unwrap();
    let (target, named_twice) = (outside.path().join("target"), outside.path().join("named-twice"));
    let inside = outside.path().join("inside");
    fs::create_dir(&inside).unwrap();
    let records = outside.path().join("records");
    fs::create_dir_all(records.join("logs")).unwrap();
    for file in [&target, &named_twice, &inside.join("file"), &records.join("journal")] {
        fs::write(file, "x").unwrap();
    }
    symlink(&target, records.join("link")).unwrap();
    symlink(&inside, records.join("link-to-directory")).unwrap();
    fs::hard_link(&named_twice, records.join("second-name")).unwrap();
    // Only root can give something away.
    let id = if geteuid().is_root() { 123_456 } else { geteuid().as_raw() };
    let group = if geteuid().is_root() { 123_456 } else { getegid().as_raw() };
    give_records(&records, id, group).unwrap();
    let owner = |path: &std::path::Path| fs::metadata(path).unwrap().uid();
    for given in [records.clone(), records.join("logs"), records.join("journal")] {
        assert_eq!(owner(&given), id, "{}", given.display());
    }
    for kept in [&target, &named_twice, &inside, &inside.join("file")] {
        assert_eq!(owner(kept), geteuid().as_raw(), "{}", kept.display());
    }
    let link = outside.path().join("link-to-records");
    symlink(&records, &link).unwrap();
    assert!(give_records(&link, id, group).is_err());
}

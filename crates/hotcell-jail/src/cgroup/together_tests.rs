//! What is written to the group of all cells, and what is not.

use std::collections::BTreeMap;
use std::fs;

use super::*;

#[test]
fn a_bound_below_what_is_used_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place { directory: directory.path().to_owned(), version: Version::V2 };
    let group = Hierarchies {
        controllers: BTreeMap::from([(Controller::Memory, place)]),
        unified: None,
        refused: BTreeMap::new(),
    };
    let file = |name: &str| directory.path().join(name);
    let bound = |memory_bytes: Option<u64>| {
        group.bound_together(&Together { memory_bytes, pids: None }).unwrap();
        fs::read_to_string(file("memory.max")).unwrap()
    };
    fs::write(file("memory.current"), "0\n").unwrap();
    assert_eq!(bound(Some(1000)), "1000");
    fs::write(file("memory.current"), "300\n").unwrap();
    assert_eq!(bound(Some(300)), "300");
    assert!(!file("memory.reclaim").exists());
    // The kernel is asked for what is too much, and would otherwise end processes.
    assert_eq!(bound(Some(250)), "300");
    assert_eq!(fs::read_to_string(file("memory.reclaim")).unwrap(), "50");
    fs::write(file("memory.current"), "240\n").unwrap();
    assert_eq!(bound(Some(250)), "250");
    assert_eq!(bound(None), "max");
}

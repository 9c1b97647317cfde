//! Files that are replaced whole, their previous versions, and what counts as damage.

use std::fs;

use super::*;

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_version_before_a_damaged_file_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cell.json");
    save_json_keeping_previous(&path, &1).unwrap();
    assert_eq!(read_previous::<u32>(&path).unwrap(), None);
    save_json_keeping_previous(&path, &2).unwrap();
    assert_eq!(names(directory.path()), ["cell.json", "cell.json.previous"]);
    assert_eq!(read_json::<u32>(&path).unwrap(), Some(2));
    for damage in ["", "\0\0\0", "{", "\"another type\""] {
        fs::write(&path, damage).unwrap();
        assert!(is_damage(&read_json::<u32>(&path).unwrap_err()), "{damage:?}");
        assert_eq!(read_previous::<u32>(&path).unwrap(), Some(1), "{damage:?}");
    }
}

#[test]
fn a_damaged_file_never_becomes_the_previous_version() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cell.json");
    save_json_keeping_previous(&path, &1).unwrap();
    save_json_keeping_previous(&path, &2).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "").unwrap();
    save_json_keeping_previous(&path, &3).unwrap();
    assert_eq!(read_json::<u32>(&path).unwrap(), Some(3));
    assert_eq!(read_previous::<u32>(&path).unwrap(), Some(1));
}

#[test]
fn whoever_died_before_the_new_version_was_in_place_left_nothing_in_the_way() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cell.json");
    save_json_keeping_previous(&path, &1).unwrap();
    keep_previous(&path).unwrap();
    save_json_keeping_previous(&path, &2).unwrap();
    assert_eq!(names(directory.path()), ["cell.json", "cell.json.previous"]);
    assert_eq!(read_previous::<u32>(&path).unwrap(), Some(1));
}

#[test]
fn a_file_that_cannot_be_read_is_not_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cell.json");
    fs::create_dir(&path).unwrap();
    let error = read_json::<u32>(&path).unwrap_err();
    assert!(!is_damage(&error), "{error}");
}

#[test]
fn a_write_that_fails_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cell.json");
    fs::create_dir(&path).unwrap();
    write_json(&path, &1).unwrap_err();
    save_json(&path, &1).unwrap_err();
    assert_eq!(names(directory.path()), ["cell.json"]);
}

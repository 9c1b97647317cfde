//! Names for directories.

use std::path::Path;

use crate::default_cell::of_directory;

fn name(path: &str) -> String {
    of_directory(Path::new(path)).unwrap().to_string()
}

#[test]
fn a_directory_has_one_name_for_ever() {
    assert_eq!(name("/home/me/project"), "project-03966f65");
}

#[test]
fn directories_of_one_name_differ() {
    assert_ne!(name("/home/me/project"), name("/home/you/project"));
}

#[test]
fn any_path_gives_a_name() {
    for path in [
        "/",
        "/..",
        "/a b/\u{e9}t\u{e9}",
        "/.hidden",
        "/-",
        &"/x".repeat(2000),
        &format!("/{}", "y".repeat(255)),
    ] {
        assert!(of_directory(Path::new(path)).is_some(), "{path}");
    }
}

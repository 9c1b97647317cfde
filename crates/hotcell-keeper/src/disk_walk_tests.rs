//! Nothing that a cell can make of its directories keeps them from being measured, or leads out.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::{Mode, OFlags, mkdirat, open as open_path, openat};

use super::*;

fn count(root: &Path) -> (usize, Seen) {
    let mut found = 0;
    let seen = walk(root, |_| found += 1).unwrap();
    (found, seen)
}

/// Makes directories in one another, and a file in the last.
fn nest(root: &Path, depth: usize, name: &str) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut place = open_path(root, flags, Mode::empty()).unwrap();
    for _ in 0..depth {
        mkdirat(&place, name, Mode::RWXU).unwrap();
        place = openat(&place, name, flags, Mode::empty()).unwrap();
    }
    openat(&place, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
}

#[test]
fn paths_longer_than_the_kernel_takes_are_seen() {
    let root = tempfile::tempdir().unwrap();
    nest(root.path(), 40, &"x".repeat(250));
    assert_eq!(count(root.path()), (41, Seen::Whole));
}

#[test]
fn what_is_deeper_than_can_be_held_open_is_said_to_be_hidden() {
    let root = tempfile::tempdir().unwrap();
    nest(root.path(), DEEPEST - 1, "d");
    assert_eq!(count(root.path()), (DEEPEST, Seen::Whole));
    let root = tempfile::tempdir().unwrap();
    nest(root.path(), DEEPEST, "d");
    assert_eq!(count(root.path()), (DEEPEST, Seen::Part));
}

#[test]
fn links_are_shown_and_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    File::create(outside.path().join("secret")).unwrap();
    symlink(outside.path(), root.path().join("link")).unwrap();
    symlink("..", root.path().join("up")).unwrap();
    assert_eq!(count(root.path()), (2, Seen::Whole));
    assert_eq!(count(&root.path().join("gone")), (0, Seen::Whole));
    assert!(walk(&root.path().join("link"), |_| {}).is_err());
}

#[test]
fn a_closed_directory_is_said_to_be_hidden() {
    if rustix::process::getuid().is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let closed = root.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    assert_eq!(count(root.path()), (1, Seen::Part));
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

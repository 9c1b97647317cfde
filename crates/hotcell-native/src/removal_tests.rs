//! Nothing that a cell can make of its directories keeps them from being removed.

use rustix::fs::{mkdirat, open};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

/// Directories in one another, each with a file and a link beside the next.
fn nest(root: &Path, depth: usize) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut place = open(root, flags, Mode::empty()).unwrap();
    for _ in 0..depth {
        mkdirat(&place, "d", Mode::RWXU).unwrap();
        openat(&place, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
        rustix::fs::symlinkat("d", &place, "link").unwrap();
        place = openat(&place, "d", flags, Mode::empty()).unwrap();
    }
}

#[test]
fn a_tree_deeper_than_descriptors_are_to_be_had_is_removed() {
    let limits = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), ..limits }).unwrap();
    let root = tempfile::tempdir().unwrap();
    let tree = root.path().join("tree");
    fs::create_dir(&tree).unwrap();
    nest(&tree, 2500);
    assert!(fs::remove_dir_all(&tree).is_err(), "it needs no help");
    remove_tree(&tree).unwrap();
    assert!(!tree.exists());
    remove_tree(&tree).unwrap();
}

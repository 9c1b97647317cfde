//! What cells without namespaces are made of.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;

#[test]
fn no_cell_lies_where_commands_read() {
    for place in ["/usr/local/state", "/usr"] {
        assert!(check_place(Path::new(place)).is_err(), "{place}");
    }
    assert!(check_place(Path::new("/var/lib/state")).is_ok());
}

#[test]
fn a_tree_that_is_closed_to_its_owner_is_removed_and_what_links_lead_to_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let (tree, beside) = (directory.path().join("tree"), directory.path().join("beside"));
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::create_dir(&beside).unwrap();
    std::os::unix::fs::symlink(&beside, tree.join("a/link")).unwrap();
    let closed = fs::Permissions::from_mode(0o000);
    for path in ["a/b", "a"] {
        fs::set_permissions(tree.join(path), closed.clone()).unwrap();
    }
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o500)).unwrap();
    crate::removal::open_up(rustix::fs::CWD, &tree).unwrap();
    assert_eq!(fs::metadata(tree.join("a/b")).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(&beside).unwrap().mode() & 0o777, 0o500);
    crate::removal::remove_stubborn(&tree).unwrap();
    assert!(!tree.exists() && beside.exists());
}

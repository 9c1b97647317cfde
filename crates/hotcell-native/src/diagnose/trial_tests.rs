//! Which directories of trials are nobody's any more.

use std::fs;

use super::{abandoned, directory};

#[test]
fn only_trials_of_dead_processes_are_abandoned() {
    let parent = tempfile::tempdir().unwrap();
    // No process has this number: it is above what the kernel gives out.
    let dead = parent.path().join("trial-4194999");
    for path in [&dead, &directory(parent.path()), &parent.path().join("trial-notes")] {
        fs::create_dir(path).unwrap();
    }
    fs::create_dir(parent.path().join("cells")).unwrap();
    assert_eq!(abandoned(parent.path()), [dead]);
    assert_eq!(abandoned(&parent.path().join("absent")), Vec::<std::path::PathBuf>::new());
}

//! Which directories of trials are nobody's any more.

use std::fs;

use super::{abandoned, directory};

#[test]
fn only_trials_of_dead_processes_are_abandoned() {
    let parent = tempfile::tempdir().unwrap();
    // No process has this number: it is above what the kernel gives out.
    let dead = ["trial-4194999", "trial-4194999-7"].map(|name| parent.path().join(name));
    let others = ["trial-notes", "cells"].map(|name| parent.path().join(name));
    // Each is a directory of its own.
    let own = [directory(parent.path()), directory(parent.path())];
    for path in dead.iter().chain(&others).chain(&own) {
        fs::create_dir(path).unwrap();
    }
    let mut found = abandoned(parent.path());
    found.sort();
    assert_eq!(found, dead);
    assert_eq!(abandoned(&parent.path().join("absent")), Vec::<std::path::PathBuf>::new());
}

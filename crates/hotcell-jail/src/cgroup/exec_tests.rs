//! Groups that were frozen let the next exec's processes be born.

use std::fs::{self, File};
use std::path::Path;

use super::*;

fn groups_in(directory: &Path) -> ExecCgroups {
    ExecCgroups::new(File::open(directory).unwrap().into(), Kind::Unified)
}

/// The files of a group in which nothing is.
fn lay_out(group: &Path, freeze: &str) {
    fs::write(group.join("cgroup.events"), "populated 0\nfrozen 1\n").unwrap();
    fs::write(group.join("cgroup.freeze"), freeze).unwrap();
}

#[test]
fn an_exec_that_ended_while_it_was_frozen_leaves_a_group_that_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exec0");
    let mut groups = groups_in(directory.path());
    let group = groups.take().unwrap();
    lay_out(&path, "0");
    assert!(group.freeze());
    assert_eq!(fs::read_to_string(path.join("cgroup.freeze")).unwrap(), "1");
    groups.give_back(group);
    assert_eq!(groups.take().unwrap().name, "exec0");
    assert_eq!(fs::read_to_string(path.join("cgroup.freeze")).unwrap(), "0");
}

#[test]
fn a_group_that_was_left_frozen_behind_is_thawed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exec0");
    fs::create_dir(&path).unwrap();
    lay_out(&path, "1");
    assert_eq!(groups_in(directory.path()).take().unwrap().name, "exec0");
    assert_eq!(fs::read_to_string(path.join("cgroup.freeze")).unwrap(), "0");
}

#[test]
fn a_group_may_be_left_with_one_process_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("exec0");
    let group = groups_in(directory.path()).take().unwrap();
    lay_out(&path, "0");
    let kept = Pid::from_raw(i32::MAX).unwrap();
    for (listed, is_alone) in
        [("", true), ("2147483647\n", true), ("2147483647\n2147483646\n", false)]
    {
        fs::write(path.join("cgroup.procs"), listed).unwrap();
        assert_eq!(group.holds_only(kept), is_alone, "{listed:?}");
    }
    group.kill_all_but(kept);
    assert_eq!(fs::read_to_string(path.join("cgroup.freeze")).unwrap(), "0");
    // One that is held still for somebody else stays so.
    assert!(group.freeze());
    group.kill_all_but(kept);
    assert_eq!(fs::read_to_string(path.join("cgroup.freeze")).unwrap(), "1");
}

//! How hierarchies are mounted decides what a user can do.

use hotcell_jail::cgroup::Controller;

use super::{Arrangement, arrangement, remedy};
use crate::diagnose::testing::{add, machine};

const V1: &str = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n";
const V2: &str = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw\n";

#[test]
fn mounts_tell_the_arrangement() {
    for (table, expected) in [
        (String::new(), Arrangement::None),
        (V1.to_owned(), Arrangement::Legacy),
        (V2.to_owned(), Arrangement::Unified),
        (format!("{V1}{V2}"), Arrangement::Hybrid),
    ] {
        let machine = machine(&[("proc/self/mountinfo", &table)]);
        assert_eq!(arrangement(machine.path()), expected, "{table}");
    }
}

#[test]
fn a_delegated_group_is_proposed_only_where_there_can_be_one() {
    let unified = machine(&[("proc/self/mountinfo", V2)]);
    assert!(!remedy(unified.path(), Controller::Memory).contains("systemd-run"));
    add(unified.path(), "run/systemd/system/x", "");
    let memory = remedy(unified.path(), Controller::Memory);
    assert!(memory.contains("systemd-run --user --scope -p Delegate=yes"), "{memory}");
    assert!(!memory.contains("delegate.conf"), "{memory}");
    let cpu = remedy(unified.path(), Controller::Cpu);
    assert!(cpu.contains("user@.service.d/delegate.conf"), "{cpu}");

    let legacy = machine(&[("proc/self/mountinfo", V1)]);
    assert!(remedy(legacy.path(), Controller::Memory).starts_with("run as root"));
    add(legacy.path(), "run/systemd/system/x", "");
    let legacy = remedy(legacy.path(), Controller::Memory);
    assert!(legacy.contains("systemd.unified_cgroup_hierarchy=1"), "{legacy}");
    assert!(remedy(machine(&[]).path(), Controller::Memory).contains("mount -t cgroup2"));
}

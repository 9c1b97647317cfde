//! Which control groups a machine has, and how a user gets to use them.

use std::path::Path;

use hotcell_jail::cgroup::Controller;

use super::container::find_container;
use super::host_file::read;

/// How hierarchies are mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrangement {
    None,
    /// v1 alone.
    Legacy,
    /// v2 alone.
    Unified,
    /// v1 for controllers, v2 beside them.
    Hybrid,
}

/// How hierarchies are mounted on the machine whose root is `host`.
pub(super) fn arrangement(host: &Path) -> Arrangement {
    let table = read(host, "proc/self/mountinfo").unwrap_or_default();
    let has = |kind: &str| {
        let kinds = table.lines().filter_map(|line| line.split_once(" - ")?.1.split(' ').next());
        kinds.into_iter().any(|found| found == kind)
    };
    match (has("cgroup"), has("cgroup2")) {
        (false, false) => Arrangement::None,
        (true, false) => Arrangement::Legacy,
        (false, true) => Arrangement::Unified,
        (true, true) => Arrangement::Hybrid,
    }
}

impl Arrangement {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "not mounted",
            Self::Legacy => "v1",
            Self::Unified => "v2",
            Self::Hybrid => "v1 for controllers, v2 beside them",
        }
    }
}

/// What gives a user this controller on the machine whose root is `host`.
pub(super) fn remedy(host: &Path, controller: Controller) -> String {
    if find_container(host).is_some() {
        return "the container has no control groups to give: set limits on the container itself, \
                or start it with its control groups writable"
            .to_owned();
    }
    let systemd = host.join("run/systemd/system").is_dir();
    match (arrangement(host), systemd) {
        (Arrangement::None, _) => {
            "mount control groups as root: `mount -t cgroup2 none /sys/fs/cgroup`".to_owned()
        }
        (Arrangement::Unified, true) => format!(
            "run as root; or in a delegated group: \
             `systemd-run --user --scope -p Delegate=yes hotcell …`{}",
            match controller {
                // systemd passes memory and pids to its users by itself.
                Controller::Cpu =>
                    ", after root has put `Delegate=cpu memory pids` under [Service] in \
                     /etc/systemd/system/user@.service.d/delegate.conf and you have logged in again",
                Controller::Memory | Controller::Pids | Controller::Freezer => "",
            }
        ),
        (Arrangement::Unified, false) => {
            "run as root: nothing on this machine gives control groups to users".to_owned()
        }
        (Arrangement::Legacy | Arrangement::Hybrid, true) => {
            "run as root; or boot with systemd.unified_cgroup_hierarchy=1, where users can have \
             groups of their own"
                .to_owned()
        }
        (Arrangement::Legacy | Arrangement::Hybrid, false) => {
            "run as root: controllers of cgroup v1 are not safely given to users".to_owned()
        }
    }
}

#[cfg(test)]
#[path = "control_groups_tests.rs"]
mod control_groups_tests;

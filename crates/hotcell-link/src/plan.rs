//! What a driver tells the supervisor that it starts.

use hotcell_model::CellSpec;
use serde::{Deserialize, Serialize};

/// How all processes of an exec are ended, whatever they did to get away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillMeans {
    /// A cgroup v2 per exec and its `cgroup.kill`.
    CgroupKill,
    /// A cgroup v1 freezer per exec: freeze, kill each, thaw.
    Freezer,
    /// A subreaper per exec, whose descendants are stopped and then killed.
    Subreaper,
}

/// The ids under which execs run, as the cell sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecIds {
    /// The user of an ordinary exec.
    pub uid: u32,
    /// The group of an ordinary exec.
    pub gid: u32,
    /// Whether there is an id 0 for `as_root`.
    pub root: bool,
    /// Whether the supervisor may change groups; not so where the kernel forbids `setgroups`.
    pub setgroups: bool,
}

/// Descriptors that the supervisor finds open when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFds {
    /// The listening socket of the link.
    pub listener: i32,
    /// The directory for the journal and the logs.
    pub records: i32,
    /// Where the supervisor tells that it is ready, and how its execs are confined.
    pub ready: i32,
    /// The cgroup directory below which each exec gets its own.
    pub exec_cgroup: Option<i32>,
    /// The cell's directory of the memory controller.
    pub memory: Option<i32>,
    /// The cell's directory of the pids controller.
    pub pids: Option<i32>,
    /// The cell's directory of the CPU accounting.
    pub cpu: Option<i32>,
}

/// Everything a supervisor needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The cell as it was spawned.
    pub spec: CellSpec,
    /// The ids of its execs.
    pub ids: ExecIds,
    /// How execs are ended.
    pub kill: KillMeans,
    /// Processes that one user of the cell may have where no cgroup counts them.
    pub rlimit_pids: Option<u32>,
    /// The descriptors.
    pub fds: PlanFds,
}

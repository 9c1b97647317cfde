//! What a driver tells the supervisor that it starts.

use std::path::{Path, PathBuf};

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
    /// The listening socket at which programs of the cell call tools.
    #[serde(default)]
    pub calls: Option<i32>,
    /// The program itself, for reading: nobody in a cell may open it.
    #[serde(default)]
    pub program: Option<i32>,
    /// The listening socket at which the host's side asks for sockets of the cell's network, where it
    /// cannot open them itself.
    #[serde(default)]
    pub sockets: Option<i32>,
}

/// Which root the supervisor and its execs see.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Root {
    /// One of the cell's own, in which everything lies at its place.
    #[default]
    Own,
    /// That of a container, in which everything lies at its place and some of it is the supervisor's.
    Container,
    /// The host's, in which the cell has a directory.
    Host(HostRoot),
}

/// What of the host's root is a cell's.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostRoot {
    /// Where the cell's own directories are. No link is on the way.
    pub directory: PathBuf,
    /// What execs may read and run.
    pub programs: Vec<PathBuf>,
    /// What they may read.
    pub readable: Vec<PathBuf>,
    /// Devices that they may use.
    pub devices: Vec<PathBuf>,
}

/// The variable by which processes of a cell in the host's root say whose they are.
pub const CELL_VARIABLE: &str = "HOTCELL_CELL";

/// Directories of a cell that are its own in any root, as it names them.
pub const OWN_DIRECTORIES: [&str; 3] = ["/workspace", "/tmp", "/home/cell"];

impl Root {
    /// Where something lies that the cell knows by this path.
    #[must_use]
    pub fn find(&self, path: &Path) -> PathBuf {
        let is_own = || OWN_DIRECTORIES.iter().any(|own| path.starts_with(own));
        match self {
            Self::Host(host) if is_own() => {
                host.directory.join(path.strip_prefix("/").unwrap_or(path))
            }
            Self::Host(_) | Self::Own | Self::Container => path.to_owned(),
        }
    }
}

/// Where the supervisor's own files are in a container. Right below the root, so that they can be
/// granted apart from everything else.
pub const CONTAINER_PLACE: &str = "/.hotcell";
/// The directory with the program.
pub const CONTAINER_PROGRAMS: &str = "/.hotcell/bin";
/// The program.
pub const CONTAINER_PROGRAM: &str = "/.hotcell/bin/hotcell";
/// The directory in which whoever starts a container waits for its first process.
pub const CONTAINER_BIRTHPLACE: &str = "/.hotcell/birth";
/// The socket there.
pub const BIRTH_SOCKET: &str = "order";

/// What the first process of a container is told when it asks, as one line. With it come three
/// descriptors: the directory for the journal and the logs, the socket at which it is to listen, and
/// the one at which it is asked for sockets of the container's network. None has a path in the
/// container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContainerOrder {
    /// The cell as it was spawned.
    pub spec: CellSpec,
    /// Its user, which is that of its execs.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
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
    /// The root.
    #[serde(default)]
    pub root: Root,
    /// Whether files that are written in the workspace are the host's root's.
    #[serde(default)]
    pub writes_as_root: bool,
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod plan_tests;

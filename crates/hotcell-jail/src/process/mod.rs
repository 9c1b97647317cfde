//! Starting the processes of execs, and collecting their ends.

mod launch;
mod ordinary;
mod privileges;
mod questions;
mod reap;
mod spawner;
mod subreaper;

pub use crate::seccomp::SetIds;
pub use crate::surroundings::{ContainerParts, HostParts, Surroundings};
pub use launch::{
    Cgroup, Confinement, EXECVE_STEP, Groups, Identity, Launch, LaunchError, Launcher, MOST_EXTRA,
    Readiness, Streams,
};
pub use ordinary::{become_ordinary, end_now};
pub(crate) use privileges::drop_capabilities;
pub use privileges::{Locks, hide_self, lock_privileges};
pub use questions::Questions;
pub use reap::{Ending, Reaped, Wait, is_child, reap};
pub use subreaper::{Others, ReapedLaunch, Report};

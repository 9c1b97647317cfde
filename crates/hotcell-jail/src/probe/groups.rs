//! An attempt at control groups: limits, a process born into them, and its end by them.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, pidfd_send_signal, waitpid};

use super::Finding;
use crate::cgroup::{CellCgroups, CellLimits, ExecCgroups, Hierarchies};
use crate::ids::IdLayout;
use crate::process::Cgroup;
use crate::{Forked, Namespaces, Step, StepError, fork_into_namespaces};

/// Far from the bounds of any machine that can run a cell.
const LIMITS: CellLimits = CellLimits { memory_bytes: 64 << 20, cpu_millis: Some(500), pids: 16 };
/// A process that was killed is gone long before.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Tries the groups of a cell and of an exec in it.
pub(super) fn try_out(hierarchies: &Hierarchies, ids: &IdLayout) -> Finding {
    if hierarchies.unified.is_none() && hierarchies.controllers.is_empty() {
        return Finding::NotTried("none may be used".to_owned());
    }
    let groups = CellCgroups::of(hierarchies, &format!("probe-{}", std::process::id()));
    let tried = groups.create(&LIMITS, ids.supervisor()).and_then(|()| live_and_die(&groups));
    tried.and(groups.remove()).into()
}

/// A process lives in the groups, and dies by the exec's group where there is one.
fn live_and_die(groups: &CellCgroups) -> Result<(), StepError> {
    let step = || "make the group of an exec".to_owned();
    let group = groups
        .exec_directory()?
        .map(|(directory, kind)| ExecCgroups::new(directory, kind).take().step(step));
    let group = group.transpose()?;
    let entry = group.as_ref().map_or(Cgroup::Inherit, |group| group.entry());
    let birthplace = match entry {
        Cgroup::Born(directory) => Some(directory),
        Cgroup::Inherit | Cgroup::Joins(_) => None,
    };
    let forked = fork_into_namespaces(Namespaces::NONE, birthplace);
    match forked.step(|| "clone3 into a control group".to_owned())? {
        Forked::Child => loop {
            // SAFETY: waits for a signal, and takes nothing.
            unsafe { libc::pause() };
        },
        Forked::Parent { pid, pidfd } => {
            let lived = groups.add(pid).and_then(|()| match entry {
                Cgroup::Joins(procs) => join(procs, pid),
                Cgroup::Inherit | Cgroup::Born(_) => Ok(()),
            });
            let died = match (&lived, &group) {
                (Ok(()), Some(group)) => {
                    group.kill();
                    await_end(&pidfd).step(|| "kill a process by its control group".to_owned())
                }
                (_, _) => Ok(()),
            };
            // Dead already, unless something above failed.
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            lived.and(died)
        }
    }
}

fn join(procs: std::os::fd::BorrowedFd<'_>, pid: Pid) -> Result<(), StepError> {
    let pid = pid.as_raw_nonzero().to_string();
    rustix::io::write(procs, pid.as_bytes())
        .map(drop)
        .step(|| format!("write {pid} to cgroup.procs of the freezer"))
}

fn await_end(pidfd: &OwnedFd) -> io::Result<()> {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    match poll(&mut fds, Some(&PATIENCE))? {
        0 => Err(io::Error::from(io::ErrorKind::TimedOut)),
        _ => Ok(()),
    }
}

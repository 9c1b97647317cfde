//! An attempt at control groups: limits, a process born into them, and its end by them.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, WaitOptions, pidfd_send_signal, waitpid};

use super::Finding;
use crate::cgroup::{CellCgroups, CellLimits, ExecCgroups, Hierarchies, join};
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
    let name = format!("probe-{}", std::process::id());
    let groups = CellCgroups::of(hierarchies, &name, &LIMITS);
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
    let entrances = groups.entrances()?;
    let (joined, joiner) = rustix::pipe::pipe().step(|| "make a pipe".to_owned())?;
    let forked = fork_into_namespaces(Namespaces::NONE, birthplace);
    match forked.step(|| "clone3 into a control group".to_owned())? {
        Forked::Child => {
            let own = match entry {
                Cgroup::Joins(tasks) => rustix::io::write(tasks, b"0").map(drop),
                Cgroup::Inherit | Cgroup::Born(_) => Ok(()),
            };
            if join(&entrances).is_ok() && own.is_ok() {
                let _ = rustix::io::write(&joiner, b"j");
                // SAFETY: waits for a signal, and takes nothing.
                unsafe { libc::pause() };
            }
            // SAFETY: _exit ends this process without running anything of the parent's.
            unsafe { libc::_exit(1) }
        }
        Forked::Parent { pid, pidfd } => {
            drop(joiner);
            let lived = match rustix::io::read(&joined, &mut [0; 1]) {
                Ok(1) => Ok(()),
                Ok(_) => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
                Err(errno) => Err(errno.into()),
            };
            let lived = lived.step(|| "move a process into a control group".to_owned());
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

fn await_end(pidfd: &OwnedFd) -> io::Result<()> {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    match poll(&mut fds, Some(&PATIENCE))? {
        0 => Err(io::Error::from(io::ErrorKind::TimedOut)),
        _ => Ok(()),
    }
}

//! The ends of children.

use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::direct::call;

/// A child that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaped {
    /// Which.
    pub pid: Pid,
    /// Its wait status.
    pub status: i32,
    /// CPU time of it and of the children it had waited for.
    pub cpu_us: u64,
    /// The largest resident size of one of those.
    pub max_rss_kb: u64,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By exiting with this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

impl Reaped {
    /// How it ended.
    #[must_use]
    pub fn ending(&self) -> Ending {
        if libc::WIFSIGNALED(self.status) {
            Ending::Signaled(libc::WTERMSIG(self.status))
        } else {
            Ending::Exited(libc::WEXITSTATUS(self.status))
        }
    }
}

/// Whether to wait for a child to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Until one ends.
    Block,
    /// Not at all.
    Poll,
}

/// Whether a process is a child of this one, alive or not collected yet.
#[must_use]
pub fn is_child(pid: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid), look).is_ok()
}

/// A child that was stopped by a signal and of which that was not told before; `None` when there is none.
pub(super) fn stopped_child() -> Option<Pid> {
    // SAFETY: all zeros are a valid value.
    let mut told: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WSTOPPED | libc::WNOHANG;
    // SAFETY: the kernel writes one such structure.
    let found = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut told, options) };
    // SAFETY: of a child the structure has its number; without one it is zero.
    let pid = unsafe { told.si_pid() };
    if found == 0 { Pid::from_raw(pid) } else { None }
}

/// Collects one child that has ended; `None` when none has.
///
/// # Errors
/// There are no children (`ECHILD`).
pub fn reap(wait: Wait) -> io::Result<Option<Reaped>> {
    Ok(reap_directly(wait)?)
}

/// As [`reap`], for a process that shares another's memory.
pub(super) fn reap_directly(wait: Wait) -> Result<Option<Reaped>, Errno> {
    let options = match wait {
        Wait::Block => 0,
        Wait::Poll => libc::WNOHANG,
    };
    let mut status = 0_i32;
    // SAFETY: an all-zero rusage is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        let arguments = [
            usize::MAX, // Any child: -1.
            &raw mut status as usize,
            options as usize,
            &raw mut usage as usize,
        ];
        // SAFETY: both pointers are valid for the call.
        match unsafe { call(libc::SYS_wait4, arguments) } {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
            Ok(pid) => {
                let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
                return Ok(pid.map(|pid| Reaped {
                    pid,
                    status,
                    cpu_us: micros(usage.ru_utime) + micros(usage.ru_stime),
                    max_rss_kb: u64::try_from(usage.ru_maxrss).unwrap_or(0),
                }));
            }
        }
    }
}

fn micros(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000 + u64::try_from(time.tv_usec).unwrap_or(0)
}

//! One group per exec, made from inside the cell, so that all its processes can be found and killed.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::process::Pid;

use super::{Gauge, read_at, write_at};
use crate::signals;

/// How long it is waited for processes to be still: only one that the kernel is busy for takes time.
const FREEZE_LOOKS: u32 = 500;
const FREEZE_PAUSE: Duration = Duration::from_millis(1);

/// How processes of a group are killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// v2: `cgroup.kill`, or freeze and kill each on kernels before 5.14.
    Unified,
    /// v1: freeze, kill each, thaw.
    Freezer,
}

/// Groups kept ready for the next exec; making and removing one costs more than a pipe.
const MOST_SPARE: usize = 64;

/// The directory in which execs have their groups.
#[derive(Debug)]
pub struct ExecCgroups {
    directory: OwnedFd,
    kind: Kind,
    spare: Vec<ExecCgroup>,
    made: u64,
}

/// The group of one exec.
#[derive(Debug)]
pub struct ExecCgroup {
    name: String,
    directory: OwnedFd,
    kind: Kind,
    cpu_us_before: u64,
    procs: Option<OwnedFd>,
    was_killed: Cell<bool>,
    is_frozen: Cell<bool>,
    events: Gauge,
    cpu: Gauge,
}

impl ExecCgroups {
    /// Groups below an open directory of this kind.
    #[must_use]
    pub fn new(directory: OwnedFd, kind: Kind) -> Self {
        Self { directory, kind, spare: Vec::new(), made: 0 }
    }

    /// A group without processes.
    ///
    /// # Errors
    /// None could be made.
    pub fn take(&mut self) -> io::Result<ExecCgroup> {
        if let Some(mut spare) = self.spare.pop() {
            spare.cpu_us_before = spare.total_cpu_us();
            return Ok(spare);
        }
        let name = format!("exec{}", self.made);
        let is_left_behind = match mkdirat(&self.directory, &name, Mode::from_raw_mode(0o755)) {
            Ok(()) => false,
            // By an earlier supervisor of this cell; it has no processes any more.
            Err(rustix::io::Errno::EXIST) => true,
            Err(errno) => return Err(errno.into()),
        };
        self.made += 1;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(&self.directory, &name, flags, Mode::empty())?;
        let procs = match self.kind {
            Kind::Unified => None,
            Kind::Freezer => {
                let flags = OFlags::WRONLY | OFlags::CLOEXEC;
                Some(openat(&directory, "tasks", flags, Mode::empty())?)
            }
        };
        let group = ExecCgroup {
            name,
            directory,
            kind: self.kind,
            cpu_us_before: 0,
            procs,
            was_killed: Cell::new(false),
            is_frozen: Cell::new(is_left_behind),
            events: Gauge::new(&["cgroup.events"]),
            cpu: Gauge::new(&["cpu.stat"]),
        };
        group.thaw();
        Ok(group)
    }

    /// Gives a group back. It is kept for the next exec unless it was killed: since Linux 6.14 a
    /// process born into a group counts as born before the group's last kill, and dies at once.
    /// One that is frozen would hold the next process at its birth, and with it whoever waits for
    /// that.
    pub fn give_back(&mut self, group: ExecCgroup) {
        group.thaw();
        if self.spare.len() < MOST_SPARE && !group.was_killed.get() && group.is_empty() {
            self.spare.push(group);
        } else {
            // Not empty yet: the supervisor's end or the keeper removes it.
            let _ = unlinkat(&self.directory, &group.name, AtFlags::REMOVEDIR);
        }
    }
}

impl ExecCgroup {
    /// How a new process gets into this group.
    #[must_use]
    pub fn entry(&self) -> crate::process::Cgroup<'_> {
        match &self.procs {
            None => crate::process::Cgroup::Born(self.directory.as_fd()),
            Some(procs) => crate::process::Cgroup::Joins(procs.as_fd()),
        }
    }

    /// What a process writes `0` to that moves itself in, whoever it is: the kernel asks whether the
    /// one that opened it may.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn joined_by_self(&self) -> io::Result<OwnedFd> {
        let file = match self.kind {
            Kind::Unified => "cgroup.procs",
            Kind::Freezer => "tasks",
        };
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        Ok(openat(&self.directory, file, flags, Mode::empty())?)
    }

    /// Whether a process is in it.
    #[must_use]
    pub fn has(&self, pid: Pid) -> bool {
        self.pids().contains(&pid)
    }

    /// How many processes are in it.
    #[must_use]
    pub fn count(&self) -> usize {
        self.pids().len()
    }

    /// Whether no live process is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self.kind {
            Kind::Unified => self.events.field(&self.directory, "populated") == Some(0),
            Kind::Freezer => self.pids().is_empty(),
        }
    }

    /// Kills every process in it; they are gone when [`ExecCgroup::is_empty`] says so.
    pub fn kill(&self) {
        self.was_killed.set(true);
        match self.kind {
            Kind::Unified => {
                if write_at(&self.directory, "cgroup.kill", "1").is_err() {
                    self.kill_frozen();
                }
            }
            Kind::Freezer => self.kill_frozen(),
        }
    }

    /// Whether no live process but this one is in it.
    #[must_use]
    pub fn holds_only(&self, kept: Pid) -> bool {
        self.pids().iter().all(|pid| *pid == kept)
    }

    /// Kills every process in it but one; [`ExecCgroup::holds_only`] says when they are gone.
    pub fn kill_all_but(&self, kept: Pid) {
        // Frozen, none can fork away between being listed and being killed.
        let was_frozen = self.is_frozen.get();
        let (file, frozen, thawed) = self.freezer();
        if !was_frozen {
            let _ = write_at(&self.directory, file, frozen);
        }
        for pid in self.pids() {
            if pid != kept {
                // One that is gone needs no signal.
                let _ = signals::send(pid, libc::SIGKILL);
            }
        }
        if !was_frozen {
            let _ = write_at(&self.directory, file, thawed);
        }
    }

    /// Lets CPU time be counted from now on.
    pub fn count_anew(&mut self) {
        self.cpu_us_before = self.total_cpu_us();
    }

    fn freezer(&self) -> (&'static str, &'static str, &'static str) {
        match self.kind {
            Kind::Unified => ("cgroup.freeze", "1", "0"),
            Kind::Freezer => ("freezer.state", "FROZEN", "THAWED"),
        }
    }

    /// Holds every process in it still; whether that could be done.
    #[must_use]
    pub fn freeze(&self) -> bool {
        let (file, value, _) = self.freezer();
        self.is_frozen.set(true);
        if write_at(&self.directory, file, value).is_err() {
            return false;
        }
        for _ in 0..FREEZE_LOOKS {
            let is_still = match self.kind {
                Kind::Unified => self.events.field(&self.directory, "frozen") == Some(1),
                Kind::Freezer => {
                    read_at(&self.directory, file).is_ok_and(|state| state.trim() == "FROZEN")
                }
            };
            if is_still {
                return true;
            }
            std::thread::sleep(FREEZE_PAUSE);
        }
        false
    }

    /// Lets every process in it go on.
    pub fn thaw(&self) {
        if !self.is_frozen.replace(false) {
            return;
        }
        let (file, _, value) = self.freezer();
        // A group that is gone has nothing in it to thaw.
        let _ = write_at(&self.directory, file, value);
    }

    /// Sends a signal to every process in it.
    pub fn signal(&self, number: i32) {
        for pid in self.pids() {
            // One that is gone needs no signal.
            let _ = signals::send(pid, number);
        }
    }

    /// CPU time of all that ran in it for this exec, where the kernel counts it.
    #[must_use]
    pub fn cpu_us(&self) -> Option<u64> {
        match self.kind {
            Kind::Unified => Some(self.total_cpu_us().saturating_sub(self.cpu_us_before)),
            Kind::Freezer => None,
        }
    }

    fn total_cpu_us(&self) -> u64 {
        self.cpu.field(&self.directory, "usage_usec").unwrap_or(0)
    }

    fn kill_frozen(&self) {
        let (file, freeze, thaw) = self.freezer();
        // Frozen, none can fork away between being listed and being killed.
        let _ = write_at(&self.directory, file, freeze);
        for pid in self.pids() {
            let _ = signals::send(pid, libc::SIGKILL);
        }
        let _ = write_at(&self.directory, file, thaw);
    }

    fn pids(&self) -> Vec<Pid> {
        let listed = read_at(&self.directory, "cgroup.procs").unwrap_or_default();
        listed.lines().filter_map(|line| line.parse().ok().and_then(Pid::from_raw)).collect()
    }
}

#[cfg(test)]
#[path = "exec_tests.rs"]
mod tests;

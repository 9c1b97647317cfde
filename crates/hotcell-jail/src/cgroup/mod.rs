//! Control groups, per controller: v2, v1 or a mixture, delegated or not.
//!
//! The v2 hierarchy is used to kill and to count CPU time even where it has no controllers.

mod cell;
mod exec;
mod hierarchy;

pub use cell::{CellCgroups, CellLimits};
pub use exec::{ExecCgroup, ExecCgroups, Kind};
pub use hierarchy::{Controller, Hierarchies, Place, Version};

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};

/// Counters of one cgroup directory, whichever version it is of.
#[derive(Debug)]
pub struct Meter(OwnedFd);

impl Meter {
    /// A meter on an open cgroup directory.
    #[must_use]
    pub fn new(directory: OwnedFd) -> Self {
        Self(directory)
    }

    /// Memory in use.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        self.number("memory.current").or_else(|| self.number("memory.usage_in_bytes"))
    }

    /// Processes and threads.
    #[must_use]
    pub fn pids(&self) -> Option<u64> {
        self.number("pids.current")
    }

    /// CPU time used.
    #[must_use]
    pub fn cpu_us(&self) -> Option<u64> {
        self.field("cpu.stat", "usage_usec")
            .or_else(|| self.number("cpuacct.usage").map(|nanos| nanos / 1000))
    }

    /// How often the kernel killed a process here for want of memory.
    #[must_use]
    pub fn oom_kills(&self) -> Option<u64> {
        self.field("memory.events", "oom_kill")
            .or_else(|| self.field("memory.oom_control", "oom_kill"))
    }

    fn number(&self, file: &str) -> Option<u64> {
        read_at(&self.0, file).ok()?.trim().parse().ok()
    }

    fn field(&self, file: &str, name: &str) -> Option<u64> {
        let text = read_at(&self.0, file).ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }
}

/// Reads a small file below a directory.
fn read_at(directory: impl AsFd, file: &str) -> io::Result<String> {
    let fd = openat(directory, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = String::new();
    io::Read::read_to_string(&mut std::fs::File::from(fd), &mut text)?;
    Ok(text)
}

/// Writes a small file below a directory.
fn write_at(directory: impl AsFd, file: &str, text: &str) -> io::Result<()> {
    let fd = openat(directory, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&fd, text.as_bytes())?;
    Ok(())
}

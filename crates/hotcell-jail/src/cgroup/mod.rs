//! Control groups, per controller: v2, v1 or a mixture, delegated or not.
//!
//! The v2 hierarchy is used to kill and to count CPU time even where it has no controllers.

mod carrier;
mod cell;
mod exec;
mod hierarchy;
mod together;

pub use carrier::CarrierCgroups;
pub use cell::{CellCgroups, CellLimits, join};
pub use exec::{ExecCgroup, ExecCgroups, Kind};
pub use hierarchy::{Controller, Hierarchies, Place, Version};
pub use together::Together;

use std::cell::OnceCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};

/// A small file of a cgroup directory that is read again and again: opened once.
#[derive(Debug)]
struct Gauge {
    names: &'static [&'static str],
    file: OnceCell<Option<OwnedFd>>,
}

impl Gauge {
    /// The first of these files that is there: the two versions name them differently.
    const fn new(names: &'static [&'static str]) -> Self {
        Self { names, file: OnceCell::new() }
    }

    fn read(&self, directory: impl AsFd) -> Option<String> {
        let open = |name: &&str| {
            openat(&directory, *name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
        };
        let file = self.file.get_or_init(|| self.names.iter().find_map(open)).as_ref()?;
        let mut bytes = [0; 4096];
        let length = rustix::io::pread(file, &mut bytes, 0).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    fn number(&self, directory: impl AsFd) -> Option<u64> {
        self.read(directory)?.trim().parse().ok()
    }

    fn field(&self, directory: impl AsFd, name: &str) -> Option<u64> {
        let text = self.read(directory)?;
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }
}

/// Counters of one cgroup directory, whichever version it is of.
#[derive(Debug)]
pub struct Meter {
    directory: OwnedFd,
    memory: Gauge,
    pids: Gauge,
    cpu: Gauge,
    oom: Gauge,
    refused: Gauge,
}

impl Meter {
    /// A meter on an open cgroup directory.
    #[must_use]
    pub fn new(directory: OwnedFd) -> Self {
        Self {
            directory,
            memory: Gauge::new(&["memory.current", "memory.usage_in_bytes"]),
            pids: Gauge::new(&["pids.current"]),
            cpu: Gauge::new(&["cpu.stat"]),
            oom: Gauge::new(&["memory.events", "memory.oom_control"]),
            refused: Gauge::new(&["pids.events"]),
        }
    }

    /// Memory in use.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory.number(&self.directory)
    }

    /// Processes and threads.
    #[must_use]
    pub fn pids(&self) -> Option<u64> {
        self.pids.number(&self.directory)
    }

    /// CPU time used; counted in the v2 hierarchy only.
    #[must_use]
    pub fn cpu_us(&self) -> Option<u64> {
        self.cpu.field(&self.directory, "usage_usec")
    }

    /// How often the kernel refused another process or thread here.
    #[must_use]
    pub fn refused_pids(&self) -> Option<u64> {
        self.refused.field(&self.directory, "max ")
    }

    /// How often the kernel killed a process here for want of memory.
    #[must_use]
    pub fn oom_kills(&self) -> Option<u64> {
        // The same word in both versions; in v2 `oom_group_kill` begins with another.
        self.oom.field(&self.directory, "oom_kill ")
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

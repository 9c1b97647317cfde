//! What a cell may use, and the bounds within which a caller may choose.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, Machine, Result};

/// The bounds and defaults of everything a caller can choose.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Memory of a cell unless given: this at most, and at most half of the machine's.
    pub default_memory_mb: u64,
    /// The least memory in which a supervisor and a shell can live.
    pub min_memory_mb: u64,
    /// Processes and threads of a cell unless given.
    pub default_pids: u32,
    /// The fewest processes with which a shell pipeline can run.
    pub min_pids: u32,
    /// What a cell may write unless given.
    pub default_disk_mb: u64,
    /// Files and directories that a cell may make unless given.
    pub default_disk_files: u64,
    /// The fewest files with which a cell can be made and used.
    pub min_disk_files: u64,
    /// The most files that can be asked for: more than any file system holds.
    pub max_disk_files: u64,
    /// Execs that run at once in a cell; the rest queue.
    pub max_running: u32,
    /// Bytes of output kept per exec.
    pub output_bytes: u64,
    /// The least of them that a caller can ask for.
    pub min_output_bytes: u64,
    /// The most of them that a caller can ask for.
    pub max_output_bytes: u64,
    /// The longest timeout, TTL or wait that can be asked for: 365 days.
    pub max_seconds: u64,
    /// The longest single argument or variable that the kernel passes on.
    pub max_argument_bytes: usize,
}

/// The bounds in force.
pub const LIMITS: Bounds = Bounds {
    default_memory_mb: 4096,
    min_memory_mb: 8,
    default_pids: 1024,
    min_pids: 8,
    default_disk_mb: 10 * 1024,
    default_disk_files: 1_000_000,
    min_disk_files: 100,
    max_disk_files: 1 << 40,
    max_running: 128,
    output_bytes: 64 << 20,
    min_output_bytes: 1 << 20,
    max_output_bytes: 1 << 30,
    max_seconds: 365 * 24 * 3600,
    max_argument_bytes: 131_071,
};

/// The limits a caller asked for; what is left out takes its default.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RequestedLimits {
    /// Memory in MiB.
    pub memory_mb: Option<u64>,
    /// CPUs, in fractions too.
    pub cpus: Option<f64>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// What the cell may write, in MiB.
    pub disk_mb: Option<u64>,
    /// Files and directories that the cell may make.
    pub disk_files: Option<u64>,
}

/// The limits of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Memory in MiB.
    pub memory_mb: u64,
    /// CPUs; all of the machine's when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Processes and threads.
    pub pids: u32,
    /// What the cell may write, in MiB.
    pub disk_mb: u64,
    /// Files and directories that the cell may make.
    #[serde(default = "default_disk_files")]
    pub disk_files: u64,
}

/// Cells that were made before there was such a limit have the default.
fn default_disk_files() -> u64 {
    LIMITS.default_disk_files
}

impl RequestedLimits {
    /// The same with what nobody asked for as the operator says it is by default, as far as the machine
    /// has that much.
    #[must_use]
    pub fn or_usual(self, usual: &Self, machine: &Machine) -> Self {
        let memory_mb = || usual.memory_mb.map(|mb| mb.min(machine.memory_mb));
        let cpus = || usual.cpus.map(|cpus| cpus.min(f64::from(machine.cpus)));
        let pids = || usual.pids.map(|pids| pids.min(machine.pids));
        let disk_mb = || usual.disk_mb.map(|mb| mb.min(machine.disk_mb.max(1)));
        Self {
            memory_mb: self.memory_mb.or_else(memory_mb),
            cpus: self.cpus.or_else(cpus),
            pids: self.pids.or_else(pids),
            disk_mb: self.disk_mb.or_else(disk_mb),
            disk_files: self.disk_files.or(usual.disk_files),
        }
    }

    /// Checks the request against the machine and fills in the defaults.
    ///
    /// # Errors
    /// `invalid` for zero or a value beyond the machine, with the bound in the hint.
    pub fn resolve(self, machine: &Machine) -> Result<Limits> {
        let memory_mb = match self.memory_mb {
            None => LIMITS.default_memory_mb.min(machine.memory_mb / 2).max(LIMITS.min_memory_mb),
            Some(mb) => within("memory_mb", mb, LIMITS.min_memory_mb, machine.memory_mb)?,
        };
        let cpus = match self.cpus {
            None => None,
            Some(cpus) if cpus.is_finite() && cpus >= 0.01 && cpus <= f64::from(machine.cpus) => {
                Some(cpus)
            }
            Some(cpus) => {
                let range = format!("between 0.01 and {} on this machine", machine.cpus);
                return Err(Error::argument("cpus", range, cpus));
            }
        };
        let pids = match self.pids {
            None => LIMITS.default_pids.min(machine.pids),
            Some(pids) => {
                let bounded = within(
                    "pids",
                    u64::from(pids),
                    u64::from(LIMITS.min_pids),
                    u64::from(machine.pids),
                )?;
                u32::try_from(bounded).unwrap_or(u32::MAX)
            }
        };
        let disk_mb = match self.disk_mb {
            None => LIMITS.default_disk_mb.min(machine.disk_mb.max(1)),
            Some(mb) => within("disk_mb", mb, 1, machine.disk_mb)?,
        };
        let disk_files = match self.disk_files {
            None => LIMITS.default_disk_files,
            Some(files) => {
                let (least, most) = (LIMITS.min_disk_files, LIMITS.max_disk_files);
                within("disk_files", files, least, most)?
            }
        };
        Ok(Limits { memory_mb, cpus, pids, disk_mb, disk_files })
    }
}

fn within(name: &str, value: u64, least: u64, most: u64) -> Result<u64> {
    if value >= least && value <= most {
        Ok(value)
    } else {
        let range = format!("between {least} and {most} on this machine");
        Err(Error::argument(name, range, value))
    }
}

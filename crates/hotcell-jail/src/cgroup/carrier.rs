//! The groups of whoever carries a cell's connections, beside those of the cell.
//!
//! They are not within the cell's: what is short of memory in there would end them too, and with its
//! last process a cell's group is killed as a whole, while they still have something to write down.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::cell::{make, set};
use super::{Controller, Hierarchies, Version};
use crate::{Step, StepError};

/// What those groups are called, after the cell's name.
const SUFFIX: &str = "-carrier";
/// How long it is waited for the last process to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The groups of one cell's carrier, where there are any.
#[derive(Debug, Clone, Default)]
pub struct CarrierCgroups(Vec<(Controller, Version, PathBuf)>);

impl CarrierCgroups {
    /// Those that the carrier of a cell of this name has or would have.
    #[must_use]
    pub fn of(hierarchies: &Hierarchies, cell: &str) -> Self {
        let places = hierarchies.controllers.iter().filter_map(|(controller, place)| {
            let directory = place.directory.join(format!("{cell}{SUFFIX}"));
            match controller {
                Controller::Memory | Controller::Pids => {
                    Some((*controller, place.version, directory))
                }
                Controller::Cpu | Controller::Freezer => None,
            }
        });
        Self(places.collect())
    }

    /// Makes them, and opens the ways in, for [`super::join`]. `None` where memory cannot be bounded by
    /// a group.
    ///
    /// # Errors
    /// The step that failed.
    pub fn create(&self, memory_bytes: u64, pids: u64) -> Result<Option<Vec<OwnedFd>>, StepError> {
        if !self.0.iter().any(|(controller, _, _)| *controller == Controller::Memory) {
            return Ok(None);
        }
        let mut entrances: Vec<(PathBuf, OwnedFd)> = Vec::new();
        for (controller, version, directory) in &self.0 {
            make(directory)?;
            match (controller, version) {
                (Controller::Memory, Version::V2) => {
                    set(directory, "memory.max", memory_bytes)?;
                    let _ = fs::write(directory.join("memory.swap.max"), "0");
                }
                (Controller::Memory, Version::V1) => {
                    set(directory, "memory.limit_in_bytes", memory_bytes)?;
                    let with_swap = directory.join("memory.memsw.limit_in_bytes");
                    let _ = fs::write(with_swap, memory_bytes.to_string());
                }
                (Controller::Pids, _) => set(directory, "pids.max", pids)?,
                (Controller::Cpu | Controller::Freezer, _) => {}
            }
            let entrance = match version {
                Version::V1 => directory.join("tasks"),
                Version::V2 => directory.join("cgroup.procs"),
            };
            if entrances.iter().any(|(known, _)| *known == entrance) {
                continue;
            }
            let opened = openat(CWD, &entrance, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
            let opened = opened.step(|| format!("open {}", entrance.display()))?;
            entrances.push((entrance, opened));
        }
        Ok(Some(entrances.into_iter().map(|(_, entrance)| entrance).collect()))
    }

    /// Removes them once nobody is in them, after a while at most. What is left then is in the way of
    /// nobody: the next carrier of the cell uses it.
    pub fn remove(&self) {
        let deadline = Instant::now() + GONE_WITHIN;
        for (_, _, directory) in &self.0 {
            while directory.exists() && fs::remove_dir(directory).is_err() {
                if Instant::now() >= deadline {
                    break;
                }
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
}

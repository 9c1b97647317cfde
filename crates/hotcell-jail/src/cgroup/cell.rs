//! The groups of one cell, made and removed from the host's side.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::{Controller, Hierarchies, Kind, Version};
use crate::{Step, StepError};

/// What a cell may use.
#[derive(Debug, Clone, Copy)]
pub struct CellLimits {
    /// Memory, `/tmp` included.
    pub memory_bytes: u64,
    /// Thousandths of a CPU; all when left out.
    pub cpu_millis: Option<u64>,
    /// Processes and threads of execs.
    pub pids: u32,
}

/// The part of a v2 group in which the supervisor itself is.
const SUPERVISOR: &str = "supervisor";
const CPU_PERIOD_US: u64 = 100_000;
/// The processes of the cell that are not the exec's.
pub(super) const OWN_PIDS: u32 = 1;

/// The groups of one cell.
#[derive(Debug)]
pub struct CellCgroups {
    unified: Option<PathBuf>,
    controllers: Vec<(Controller, Version, PathBuf)>,
}

impl CellCgroups {
    /// The groups that a cell of this name and these limits has or would have: no more than it
    /// needs, since each costs time to make, and a CPU group makes the cell share one weight.
    #[must_use]
    pub fn of(hierarchies: &Hierarchies, cell: &str, limits: &CellLimits) -> Self {
        let needed = |controller: Controller| match controller {
            Controller::Memory | Controller::Pids => true,
            Controller::Cpu => limits.cpu_millis.is_some(),
            Controller::Freezer => hierarchies.unified.is_none(),
        };
        let controllers =
            hierarchies.controllers.iter().filter(|(controller, _)| needed(**controller)).map(
                |(controller, place)| (*controller, place.version, place.directory.join(cell)),
            );
        Self {
            unified: hierarchies.unified.as_ref().map(|base| base.join(cell)),
            controllers: controllers.collect(),
        }
    }

    /// Makes the groups, sets the limits, and hands the part where execs go to `owner`.
    ///
    /// # Errors
    /// The step that failed; what was made stays for [`CellCgroups::remove`].
    pub fn create(&self, limits: &CellLimits, owner: (u32, u32)) -> Result<(), StepError> {
        if let Some(unified) = &self.unified {
            make(unified)?;
            make(&unified.join(SUPERVISOR))?;
            delegate(
                unified,
                &["cgroup.procs", "cgroup.subtree_control", "cgroup.threads"],
                owner,
            )?;
            delegate(&unified.join(SUPERVISOR), &["cgroup.procs"], owner)?;
        }
        for (controller, version, directory) in &self.controllers {
            make(directory)?;
            match (controller, version) {
                (Controller::Memory, Version::V2) => {
                    set(directory, "memory.max", limits.memory_bytes)?;
                    // Not there without swap accounting: see `Hierarchies::bounds_swap`.
                    let _ = fs::write(directory.join("memory.swap.max"), "0");
                }
                (Controller::Memory, Version::V1) => {
                    set(directory, "memory.limit_in_bytes", limits.memory_bytes)?;
                    let with_swap = limits.memory_bytes.to_string();
                    let _ = fs::write(directory.join("memory.memsw.limit_in_bytes"), with_swap);
                }
                (Controller::Pids, _) => {
                    set(directory, "pids.max", u64::from(limits.pids.saturating_add(OWN_PIDS)))?;
                }
                (Controller::Cpu, Version::V2) => {
                    if let Some(millis) = limits.cpu_millis {
                        let quota = millis * CPU_PERIOD_US / 1000;
                        set(directory, "cpu.max", format!("{quota} {CPU_PERIOD_US}"))?;
                    }
                }
                (Controller::Cpu, Version::V1) => {
                    if let Some(millis) = limits.cpu_millis {
                        set(directory, "cpu.cfs_period_us", CPU_PERIOD_US)?;
                        set(directory, "cpu.cfs_quota_us", millis * CPU_PERIOD_US / 1000)?;
                    }
                }
                (Controller::Freezer, _) => delegate(directory, &["cgroup.procs", "tasks"], owner)?,
            }
        }
        Ok(())
    }

    /// The v2 directory into which the supervisor is to be born.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn birthplace(&self) -> Result<Option<OwnedFd>, StepError> {
        self.unified.as_ref().map(|unified| open(&unified.join(SUPERVISOR))).transpose()
    }

    /// The ways into the groups of the v1 hierarchies, which nobody can be born into. Whoever opens
    /// them needs the permission; whoever [enters](join) need not have it.
    ///
    /// # Errors
    /// One of them cannot be opened.
    pub fn entrances(&self) -> Result<Vec<OwnedFd>, StepError> {
        let v1 = self.controllers.iter().filter(|(_, version, _)| *version == Version::V1);
        v1.map(|(_, _, directory)| {
            let path = directory.join("tasks");
            openat(CWD, &path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
                .step(|| format!("open {}", path.display()))
        })
        .collect()
    }

    /// The directory below which each exec gets a group, and how its processes are killed there.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn exec_directory(&self) -> Result<Option<(OwnedFd, Kind)>, StepError> {
        if let Some(unified) = &self.unified {
            return Ok(Some((open(unified)?, Kind::Unified)));
        }
        match self.directory(Controller::Freezer) {
            Some(directory) => Ok(Some((open(directory)?, Kind::Freezer))),
            None => Ok(None),
        }
    }

    /// A controller's directory, for reading its counters.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn meter(&self, controller: Controller) -> Result<Option<OwnedFd>, StepError> {
        self.directory(controller).map(open).transpose()
    }

    fn directory(&self, controller: Controller) -> Option<&Path> {
        let found = self.controllers.iter().find(|(of, _, _)| *of == controller);
        found.map(|(_, _, directory)| directory.as_path())
    }

    /// Kills whatever is left in the groups and removes them. Idempotent.
    ///
    /// # Errors
    /// A group could not be removed within five seconds.
    pub fn remove(&self) -> Result<(), StepError> {
        if let Some(unified) = &self.unified {
            // Gone already, or empty: both are what is wanted.
            let _ = fs::write(unified.join("cgroup.kill"), "1");
            remove_tree(unified)?;
        }
        for (_, _, directory) in &self.controllers {
            remove_tree(directory)?;
        }
        Ok(())
    }
}

/// Moves this process, which has a single thread, into groups. A thread that moves itself through
/// `tasks` spares the kernel a lock that costs a grace period, ten milliseconds and more.
///
/// # Errors
/// A group refused it.
pub fn join(entrances: &[OwnedFd]) -> Result<(), StepError> {
    for entrance in entrances {
        rustix::io::write(entrance, b"0").step(|| "join a cgroup".to_owned())?;
    }
    Ok(())
}

pub(super) fn make(directory: &Path) -> Result<(), StepError> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(error).step(|| format!("make {}", directory.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

pub(super) fn set(directory: &Path, file: &str, value: impl ToString) -> Result<(), StepError> {
    let (path, value) = (directory.join(file), value.to_string());
    fs::write(&path, &value).step(|| format!("write {value} to {}", path.display()))
}

fn open(directory: &Path) -> Result<OwnedFd, StepError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, directory, flags, Mode::empty()).step(|| format!("open {}", directory.display()))
}

fn delegate(directory: &Path, files: &[&str], owner: (u32, u32)) -> Result<(), StepError> {
    let paths = files.iter().map(|file| directory.join(file)).filter(|path| path.exists());
    for path in std::iter::once(directory.to_owned()).chain(paths) {
        chown(&path, Some(owner.0), Some(owner.1))
            .step(|| format!("give {} to {}", path.display(), owner.0))?;
    }
    Ok(())
}

/// Removes a group and the groups in it, waiting a while for the last process to be gone.
pub(super) fn remove_tree(directory: &Path) -> Result<(), StepError> {
    let name = || format!("remove {}", directory.display());
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        if let Ok(entries) = fs::read_dir(directory) {
            for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
                let _ = remove_tree(&entry.path());
            }
        }
        match fs::remove_dir(directory) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() >= deadline => return Err(error).step(name),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

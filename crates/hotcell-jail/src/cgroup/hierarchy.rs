//! Which controllers this machine has, in which hierarchy, and where cells may be put in them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What a cgroup can do for a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Limits memory.
    Memory,
    /// Limits the number of processes.
    Pids,
    /// Limits CPU time.
    Cpu,
    /// Holds all processes of a group; in v1 only.
    Freezer,
}

impl Controller {
    const ALL: [Self; 4] = [Self::Memory, Self::Pids, Self::Cpu, Self::Freezer];

    /// Its name, as the kernel has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Freezer => "freezer",
        }
    }
}

/// Of which kind a hierarchy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One controller or a few, with processes anywhere.
    V1,
    /// The unified one.
    V2,
}

impl Version {
    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "cgroup v1",
            Self::V2 => "cgroup v2",
        }
    }
}

/// A directory below which cells can have groups of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The directory.
    pub directory: PathBuf,
    /// Its kind.
    pub version: Version,
}

/// What there is on this machine for this user.
#[derive(Debug, Clone, Default)]
pub struct Hierarchies {
    /// Where each controller's limits can be set.
    pub controllers: BTreeMap<Controller, Place>,
    /// Where groups of the v2 hierarchy can be made, with or without controllers.
    pub unified: Option<PathBuf>,
    /// Why a controller that the kernel has cannot be used.
    pub refused: BTreeMap<Controller, String>,
}

/// The directory of all cells in a hierarchy.
const BASE: &str = "hotcell";

struct Mounted {
    point: PathBuf,
    version: Version,
    options: String,
}

impl Hierarchies {
    /// Looks at what is mounted and what of it this process may write. Makes the base directories.
    #[must_use]
    pub fn detect() -> Self {
        let mut found = Self::default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        for mounted in mounts.lines().filter_map(parse_mount) {
            match mounted.version {
                Version::V2 => found.use_unified(&mounted, &own),
                Version::V1 => found.use_v1(&mounted, &own),
            }
        }
        found
    }

    /// Whether what a cell has swapped out counts against its memory limit, or there is nothing to
    /// swap to. Without a memory limit there is nothing to count against.
    #[must_use]
    pub fn bounds_swap(&self) -> bool {
        let Some(place) = self.controllers.get(&Controller::Memory) else { return false };
        let file = match place.version {
            Version::V1 => "memory.memsw.limit_in_bytes",
            Version::V2 => "memory.swap.max",
        };
        place.directory.join(file).exists() || !has_swap()
    }

    fn use_unified(&mut self, mounted: &Mounted, own: &str) {
        let own = own.lines().find_map(|line| line.strip_prefix("0::"));
        let base = match writable_base(&mounted.point, own) {
            Ok(base) => base,
            Err(reason) => {
                for controller in controllers_of(&mounted.point) {
                    self.refused.entry(controller).or_insert_with(|| reason.clone());
                }
                return;
            }
        };
        for controller in controllers_of(&mounted.point) {
            match enable(&mounted.point, &base, controller) {
                Ok(()) => {
                    if controller == Controller::Cpu {
                        // All cells together would otherwise weigh as much as one process.
                        let _ = fs::write(base.join("cpu.weight"), "10000");
                    }
                    let place = Place { directory: base.clone(), version: Version::V2 };
                    self.controllers.insert(controller, place);
                }
                Err(reason) => {
                    self.refused.insert(controller, reason);
                }
            }
        }
        self.unified = Some(base);
    }

    fn use_v1(&mut self, mounted: &Mounted, own: &str) {
        for controller in Controller::ALL {
            if !mounted.options.split(',').any(|option| option == controller.name()) {
                continue;
            }
            let own = own.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                let names = fields.next()?;
                names.split(',').any(|name| name == controller.name()).then(|| fields.next())?
            });
            match writable_base(&mounted.point, own) {
                Ok(directory) => {
                    if controller == Controller::Cpu {
                        // All cells together would otherwise weigh as much as one process.
                        let _ = fs::write(directory.join("cpu.shares"), "262144");
                    }
                    let place = Place { directory, version: Version::V1 };
                    self.controllers.insert(controller, place);
                }
                Err(reason) => {
                    self.refused.insert(controller, reason);
                }
            }
        }
    }
}

/// Whether this machine swaps. The list has a line of titles.
fn has_swap() -> bool {
    fs::read_to_string("/proc/swaps").is_ok_and(|listed| listed.lines().nth(1).is_some())
}

fn parse_mount(line: &str) -> Option<Mounted> {
    let (before, after) = line.split_once(" - ")?;
    let point = PathBuf::from(before.split(' ').nth(4)?);
    let mut fields = after.split(' ');
    let version = match fields.next()? {
        "cgroup" => Version::V1,
        "cgroup2" => Version::V2,
        _ => return None,
    };
    let options = fields.nth(1)?.to_owned();
    Some(Mounted { point, version, options })
}

/// The directory of our cells: at the top where we may, else below our own group.
fn writable_base(point: &Path, own: Option<&str>) -> Result<PathBuf, String> {
    let own = own.map(|own| point.join(own.trim_start_matches('/')));
    let tops = [Some(point.to_owned()), own].into_iter().flatten();
    let mut reason = String::new();
    for top in tops {
        let base = top.join(BASE);
        match fs::create_dir(&base) {
            Ok(()) => return Ok(base),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
                match rustix::fs::access(&base, access) {
                    Ok(()) => return Ok(base),
                    Err(errno) => reason = format!("{}: {errno}", base.display()),
                }
            }
            Err(error) => reason = format!("{}: {error}", base.display()),
        }
    }
    Err(reason)
}

fn controllers_of(directory: &Path) -> Vec<Controller> {
    let listed = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
    let listed: Vec<&str> = listed.split_ascii_whitespace().collect();
    Controller::ALL.into_iter().filter(|controller| listed.contains(&controller.name())).collect()
}

/// Turns a v2 controller on from the top down to the children of `base`.
fn enable(point: &Path, base: &Path, controller: Controller) -> Result<(), String> {
    let chain: Vec<&Path> = base.ancestors().take_while(|path| path.starts_with(point)).collect();
    for directory in chain.into_iter().rev() {
        let control = directory.join("cgroup.subtree_control");
        let enabled = fs::read_to_string(&control).unwrap_or_default();
        if enabled.split_ascii_whitespace().any(|name| name == controller.name()) {
            continue;
        }
        let turn_on = || fs::write(&control, format!("+{}", controller.name()));
        turn_on()
            .or_else(|error| {
                if error.kind() == std::io::ErrorKind::ResourceBusy {
                    step_aside(directory)?;
                    turn_on()
                } else {
                    Err(error)
                }
            })
            .map_err(|error| format!("{}: {error}", control.display()))?;
    }
    Ok(())
}

/// Moves this process into a leaf of its group: a group that passes controllers on has no processes
/// of its own. Enough where this process is alone in a group that was delegated to it.
fn step_aside(group: &Path) -> std::io::Result<()> {
    let leaf = group.join("hotcell-caller");
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::write(leaf.join("cgroup.procs"), "0")
}

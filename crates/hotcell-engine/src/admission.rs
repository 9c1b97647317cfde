//! Whether there is room for one more cell with processes, under what the operator allows for all
//! cells of the state directory together.
//!
//! Nobody keeps a count: whoever starts a cell adds up what the index and the drivers say, under a
//! lock that every process on the state directory shares, and holds that lock until the cell is
//! there to be counted.

use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hotcell_model::{CellId, CellLock, CellSpec, CellState, Error, Limits, Result};

use crate::cell_standing::Standing;
use crate::fault;
use crate::site::Site;

/// How often it is looked whether there is room by now.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How many cells a refusal names.
const NAMED: usize = 3;
/// How often it is looked whether somebody waits, until that is sure.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// What all cells of a state directory may have together; `None` where it is not bounded.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    /// Cells that have processes.
    pub cells: u32,
    /// The sum of their memory limits, in MiB.
    pub memory_mb: Option<u64>,
    /// The sum of their CPU limits; a cell without one counts as all CPUs of the machine.
    pub cpus: Option<f64>,
    /// The sum of their limits on processes.
    pub pids: Option<u64>,
    /// The sum of the disk limits of all cells, those asleep included, in MiB.
    pub disk_mb: Option<u64>,
    /// Execs that one process, such as a server, has running or queued.
    pub execs: Option<u32>,
    /// How long a cell or an exec waits for room before it is refused.
    pub wait: Duration,
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            cells: 1000,
            memory_mb: None,
            cpus: None,
            pids: None,
            disk_mb: None,
            execs: None,
            wait: Duration::ZERO,
        }
    }
}

/// What the setting is called, what a cell is told to ask for less of, and the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Cells,
    Memory,
    Cpus,
    Pids,
    Disk,
}

impl Bound {
    const ALL: [Self; 5] = [Self::Cells, Self::Memory, Self::Cpus, Self::Pids, Self::Disk];

    fn setting(self) -> &'static str {
        match self {
            Self::Cells => "admission.cells",
            Self::Memory => "admission.memory_mb",
            Self::Cpus => "admission.cpus",
            Self::Pids => "admission.pids",
            Self::Disk => "admission.disk_mb",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Cells => "cells with processes",
            Self::Memory => "MiB of memory",
            Self::Cpus => "CPUs",
            Self::Pids => "processes",
            Self::Disk => "MiB of disk",
        }
    }

    /// What a cell of these limits counts for.
    #[expect(clippy::cast_precision_loss, reason = "sums of limits are far below 2^52")]
    fn share(self, limits: &Limits, machine_cpus: u32) -> f64 {
        match self {
            Self::Cells => 1.0,
            Self::Memory => limits.memory_mb as f64,
            Self::Cpus => limits.cpus.unwrap_or_else(|| f64::from(machine_cpus)),
            Self::Pids => f64::from(limits.pids),
            Self::Disk => limits.disk_mb as f64,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "sums of limits are far below 2^52")]
    fn allowed(self, admission: &Admission) -> Option<f64> {
        match self {
            Self::Cells => Some(f64::from(admission.cells)),
            Self::Memory => admission.memory_mb.map(|mb| mb as f64),
            Self::Cpus => admission.cpus,
            Self::Pids => admission.pids.map(|pids| pids as f64),
            Self::Disk => admission.disk_mb.map(|mb| mb as f64),
        }
    }

    /// Whether a cell without processes counts as well.
    fn counts_asleep(self) -> bool {
        match self {
            Self::Disk => true,
            Self::Cells | Self::Memory | Self::Cpus | Self::Pids => false,
        }
    }
}

/// A cell that counts.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    pub(crate) name: String,
    pub(crate) limits: Limits,
    pub(crate) is_awake: bool,
}

/// Why a cell is not started now.
#[derive(Debug)]
struct Refused {
    error: Error,
    /// Whether it may fit once others have ended.
    may_fit_later: bool,
}

/// Checks whether a cell fits beside others.
fn fits(
    admission: &Admission,
    others: &[Counted],
    limits: &Limits,
    machine_cpus: u32,
) -> std::result::Result<(), Refused> {
    for bound in Bound::ALL {
        let Some(allowed) = bound.allowed(admission) else { continue };
        let needed = bound.share(limits, machine_cpus);
        let counted = |other: &&Counted| other.is_awake || bound.counts_asleep();
        let mut holders: Vec<(f64, &str)> = others
            .iter()
            .filter(counted)
            .map(|other| (bound.share(&other.limits, machine_cpus), other.name.as_str()))
            .collect();
        let taken: f64 = holders.iter().map(|(share, _)| share).sum();
        if taken + needed <= allowed {
            continue;
        }
        holders.sort_by(|one, other| other.0.total_cmp(&one.0));
        return Err(refusal(bound, needed, taken, allowed, &holders));
    }
    Ok(())
}

fn refusal(
    bound: Bound,
    needed: f64,
    taken: f64,
    allowed: f64,
    holders: &[(f64, &str)],
) -> Refused {
    let (unit, setting) = (bound.unit(), bound.setting());
    let message = match bound {
        Bound::Cells => format!("there are {taken} {unit} already, and {allowed} may be there"),
        Bound::Memory | Bound::Cpus | Bound::Pids | Bound::Disk => format!(
            "the cell asks for {needed} {unit}; of the {allowed} that all cells may have together \
             {taken} are taken"
        ),
    };
    let mut hint = String::new();
    if !holders.is_empty() {
        let named: Vec<String> = holders
            .iter()
            .take(NAMED)
            .map(|(share, name)| match bound {
                Bound::Cells => (*name).to_owned(),
                Bound::Memory | Bound::Cpus | Bound::Pids | Bound::Disk => {
                    format!("{name} has {share}")
                }
            })
            .collect();
        // Writing to a string cannot fail.
        let _ = write!(hint, "end a cell with `hotcell kill` ({}), ", named.join(", "));
    }
    match bound {
        Bound::Cells => {}
        Bound::Memory | Bound::Cpus | Bound::Pids | Bound::Disk => hint.push_str("ask for less, "),
    }
    let _ = write!(hint, "or let the operator raise {setting}");
    let error = Error::limit_exceeded(message).hint(hint);
    Refused { error, may_fit_later: needed <= allowed }
}

/// What was found when it was looked for room.
enum Found {
    /// There is room; what is held keeps it until the cell is there to be counted.
    Room(Option<Box<dyn CellLock>>),
    /// There is none, and there may be later.
    Full(Error),
}

/// A cell that may be started now, with its lock, or that somebody else has started.
pub(crate) enum Admitted {
    /// It may be started, while these are held.
    Now(Box<dyn CellLock>, Option<Box<dyn CellLock>>),
    /// It was started by another process while this one waited.
    ByAnother(Box<dyn CellLock>),
}

impl Site {
    /// Waits until there is room for a cell that is about to be started, or refuses it. While it
    /// waits the cell's lock is free: whoever wants to end or to see the cell does not wait too.
    pub(crate) async fn admit(&self, spec: &CellSpec, lock: Box<dyn CellLock>) -> Result<Admitted> {
        let mut full = match self.look_for_room(spec).await? {
            Found::Room(room) => return Ok(Admitted::Now(lock, room)),
            Found::Full(error) => error,
        };
        drop(lock);
        let until = Instant::now() + self.settings.admission.wait;
        let _waiting = self.wait_openly(&spec.id)?;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(full);
            }
            tokio::time::sleep(LOOK_AGAIN.min(left)).await;
            let lock = self.store.lock_cell(&spec.id).await?;
            let stored = self.store.find_cell(&spec.id).await?;
            if stored.is_none_or(|stored| stored.ended_at.is_some()) {
                return Err(Error::not_found(format!(
                    "cell {} was ended while it waited for room",
                    spec.id
                ))
                .hint("make another cell"));
            }
            if self.has_supervisor(spec).await? {
                return Ok(Admitted::ByAnother(lock));
            }
            full = match self.look_for_room(spec).await? {
                Found::Room(room) => return Ok(Admitted::Now(lock, room)),
                Found::Full(error) => error,
            };
        }
    }

    async fn look_for_room(&self, spec: &CellSpec) -> Result<Found> {
        let admission = &self.settings.admission;
        let only_cells = Bound::ALL
            .iter()
            .all(|bound| *bound == Bound::Cells || bound.allowed(admission).is_none());
        // The cell itself is in the index by now, and those asleep are too.
        if only_cells && self.store.count_cells().await? <= u64::from(admission.cells) {
            return Ok(Found::Room(None));
        }
        let machine_cpus = self.driver(&spec.driver)?.capabilities().await?.machine.cpus;
        let lock = self.store.lock_admission().await?;
        let others = self.others(&spec.id).await?;
        match fits(admission, &others, &spec.limits, machine_cpus) {
            Ok(()) => Ok(Found::Room(Some(lock))),
            Err(Refused { error, may_fit_later: true }) => Ok(Found::Full(error)),
            Err(Refused { error, may_fit_later: false }) => Err(error),
        }
    }

    /// Every cell but this one that has not ended. One that waits for room itself has none yet.
    async fn others(&self, cell: &CellId) -> Result<Vec<Counted>> {
        let mut others = Vec::new();
        for stored in self.store.list_cells().await? {
            if stored.ended_at.is_some() || stored.spec.id == *cell {
                continue;
            }
            let is_awake = match self.standing(&stored).await {
                Standing::Over => continue,
                Standing::Is(CellState::Starting) => {
                    if self.is_waiting(&stored.spec.id).await {
                        continue;
                    }
                    true
                }
                Standing::Is(CellState::Ready) => true,
                Standing::Is(CellState::Asleep | CellState::Stopped | CellState::Unavailable) => {
                    false
                }
            };
            let spec = stored.spec;
            let name = spec.alias.map_or_else(|| spec.id.to_string(), |alias| alias.to_string());
            others.push(Counted { name, limits: spec.limits, is_awake });
        }
        Ok(others)
    }

    /// Shows others that somebody waits for room for a cell, until what comes back is dropped or
    /// this process ends.
    fn wait_openly(&self, cell: &CellId) -> Result<File> {
        let failed = |error| fault::io(format_args!("wait for room for cell {cell}"), &error);
        let file = File::create(self.waiting_file(cell)).map_err(failed)?;
        // Several may wait for one cell.
        file.lock_shared().map_err(failed)?;
        Ok(file)
    }

    /// Whether somebody waits for room for a cell.
    pub(crate) async fn is_waiting(&self, cell: &CellId) -> bool {
        let Ok(file) = File::open(self.waiting_file(cell)) else { return false };
        // Whoever looks holds it for an instant, whoever waits for longer.
        for _ in 0..LOOKS {
            if !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
                return false;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        true
    }

    fn waiting_file(&self, cell: &CellId) -> PathBuf {
        self.cell_dir(cell).join("waiting")
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;

//! Whether there is room for one more cell with processes, under what the operator allows for all
//! cells of the state directory together.
//!
//! Nobody keeps a count: whoever starts a cell adds up what the index and the drivers say, under a
//! lock that every process on the state directory shares, and holds that lock until the cell is
//! there to be counted.

use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use hotcell_model::{
    CellId, CellLock, CellSpec, CellState, Error, Keep, Limits, Result, Tenant, Tenants, Timestamp,
};

use crate::cell_standing::Standing;
use crate::fault;
use crate::site::Site;
use crate::tenant_table::{Allowed, Quota, TenantTable};

/// How often it is looked whether there is room by now.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How many cells a refusal names.
const NAMED: usize = 3;
/// How often it is looked whether somebody waits, until that is sure.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
/// So long after its last look somebody is taken to wait still.
const PATIENT: Duration = Duration::from_secs(5);
/// When to try again where it depends on what others do.
pub(crate) const RETRY_S: u64 = 5;

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
    /// Execs that have not ended, those in the queue of their cell included.
    pub execs: Option<u32>,
    /// Cells and execs that wait for room.
    pub queue: Option<u32>,
    /// What all cells send and receive over the network in a day (UTC), in MiB.
    pub egress_mb_per_day: Option<u64>,
    /// Calls a second of one server.
    pub calls_per_s: Option<u32>,
    /// Calls that a server takes at once after a pause; as many as in a second when left out.
    pub calls_burst: Option<u32>,
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
            queue: None,
            egress_mb_per_day: None,
            calls_per_s: None,
            calls_burst: None,
            wait: Duration::ZERO,
        }
    }
}

/// What is added up.
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
            Self::Cells => "cells",
            Self::Memory => "memory_mb",
            Self::Cpus => "cpus",
            Self::Pids => "pids",
            Self::Disk => "disk_mb",
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

    /// Whether a cell without processes counts as well.
    fn counts_asleep(self) -> bool {
        match self {
            Self::Disk => true,
            Self::Cells | Self::Memory | Self::Cpus | Self::Pids => false,
        }
    }
}

/// How much may be there together: of all cells, or of those of one tenant.
#[derive(Debug)]
struct Bounds {
    tenants: Tenants,
    /// Each with the key that says it.
    most: Vec<(Bound, f64, String)>,
}

impl Bounds {
    /// What all cells may have together.
    #[expect(clippy::cast_precision_loss, reason = "sums of limits are far below 2^52")]
    fn of_all(admission: &Admission) -> Self {
        let most = |bound: Bound| match bound {
            Bound::Cells => Some(f64::from(admission.cells)),
            Bound::Memory => admission.memory_mb.map(|mb| mb as f64),
            Bound::Cpus => admission.cpus,
            Bound::Pids => admission.pids.map(|pids| pids as f64),
            Bound::Disk => admission.disk_mb.map(|mb| mb as f64),
        };
        let key = |bound: Bound| format!("admission.{}", bound.setting());
        let most = Bound::ALL.into_iter().filter_map(|it| Some((it, most(it)?, key(it))));
        Self { tenants: Tenants::All, most: most.collect() }
    }

    /// What those of one tenant may.
    #[expect(clippy::cast_precision_loss, reason = "sums of limits are far below 2^52")]
    fn of_tenant(table: &TenantTable, tenant: &Tenant) -> Self {
        let quotas = [(Bound::Cells, Quota::Cells), (Bound::Memory, Quota::MemoryMb)];
        let most = quotas.into_iter().filter_map(|(bound, quota)| {
            let Allowed { limit, key } = table.allowed(tenant, quota)?;
            Some((bound, limit as f64, key))
        });
        Self { tenants: Tenants::Of(tenant.clone()), most: most.collect() }
    }

    /// How many cells there may be, if nothing else is bounded.
    fn only_cells(&self) -> Option<f64> {
        match self.most.as_slice() {
            [] => Some(f64::INFINITY),
            [(Bound::Cells, most, _)] => Some(*most),
            _ => None,
        }
    }
}

/// A cell that counts.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    pub(crate) name: String,
    pub(crate) tenant: Tenant,
    pub(crate) limits: Limits,
    pub(crate) presence: Presence,
    pub(crate) created_at: Timestamp,
}

/// What a cell takes of what is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It has processes.
    Awake,
    /// It has none.
    Asleep,
    /// It waits for room.
    Waiting,
}

/// Why a cell is not started now.
#[derive(Debug)]
struct Refused {
    error: Error,
    /// Whether it may fit once others have ended.
    may_fit_later: bool,
}

/// Checks whether a cell of a tenant fits beside others.
fn fits(
    bounds: &Bounds,
    others: &[Counted],
    (tenant, limits): (&Tenant, &Limits),
    machine_cpus: u32,
) -> std::result::Result<(), Refused> {
    for (bound, allowed, key) in &bounds.most {
        let needed = bound.share(limits, machine_cpus);
        let counted = |other: &&Counted| {
            let is_there = match other.presence {
                Presence::Awake => true,
                Presence::Asleep => bound.counts_asleep(),
                Presence::Waiting => false,
            };
            is_there && bounds.tenants.include(&other.tenant)
        };
        let share = |other: &Counted| bound.share(&other.limits, machine_cpus);
        let holders: Vec<&Counted> = others.iter().filter(counted).collect();
        let taken: f64 = holders.iter().map(|other| share(other)).sum();
        if taken + needed <= *allowed {
            continue;
        }
        // Whoever is told of others is told of its own.
        let mut named: Vec<(f64, &str)> = holders
            .iter()
            .filter(|other| other.tenant == *tenant)
            .map(|other| (share(other), other.name.as_str()))
            .collect();
        named.sort_by(|one, other| other.0.total_cmp(&one.0));
        let own = named.iter().map(|(share, _)| share).sum();
        let tenants = &bounds.tenants;
        let refused = Hit { bound: *bound, key, tenants, needed, own, allowed: *allowed };
        return Err(refused.refusal(&named));
    }
    Ok(())
}

/// A bound that a cell came up against. What others have of it is not told.
struct Hit<'a> {
    bound: Bound,
    key: &'a str,
    tenants: &'a Tenants,
    needed: f64,
    /// What the cells of the tenant have.
    own: f64,
    allowed: f64,
}

impl Hit<'_> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sums of limits are far below 2^52 and not negative"
    )]
    fn refusal(&self, holders: &[(f64, &str)]) -> Refused {
        let Self { bound, key, tenants, needed, own, allowed } = self;
        let unit = bound.unit();
        let message = match (bound, tenants) {
            (Bound::Cells, Tenants::Of(_)) => {
                format!("there are {own} {unit} already, and {allowed} may be there")
            }
            (Bound::Cells, Tenants::All) => format!(
                "{allowed} {unit} may be there in all, and there are as many; {own} of them are \
                 the tenant's"
            ),
            (Bound::Memory | Bound::Cpus | Bound::Pids | Bound::Disk, Tenants::Of(_)) => format!(
                "the cell asks for {needed} {unit}; of the {allowed} that the tenant's cells may \
                 have together {own} are taken"
            ),
            (Bound::Memory | Bound::Cpus | Bound::Pids | Bound::Disk, Tenants::All) => format!(
                "the cell asks for {needed} {unit}; of the {allowed} that all cells may have \
                 together fewer are free, and {own} are the tenant's"
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
            Bound::Memory | Bound::Cpus | Bound::Pids | Bound::Disk => {
                hint.push_str("ask for less, ");
            }
        }
        let _ = write!(hint, "or let the operator raise {key}");
        let error = Error::limit_exceeded(message).hint(hint).retry_after(RETRY_S).hit(
            *key,
            allowed.ceil() as u64,
            own.ceil() as u64,
        );
        Refused { error, may_fit_later: needed <= allowed }
    }
}

/// Whether one who waits comes before another: whose tenant has fewer cells with processes, and
/// among those of one tenant whoever was there first. So a tenant that wants much waits for itself.
fn comes_before(one: &Counted, other: &Counted, others: &[Counted]) -> bool {
    let has = |tenant: &Tenant| {
        let awake = |it: &&Counted| it.presence == Presence::Awake && it.tenant == *tenant;
        others.iter().filter(awake).count()
    };
    let place = |it: &Counted| (has(&it.tenant), it.created_at);
    place(one) < place(other)
}

/// The error for what would fit and whose turn did not come while it waited.
pub(crate) fn not_its_turn(wait: Duration) -> Error {
    let waited = wait.as_secs();
    Error::limit_exceeded(format!("others waited for room, and came first for {waited} s"))
        .hint("try again, or let the operator raise what admission.* allows, or admission.wait_s")
        .retry_after(RETRY_S)
        .hit("admission.wait_s", waited, waited)
}

/// What was found when it was looked for room.
enum Found {
    /// There is room; what is held keeps it until the cell is there to be counted.
    Room(Option<Box<dyn CellLock>>),
    /// There is none, and there may be later. Until what is held is let go nobody else looks.
    Full(Error, Vec<Counted>, Box<dyn CellLock>),
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
        let (mut full, others, looking) = match self.look_or_make_room(spec).await? {
            Found::Room(room) => return Ok(Admitted::Now(lock, room)),
            Found::Full(error, ..) if spec.keep == Keep::Pool => return Err(error),
            Found::Full(error, others, looking) => (error, others, looking),
        };
        drop(lock);
        let until = Instant::now() + self.settings.admission.wait;
        if Instant::now() >= until {
            return Err(full);
        }
        let waits = |it: &Counted| (it.presence == Presence::Waiting).then(|| it.tenant.clone());
        let cells: Vec<Tenant> = others.iter().filter_map(waits).collect();
        self.check_queue(&spec.tenant, &cells)?;
        let waiting = self.wait_openly(&spec.id)?;
        drop(looking);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(full);
            }
            tokio::time::sleep(LOOK_AGAIN.min(left)).await;
            note_patience(&waiting);
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
                Found::Full(error, ..) => error,
            };
        }
    }

    /// The same as to look for room; cells that nobody asked for make some.
    async fn look_or_make_room(&self, spec: &CellSpec) -> Result<Found> {
        let found = self.look_for_room(spec).await?;
        match found {
            Found::Full(..) if spec.keep != Keep::Pool && self.drain_pool().await? => {}
            found @ (Found::Room(_) | Found::Full(..)) => return Ok(found),
        }
        self.look_for_room(spec).await
    }

    async fn look_for_room(&self, spec: &CellSpec) -> Result<Found> {
        let all = Bounds::of_all(&self.settings.admission);
        let own = Bounds::of_tenant(&self.settings.tenants, &spec.tenant);
        if self.has_plain_room(&all).await? && self.has_plain_room(&own).await? {
            return Ok(Found::Room(None));
        }
        let machine_cpus = self.driver(&spec.driver)?.capabilities().await?.machine.cpus;
        let lock = self.store.lock_admission().await?;
        let others = self.others(&spec.id).await?;
        let place = |tenant: &Tenant, limits: &Limits, own: &Bounds| {
            let asked = (tenant, limits);
            fits(own, &others, asked, machine_cpus)
                .and_then(|()| fits(&all, &others, asked, machine_cpus))
        };
        match place(&spec.tenant, &spec.limits, &own) {
            Ok(()) => {}
            Err(Refused { error, may_fit_later: true }) => {
                return Ok(Found::Full(error, others, lock));
            }
            Err(Refused { error, may_fit_later: false }) => return Err(error),
        }
        let me = Counted {
            name: spec.id.to_string(),
            tenant: spec.tenant.clone(),
            limits: spec.limits,
            presence: Presence::Waiting,
            created_at: spec.created_at,
        };
        // One that could not be started now keeps nobody waiting.
        let is_before_me = |other: &Counted| {
            let own = Bounds::of_tenant(&self.settings.tenants, &other.tenant);
            other.presence == Presence::Waiting
                && comes_before(other, &me, &others)
                && place(&other.tenant, &other.limits, &own).is_ok()
        };
        if self.settings.admission.wait.is_zero() || !others.iter().any(is_before_me) {
            return Ok(Found::Room(Some(lock)));
        }
        Ok(Found::Full(not_its_turn(self.settings.admission.wait), others, lock))
    }

    /// Whether there is room however many of the cells have processes. The cell itself is in the
    /// index by now, and those asleep are too.
    #[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^52 cells")]
    async fn has_plain_room(&self, bounds: &Bounds) -> Result<bool> {
        let Some(most) = bounds.only_cells() else { return Ok(false) };
        Ok(most.is_infinite() || self.store.count_cells(&bounds.tenants).await? as f64 <= most)
    }

    /// Every cell but this one that has not ended.
    async fn others(&self, cell: &CellId) -> Result<Vec<Counted>> {
        let mut others = Vec::new();
        for stored in self.store.list_cells(&Tenants::All).await? {
            let CellSpec { id, alias, tenant, limits, created_at, .. } = stored.spec.clone();
            if stored.kept {
                let (name, presence) = (format!("the volume {id}"), Presence::Asleep);
                others.push(Counted { name, tenant, limits, presence, created_at });
                continue;
            }
            if stored.ended_at.is_some() || stored.spec.id == *cell {
                continue;
            }
            let presence = match self.standing(&stored).await {
                Standing::Over | Standing::Kept(_) => continue,
                Standing::Is(CellState::Starting) => match self.is_waiting(&stored.spec.id).await {
                    true => Presence::Waiting,
                    false => Presence::Awake,
                },
                Standing::Is(CellState::Ready) => Presence::Awake,
                Standing::Is(CellState::Asleep | CellState::Stopped | CellState::Unavailable) => {
                    // One that is to wake may wait for room as well.
                    match self.is_waiting(&stored.spec.id).await {
                        true => Presence::Waiting,
                        false => Presence::Asleep,
                    }
                }
            };
            let name = alias.map_or_else(|| id.to_string(), |alias| alias.to_string());
            others.push(Counted { name, tenant, limits, presence, created_at });
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
        if !is_patient(&file) {
            return false;
        }
        // Whoever looks holds it for an instant, whoever waits for longer.
        for _ in 0..LOOKS {
            if !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
                return false;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        true
    }

    /// Of each cell that waits for room whose it is.
    pub(crate) async fn waiting_cells(&self) -> Result<Vec<Tenant>> {
        let mut waiting = Vec::new();
        for stored in self.store.list_cells(&Tenants::All).await? {
            if stored.ended_at.is_none() && self.is_waiting(&stored.spec.id).await {
                waiting.push(stored.spec.tenant);
            }
        }
        Ok(waiting)
    }

    fn waiting_file(&self, cell: &CellId) -> PathBuf {
        self.cell_dir(cell).join("waiting")
    }
}

/// Whether whoever waits still does: it looks again all the time, and one that is stopped keeps
/// nobody waiting.
pub(crate) fn is_patient(waiting: &File) -> bool {
    let looked = waiting.metadata().and_then(|is| is.modified()).ok();
    looked.and_then(|at| at.elapsed().ok()).is_none_or(|ago| ago <= PATIENT)
}

/// Shows others that whoever waits still does.
pub(crate) fn note_patience(waiting: &File) {
    // If it cannot be noted, somebody else goes first.
    let _ = waiting.set_modified(SystemTime::now());
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;

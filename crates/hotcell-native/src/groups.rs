//! The control groups of a cell: its own, its carrier's, and the one that it shares with all others of
//! the state directory where the operator bounds what they have together.

use std::fs::File;
use std::io;

use hotcell_jail::cgroup::{CarrierCgroups, CellCgroups, CellLimits, Hierarchies, Together};
use hotcell_jail::{Step, StepError};
use hotcell_model::stable_hash;
use hotcell_place::{read_json, write_json};

use crate::isolation::hierarchies;
use crate::order::{Order, Placed};
use crate::paths::CellPaths;
use crate::start::cell_limits;

/// The groups that a cell has or is to have.
#[derive(Debug)]
pub(crate) struct ControlGroups {
    /// What there is for cells.
    pub(crate) hierarchies: Hierarchies,
    /// Its own.
    pub(crate) cell: CellCgroups,
    /// Those of whoever carries its connections.
    pub(crate) carrier: CarrierCgroups,
    shared: Option<Shared>,
}

/// The group of all cells of a state directory.
#[derive(Debug)]
struct Shared {
    places: Hierarchies,
    bounds: Together,
    /// Held while one is made in it, and while it is removed.
    lock: File,
}

impl ControlGroups {
    /// Those that it was started in.
    pub(crate) fn find(order: &Order, paths: &CellPaths, placed: &Placed) -> io::Result<Self> {
        let name = read_json(&paths.groups())?;
        Self::new(hierarchies(order.cgroups), name, order, paths, placed)
    }

    /// Those that it is to be started in, now that what an earlier supervisor left is removed: that is
    /// elsewhere if the operator has changed the bounds.
    pub(crate) fn prepare(
        self,
        order: &Order,
        paths: &CellPaths,
        placed: &Placed,
    ) -> io::Result<Self> {
        self.remove().map_err(io::Error::other)?;
        let is_bounded = order.together != Together::default();
        let directory = paths.native().root().as_os_str().as_encoded_bytes().to_vec();
        let name = is_bounded.then(|| format!("s_{:016x}", stable_hash(&directory)));
        match &name {
            Some(name) => write_json(&paths.groups(), name)?,
            None if self.shared.is_some() => std::fs::remove_file(paths.groups())?,
            None => return Ok(self),
        }
        Self::new(self.hierarchies, name, order, paths, placed)
    }

    fn new(
        hierarchies: Hierarchies,
        name: Option<String>,
        order: &Order,
        paths: &CellPaths,
        placed: &Placed,
    ) -> io::Result<Self> {
        let cell = placed.spec.id.as_str();
        let shared = name.map(|name| {
            let lock = File::create(paths.native().root().join("groups.lock"))?;
            let (places, bounds) = (hierarchies.within(&name), order.together);
            Ok::<_, io::Error>(Shared { places, bounds, lock })
        });
        let shared = shared.transpose()?;
        let places = shared.as_ref().map_or(&hierarchies, |shared| &shared.places);
        Ok(Self {
            cell: CellCgroups::of(places, cell, &cell_limits(&placed.spec.limits)),
            // Not in the shared one: cells may fill that, and what carries for one is not to end another.
            carrier: CarrierCgroups::of(&hierarchies, cell),
            shared,
            hierarchies,
        })
    }

    /// Makes those of the cell.
    pub(crate) fn create(&self, limits: &CellLimits, owner: (u32, u32)) -> Result<(), StepError> {
        let Some(shared) = &self.shared else { return self.cell.create(limits, owner) };
        shared.lock.lock().step(|| "lock the group of all cells".to_owned())?;
        let made = shared.places.bound_together(&shared.bounds);
        let made = made.and_then(|()| self.cell.create(limits, owner));
        let _ = shared.lock.unlock();
        made
    }

    /// Removes those of the cell, and of its carrier, which has ended.
    pub(crate) fn remove(&self) -> Result<(), StepError> {
        self.cell.remove()?;
        self.carrier.remove();
        if let Some(shared) = &self.shared {
            shared.lock.lock().step(|| "lock the group of all cells".to_owned())?;
            shared.places.leave_together();
            let _ = shared.lock.unlock();
        }
        Ok(())
    }
}

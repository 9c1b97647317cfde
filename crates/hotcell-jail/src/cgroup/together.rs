//! One group for several cells, which bounds what they use together.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::cell::{OWN_PIDS, make, set};
use super::{Controller, Hierarchies, Place, Version};
use crate::StepError;

/// What cells may use together; anything where nothing is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Together {
    /// Memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processes and threads of execs.
    pub pids: Option<u64>,
}

impl Hierarchies {
    /// The same places in a group of this name.
    #[must_use]
    pub fn within(&self, name: &str) -> Self {
        let inner =
            |place: &Place| Place { directory: place.directory.join(name), ..place.clone() };
        let controllers = self.controllers.iter();
        Self {
            controllers: controllers
                .map(|(controller, place)| (*controller, inner(place)))
                .collect(),
            unified: self.unified.as_ref().map(|base| base.join(name)),
            refused: self.refused.clone(),
        }
    }

    /// Makes the group whose places these are, for one more cell, with these bounds.
    ///
    /// # Errors
    /// It could not be made or bounded.
    pub fn bound_together(&self, bounds: &Together) -> Result<(), StepError> {
        for directory in
            self.unified.iter().chain(self.controllers.values().map(|it| &it.directory))
        {
            make(directory)?;
        }
        for (controller, place) in &self.controllers {
            let directory = &place.directory;
            if place.version == Version::V2 {
                set(directory, "cgroup.subtree_control", format!("+{}", controller.name()))?;
            }
            match (controller, place.version) {
                (Controller::Memory, Version::V2) => {
                    match bounds.memory_bytes {
                        None => set(directory, "memory.max", "max")?,
                        Some(most) if has_room(directory, most) => {
                            set(directory, "memory.max", most)?;
                        }
                        // The kernel would end processes of cells that are there.
                        Some(_) => {}
                    }
                    let swap = if bounds.memory_bytes.is_some() { "0" } else { "max" };
                    let _ = fs::write(directory.join("memory.swap.max"), swap);
                }
                (Controller::Memory, Version::V1) => {
                    let most = bounds.memory_bytes.map_or("-1".to_owned(), |it| it.to_string());
                    let with_swap = directory.join("memory.memsw.limit_in_bytes");
                    // Neither may be below the other on the way: up with this one first, down last.
                    let _ = fs::write(&with_swap, &most);
                    still_in_use(set(directory, "memory.limit_in_bytes", &most))?;
                    let _ = fs::write(&with_swap, &most);
                }
                (Controller::Pids, _) => {
                    let cells = fs::read_dir(directory).into_iter().flatten().flatten();
                    let cells = cells.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir()));
                    let own = u64::from(OWN_PIDS) * (cells.count() as u64 + 1);
                    let most = bounds.pids.map(|pids| pids.saturating_add(own));
                    set(directory, "pids.max", most.map_or("max".to_owned(), |it| it.to_string()))?;
                }
                (Controller::Cpu | Controller::Freezer, _) => {}
            }
        }
        Ok(())
    }

    /// Removes the group whose places these are, unless a cell has one in it.
    pub fn leave_together(&self) {
        for directory in
            self.unified.iter().chain(self.controllers.values().map(|it| &it.directory))
        {
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Whether what is in use is no more than this, once what can be had anew was given back.
fn has_room(directory: &Path, most: u64) -> bool {
    let too_much = || {
        let used = fs::read_to_string(directory.join("memory.current")).ok()?;
        used.trim().parse::<u64>().ok()?.checked_sub(most).filter(|more| *more > 0)
    };
    let Some(more) = too_much() else { return true };
    // Older kernels have no such file, and not all of it may come back.
    let _ = fs::write(directory.join("memory.reclaim"), more.to_string());
    too_much().is_none()
}

/// Cells that are there may use more than a bound that was lowered meanwhile; it holds from the next
/// start on.
fn still_in_use(done: Result<(), StepError>) -> Result<(), StepError> {
    match &done {
        Err(error) if error.source.kind() == io::ErrorKind::ResourceBusy => Ok(()),
        Ok(()) | Err(_) => done,
    }
}

#[cfg(test)]
#[path = "together_tests.rs"]
mod tests;

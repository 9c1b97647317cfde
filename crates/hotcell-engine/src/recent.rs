//! Remembers in which cell the latest execs of this process run, to spare a search.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use hotcell_model::{CellId, ExecId};

const REMEMBERED: usize = 4096;

/// The latest execs; older ones are found through the index.
#[derive(Debug, Default)]
pub(crate) struct RecentExecs {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    cells: HashMap<ExecId, CellId>,
    order: VecDeque<ExecId>,
}

impl RecentExecs {
    /// Remembers an exec.
    pub(crate) fn insert(&self, exec: &ExecId, cell: &CellId) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.cells.insert(exec.clone(), cell.clone()).is_some() {
            return;
        }
        known.order.push_back(exec.clone());
        if known.order.len() > REMEMBERED
            && let Some(oldest) = known.order.pop_front()
        {
            known.cells.remove(&oldest);
        }
    }

    /// The cell of an exec, if it is remembered.
    pub(crate) fn find_cell(&self, exec: &ExecId) -> Option<CellId> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).cells.get(exec).cloned()
    }
}

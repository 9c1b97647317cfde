//! The order in which execs that wait get their turn.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hotcell_model::{ExecId, Priority};

/// Execs that wait: higher priority first, then in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: BTreeMap<(Reverse<Priority>, u64), ExecId>,
    arrivals: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, exec: ExecId, priority: Priority) {
        self.waiting.insert((Reverse(priority), self.arrivals), exec);
        self.arrivals += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<ExecId> {
        self.waiting.pop_first().map(|(_, exec)| exec)
    }

    pub(crate) fn remove(&mut self, exec: &ExecId) {
        self.waiting.retain(|_, waiting| waiting != exec);
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

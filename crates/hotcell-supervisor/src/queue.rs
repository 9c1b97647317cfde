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

    /// Takes the first that is ready.
    pub(crate) fn pop(&mut self, is_ready: impl Fn(&ExecId) -> bool) -> Option<ExecId> {
        let place = *self.waiting.iter().find(|(_, exec)| is_ready(exec))?.0;
        self.waiting.remove(&place)
    }

    /// All, first things first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ExecId> {
        self.waiting.values()
    }

    pub(crate) fn remove(&mut self, exec: &ExecId) {
        self.waiting.retain(|_, waiting| waiting != exec);
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

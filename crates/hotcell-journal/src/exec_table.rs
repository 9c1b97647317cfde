//! What a journal says about each exec, entry by entry.

use std::collections::{BTreeSet, HashMap};

use hotcell_model::{CellId, CloseReason, EndCause, Exec, ExecEnd, ExecId, ExecState, Timestamp};

use crate::entry::Entry;

/// The execs of one cell, in the order in which they were queued.
#[derive(Debug, Clone)]
pub struct ExecTable {
    cell: CellId,
    execs: Vec<Exec>,
    places: HashMap<ExecId, usize>,
    /// Those without an end, so that a new supervisor need not look at all.
    open: BTreeSet<usize>,
    changed: BTreeSet<usize>,
    closed: Option<CloseReason>,
}

impl ExecTable {
    /// A table of a cell of which nothing is known yet.
    #[must_use]
    pub fn new(cell: CellId) -> Self {
        Self {
            cell,
            execs: Vec::new(),
            places: HashMap::new(),
            open: BTreeSet::new(),
            changed: BTreeSet::new(),
            closed: None,
        }
    }

    /// Adds an exec that is known from earlier; one that is there already stays as it is.
    pub fn insert_known(&mut self, exec: Exec) {
        self.insert(exec);
    }

    /// Takes in the next entry of the journal. Entries about execs that are not known are ignored,
    /// and so is whatever was taken in before.
    pub fn apply(&mut self, entry: &Entry) {
        self.closed = None;
        match entry {
            Entry::Opened { at, .. } => self.mark_lost(*at),
            Entry::Queued { exec, command, pty, as_root, keep_s, at } => {
                let place = self.insert(Exec {
                    id: exec.clone(),
                    cell: self.cell.clone(),
                    state: ExecState::Queued,
                    command: command.clone(),
                    pty: *pty,
                    as_root: *as_root,
                    queued_at: *at,
                    started_at: None,
                    pid: None,
                    keep_s: *keep_s,
                    approval: None,
                    checkpoint: None,
                    end: None,
                });
                self.changed.insert(place);
            }
            Entry::Awaited { exec, approval, .. } => {
                self.change(exec, |known| known.approval = Some(Box::new(approval.clone())));
            }
            Entry::Answered { exec, answer } => self.change(exec, |known| {
                if let Some(approval) = &mut known.approval {
                    approval.answer = Some(answer.clone());
                }
            }),
            Entry::Kept { exec, checkpoint, .. } => {
                self.change(exec, |known| known.checkpoint = Some(checkpoint.clone()));
            }
            Entry::Started { exec, pid, at } => self.change(exec, |known| {
                known.started_at = Some(*at);
                known.pid = *pid;
                if known.end.is_none() {
                    known.state = ExecState::Running;
                }
            }),
            Entry::Ended { exec, end } => {
                let Some(&place) = self.places.get(exec) else { return };
                self.end(place, end.clone());
            }
            Entry::Closed { reason, .. } => self.closed = Some(*reason),
        }
    }

    /// Every exec, in the order in which they were queued.
    pub fn execs(&self) -> impl Iterator<Item = &Exec> {
        self.execs.iter()
    }

    /// One exec.
    #[must_use]
    pub fn get(&self, id: &ExecId) -> Option<&Exec> {
        self.places.get(id).map(|&place| &self.execs[place])
    }

    /// The execs that entries, or [`ExecTable::mark_lost`], said something about.
    #[must_use]
    pub fn changed(&self) -> Vec<Exec> {
        self.changed.iter().map(|&place| self.execs[place].clone()).collect()
    }

    /// Why the supervisor ended by itself, if its end is the last entry.
    #[must_use]
    pub fn closed(&self) -> Option<CloseReason> {
        self.closed
    }

    /// Ends everything that has no end as lost.
    pub fn mark_lost(&mut self, at: Timestamp) {
        for place in std::mem::take(&mut self.open) {
            self.end(place, ExecEnd::without_process(EndCause::Lost, at));
        }
    }

    fn change(&mut self, exec: &ExecId, change: impl FnOnce(&mut Exec)) {
        let Some(&place) = self.places.get(exec) else { return };
        change(&mut self.execs[place]);
        self.changed.insert(place);
    }

    fn insert(&mut self, exec: Exec) -> usize {
        if let Some(&place) = self.places.get(&exec.id) {
            return place;
        }
        let place = self.execs.len();
        if exec.end.is_none() {
            self.open.insert(place);
        }
        self.places.insert(exec.id.clone(), place);
        self.execs.push(exec);
        place
    }

    /// `lost` is what is said for want of knowledge: any other end takes its place.
    fn end(&mut self, place: usize, end: ExecEnd) {
        let known = &mut self.execs[place];
        if known.end.as_ref().is_none_or(|old| old.cause == EndCause::Lost) {
            known.state = ExecState::Ended;
            known.end = Some(end);
            self.open.remove(&place);
            self.changed.insert(place);
        }
    }
}

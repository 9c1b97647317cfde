//! What a cell has written, measured now and then, and what follows from it.

use std::path::Path;
use std::time::{Duration, Instant};

use hotcell_link::DiskState;
use hotcell_model::{LimitHit, Limits};

use crate::disk_pace::Walked;
use crate::disk_use::Used;

/// So long after the supervisor said that something runs it is taken to run still.
const ACTIVE: Duration = Duration::from_millis(1500);
/// How long it is waited where the file system cannot be looked at.
const UNSEEN: Duration = Duration::from_secs(10);

/// When what a cell has written is measured, and how that compares to its limits.
#[derive(Debug)]
pub struct DiskMeter {
    limit: Used,
    used: Used,
    walked: Option<Walked>,
    /// What the file system held when it was last looked at, and when that was.
    looked: Option<(Instant, Used)>,
    /// Whether something may have been written since the last walk, and not to be walked before.
    wanted: Option<Instant>,
    active_until: Instant,
}

impl DiskMeter {
    /// For a cell with these limits, of which nothing is known yet.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            limit: Used { bytes: limits.disk_mb << 20, files: limits.disk_files },
            used: Used::default(),
            walked: None,
            looked: None,
            wanted: None,
            active_until: Instant::now(),
        }
    }

    /// Takes note that something runs.
    pub fn note_activity(&mut self) {
        let now = Instant::now();
        self.active_until = now + ACTIVE;
        self.wanted.get_or_insert(now);
    }

    /// Takes note that what the cell is made of has changed.
    pub fn note_change(&mut self, walk_after: Duration) {
        self.wanted = Some(Instant::now() + walk_after);
    }

    /// When to call [`DiskMeter::look`] next, if at all.
    #[must_use]
    pub fn next_look(&self) -> Option<Instant> {
        let wanted = self.wanted?;
        let (Some(walked), Some((looked_at, held))) = (&self.walked, self.looked) else {
            return Some(wanted);
        };
        let walk = walked.next(held).max(wanted);
        let look = looked_at + walked.until_look();
        Some(if look < self.active_until { walk.min(look) } else { walk })
    }

    /// Looks at the file system, and walks through the cell's files if it is time for that. Over a
    /// limit, whatever makes it worse must end; what tidies up may go on.
    pub fn look(
        &mut self,
        file_system: &Path,
        walk: impl FnOnce() -> Option<Used>,
    ) -> Option<DiskState> {
        let wanted = self.wanted?;
        let now = Instant::now();
        let Ok(held) = Used::of_file_system(file_system) else {
            self.look_again_at(now + UNSEEN);
            return None;
        };
        self.looked = Some((now, held));
        let walk_at = self.walked.as_ref().map_or(wanted, |walked| walked.next(held).max(wanted));
        if now < walk_at {
            return None;
        }
        let before = self.used;
        let used = walk();
        let ended = Instant::now();
        // What cannot be measured now is tried again at the usual pace.
        let room = used.map_or(self.limit, |used| self.limit.beyond(used));
        self.walked = Some(Walked { at: ended, took: ended - now, room, held });
        // While something runs what is written meanwhile is wanted as well.
        self.wanted = (ended < self.active_until).then_some(ended);
        self.used = used?;
        Some(self.state(before))
    }

    /// Waits until then, whatever would have come sooner.
    fn look_again_at(&mut self, at: Instant) {
        self.wanted = Some(at);
        if let Some((looked_at, _)) = &mut self.looked {
            *looked_at = at;
        }
    }

    fn state(&self, before: Used) -> DiskState {
        let (used, limit) = (self.used, self.limit);
        // Whether what cannot be seen grows nobody knows.
        let over = if used.bytes > limit.bytes {
            Some((LimitHit::Disk, used.bytes > before.bytes || used.is_unmeasured()))
        } else if used.files > limit.files {
            Some((LimitHit::DiskFiles, used.files > before.files))
        } else {
            None
        };
        DiskState {
            used_bytes: if used.is_unmeasured() { limit.bytes + 1 } else { used.bytes },
            used_files: used.files,
            over: over.map(|(limit, _)| limit),
            end_execs: over.is_some_and(|(_, grew)| grew),
        }
    }

    /// Whether the cell had more than it may when it was last measured.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.used.beyond(self.limit) != Used::default()
    }
}

#[cfg(test)]
#[path = "disk_meter_tests.rs"]
mod tests;

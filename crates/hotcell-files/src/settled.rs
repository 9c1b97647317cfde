//! When the state of a file may be told: once any further change is sure to look different.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, Stat, fstat, openat};
use rustix::time::{ClockId, clock_gettime};

use crate::tree::Tree;

/// No tick of the kernel's clock is longer than this.
const LONGEST_TICK: Duration = Duration::from_millis(20);
/// What a file system that keeps whole seconds may take to show a change.
const WHOLE_SECOND: Duration = Duration::from_millis(1020);
const FUTURE_SECONDS: i64 = 2;
const PAUSE: Duration = Duration::from_micros(500);
/// So many changes at once within a tick, each with a time of its own, are no chance.
const TRIALS: u32 = 4;

/// What is known of the file systems of a cell: whether each change has a time of its own as soon
/// as the one before it was looked at, which newer kernels see to.
#[derive(Debug, Default)]
pub(crate) struct Ticks {
    fine: Mutex<HashMap<u64, bool>>,
}

impl Ticks {
    /// Looks at a file until a change after that is sure to look different. Mostly it is at once.
    pub(crate) fn settle(
        &self,
        tree: &Tree,
        mut look: impl FnMut() -> rustix::io::Result<Stat>,
    ) -> rustix::io::Result<Stat> {
        let mut waited = Duration::ZERO;
        loop {
            let seen = look()?;
            let longest = if is_whole_second(&seen) { WHOLE_SECOND } else { LONGEST_TICK };
            if is_settled(&seen) || waited >= longest || self.is_fine(tree, seen.st_dev) {
                return Ok(seen);
            }
            std::thread::sleep(PAUSE);
            waited += PAUSE;
        }
    }

    fn is_fine(&self, tree: &Tree, device: u64) -> bool {
        let mut fine = self.fine.lock().unwrap_or_else(PoisonError::into_inner);
        *fine.entry(device).or_insert_with(|| try_out(tree, device).unwrap_or(false))
    }
}

/// Changes a file of no name a few times and looks at it in between.
fn try_out(tree: &Tree, device: u64) -> rustix::io::Result<bool> {
    for (_, root) in tree.writable_roots() {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let Ok(file) = openat(&root, ".", flags, Mode::from_raw_mode(0o600)) else { continue };
        let mut before = fstat(&file)?;
        if before.st_dev != device {
            continue;
        }
        for _ in 0..TRIALS {
            rustix::io::write(&file, b"x")?;
            let after = fstat(&file)?;
            if changed(&after) == changed(&before) {
                return Ok(false);
            }
            before = after;
        }
        return Ok(true);
    }
    Ok(false)
}

/// Whether a change after this state is sure to look different on any kernel: the tick of its last
/// change is over, or a write of ours has set its time of change to one between ticks.
fn is_settled(stat: &Stat) -> bool {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    let nanoseconds = if is_whole_second(stat) { 0 } else { now.tv_nsec };
    // A clock that was set back does not come to a time in the future that soon.
    let is_to_come = changed(stat).0 > now.tv_sec.saturating_add(FUTURE_SECONDS);
    let is_over = changed(stat) < (now.tv_sec, nanoseconds);
    is_over || is_to_come || modified(stat) > changed(stat)
}

fn is_whole_second(stat: &Stat) -> bool {
    changed(stat).1 == 0 && modified(stat).1 == 0
}

fn changed(stat: &Stat) -> (i64, i64) {
    (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or_default())
}

fn modified(stat: &Stat) -> (i64, i64) {
    (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or_default())
}

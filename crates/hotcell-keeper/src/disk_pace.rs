//! When to look again at what a cell has written.
//!
//! To walk through all its files costs time; to ask the file system how full it is costs nothing.
//! What a cell has written since the last walk is never more than what the file system took on
//! since then, unless somebody else made room meanwhile: so there is a walk now and then all the same.

use std::time::{Duration, Instant};

use crate::disk_use::Used;

/// No cell writes faster than this in one second.
const FASTEST: Used = Used { bytes: 2 << 30, files: 400_000 };
/// The time between two looks at the file system, at least and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// The time between two walks, at least.
const WALKS: Duration = Duration::from_secs(1);
/// Walking takes at most this part of the keeper's time.
const SHARE: u32 = 10;
/// The same for a cell that may be near its limit.
const SHARE_NEAR: u32 = 4;
/// One that takes longer is as if it took so long.
const LONGEST_WALK: Duration = Duration::from_secs(6);

/// How the last walk came out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walked {
    /// When it was over.
    pub(crate) at: Instant,
    /// How long it took.
    pub(crate) took: Duration,
    /// What was left of the cell's limits.
    pub(crate) room: Used,
    /// What the whole file system held when it began.
    pub(crate) held: Used,
}

impl Walked {
    /// When to walk again, if the file system holds so much now.
    pub(crate) fn next(&self, held: Used) -> Instant {
        let took = self.took.min(LONGEST_WALK);
        let pause = if self.may_be_near(held) {
            (took * SHARE_NEAR).max(LOOKS.0)
        } else {
            (took * SHARE).max(WALKS)
        };
        self.at + pause
    }

    /// Whether the cell may have used up half of what was left.
    fn may_be_near(&self, held: Used) -> bool {
        let grown = held.beyond(self.held);
        let is_half = |grown: u64, room: u64| grown > 0 && grown >= room / 2;
        is_half(grown.bytes, self.room.bytes) || is_half(grown.files, self.room.files)
    }

    /// How long the cell cannot use up what was left.
    pub(crate) fn until_look(&self) -> Duration {
        let millis = |room: u64, fastest: u64| room.saturating_mul(1000) / fastest;
        let bytes = millis(self.room.bytes, FASTEST.bytes);
        let files = millis(self.room.files, FASTEST.files);
        Duration::from_millis(bytes.min(files)).clamp(LOOKS.0, LOOKS.1)
    }
}

//! How many lookups are answered in a time: what a cell asks costs the host's time.

use std::time::Duration;

use tokio::time::Instant;

const WINDOW: Duration = Duration::from_millis(100);
const LOOKUPS: u32 = 200;

/// Counts lookups in a window.
#[derive(Debug)]
pub(crate) struct LookupPace {
    begun: Instant,
    count: u32,
}

impl LookupPace {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), count: 0 }
    }

    /// Whether one more may be answered now.
    pub(crate) fn has_room(&self) -> bool {
        self.count < LOOKUPS || self.begun.elapsed() >= WINDOW
    }

    /// When there is room again.
    pub(crate) fn next(&self) -> Instant {
        self.begun + WINDOW
    }

    /// Counts one.
    pub(crate) fn count(&mut self) {
        if self.begun.elapsed() >= WINDOW {
            *self = Self::new();
        }
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_some_and_again_later() {
        let mut pace = LookupPace::new();
        for _ in 0..LOOKUPS {
            assert!(pace.has_room());
            pace.count();
        }
        // A slow machine is in the next window already.
        assert!(!pace.has_room() || pace.begun.elapsed() >= WINDOW);
        pace.begun -= WINDOW;
        assert!(pace.has_room());
        pace.count();
        assert_eq!(pace.count, 1);
    }
}

//! Waiting for something to become true, with a deadline against hangs alone.

use std::time::{Duration, Instant};

/// Far beyond what anything takes on a machine that is busy.
pub(super) const DEADLINE: Duration = Duration::from_secs(120);

const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Waits until something is true; panics when the deadline is over.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    eventually_some(what, || is_true().then_some(()));
}

/// Waits until there is something; panics when the deadline is over.
#[track_caller]
pub(crate) fn eventually_some<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    some_within(DEADLINE, what, &mut find)
}

/// The same with another deadline.
#[track_caller]
pub(super) fn some_within<T>(
    deadline: Duration,
    what: &str,
    find: &mut dyn FnMut() -> Option<T>,
) -> T {
    let until = Instant::now() + deadline;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < until, "it never came true: {what}");
        std::thread::sleep(LOOK_AGAIN);
    }
}

//! Counts the work of judging, for tests that it grows no faster than the text.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// So much was looked at.
#[cfg(test)]
pub(crate) fn count(steps: usize) {
    STEPS.with(|all| all.set(all.get() + steps));
}

/// So much was looked at.
#[cfg(not(test))]
pub(crate) fn count(_: usize) {}

/// How much a piece of work looks at.
#[cfg(test)]
pub(crate) fn counted(work: impl FnOnce()) -> usize {
    STEPS.with(|all| all.set(0));
    work();
    STEPS.with(std::cell::Cell::get)
}

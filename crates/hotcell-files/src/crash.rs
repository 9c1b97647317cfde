//! Lets a test's process seem to die in the middle of a change.

use std::cell::Cell;

use hotcell_model::{Error, Result};

thread_local! {
    static NEXT: Cell<Option<usize>> = const { Cell::new(None) };
    static IS_GONE: Cell<bool> = const { Cell::new(false) };
}

/// After how many steps the changes of a log stop, as if the process were gone.
#[derive(Debug)]
pub(crate) struct Crash {
    left: Option<usize>,
}

impl Crash {
    /// Lets the next log of this thread stop after so many steps.
    pub(crate) fn after(steps: usize) {
        NEXT.set(Some(steps));
        IS_GONE.set(false);
    }

    pub(crate) fn take() -> Self {
        Self { left: NEXT.take() }
    }

    /// One step more, unless the process is gone.
    pub(crate) fn step(&mut self) -> Result<()> {
        self.require_alive()?;
        self.left = self.left.map(|left| left - 1);
        self.require_alive()
    }

    /// Nothing is undone by a process that is gone.
    pub(crate) fn require_alive(&self) -> Result<()> {
        if self.left != Some(0) {
            return Ok(());
        }
        IS_GONE.set(true);
        Err(Error::internal("the process is gone"))
    }

    /// Whether a log of this thread has stopped; nothing is tidied up then either.
    pub(crate) fn is_gone() -> bool {
        IS_GONE.get()
    }

    /// Lets another process begin; whether the one before it was gone.
    pub(crate) fn restart() -> bool {
        NEXT.set(None);
        IS_GONE.replace(false)
    }
}

//! Holding a cell still while its layers are exchanged.

use std::time::Duration;

use hotcell_link::Tell;
use hotcell_model::{CloseReason, Error, Result};

use crate::cell::Supervisor;
use crate::input::Asker;

/// A pause that somebody asked for.
#[derive(Debug)]
pub(crate) struct Pause {
    /// The connection whose end would leave the cell in the dark.
    connection: u64,
    /// Who waits for everything to be still.
    asker: Option<Asker>,
}

impl Supervisor {
    /// Begins a pause; its asker is answered once everything is still.
    pub(crate) fn pause(&mut self, asker: Asker) -> Result<()> {
        if self.pause.is_some() {
            return Err(Error::conflict("the cell is being held still for another caller")
                .hint("try again in a moment"));
        }
        let live = self.running.len() + self.queue.len();
        if live > 0 {
            return Err(Error::conflict(format!("{live} execs have not ended in the cell"))
                .hint("wait for them or cancel them"));
        }
        self.pause = Some(Pause { connection: asker.0, asker: Some(asker) });
        self.settle_pause();
        Ok(())
    }

    /// Answers a pause as soon as everything is still.
    pub(crate) fn settle_pause(&mut self) {
        if self.pause.as_ref().is_none_or(|pause| pause.asker.is_none()) {
            return;
        }
        if self.files.is_idle() {
            self.dismiss_files_now();
        }
        if self.files.is_gone()
            && let Some(asker) = self.pause.as_mut().and_then(|pause| pause.asker.take())
        {
            self.tell(asker, &Tell::Done);
        }
    }

    /// Ends a pause, and begins what has come meanwhile.
    pub(crate) fn resume(&mut self) {
        if self.pause.take().is_some() {
            self.ask_waiting_files();
            self.start_waiting();
        }
    }

    /// A connection is gone. If it held the cell still nobody knows how far it came.
    pub(crate) fn end_pause_of(&mut self, connection: u64) {
        if self.pause.as_ref().is_some_and(|pause| pause.connection == connection) {
            self.pause = None;
            self.close(CloseReason::Asleep, None, Duration::ZERO);
        }
    }
}

//! Holding a cell still while its files are looked at, or its layers exchanged.

use std::time::Duration;

use hotcell_link::{Root, Stillness, Tell};
use hotcell_model::{CloseReason, Error, Result};

use crate::cell::Supervisor;
use crate::input::Asker;

/// A pause that somebody asked for.
#[derive(Debug)]
pub(crate) struct Pause {
    connection: u64,
    stillness: Stillness,
    /// Who waits for everything to be still.
    asker: Option<Asker>,
}

impl Supervisor {
    /// Begins a pause; its asker is answered once everything is still.
    pub(crate) fn pause(&mut self, asker: Asker, stillness: Stillness) -> Result<()> {
        if let Root::Host(_) = &self.plan.root {
            return Err(Error::unsupported(
                "a cell of level process has no layers, so no checkpoints or forks either",
            )
            .hint("let the machine make user namespaces, see `hotcell doctor`"));
        }
        if self.pause.is_some() {
            return Err(Error::unavailable("the cell is being held still for another caller")
                .hint("try again in a moment"));
        }
        let live = self.running.len() + self.queue.len();
        let stillness = match stillness {
            Stillness::Empty | Stillness::Vacant if live > 0 => {
                return Err(self
                    .busy()
                    .hint("wait for them, or cancel them with `hotcell cancel`"));
            }
            Stillness::Vacant if self.sessions.are_some() => {
                return Err(Error::conflict("the cell has sessions of code")
                    .hint("wait until they end, or hold them still"));
            }
            Stillness::Frozen => {
                self.freeze_all()?;
                Stillness::Frozen
            }
            Stillness::Empty | Stillness::Vacant => {
                self.dismiss_warm();
                self.dismiss_sessions();
                self.launcher.leave_root();
                Stillness::Empty
            }
        };
        self.pause = Some(Pause { connection: asker.0, stillness, asker: Some(asker) });
        self.settle_pause();
        Ok(())
    }

    fn freeze_all(&mut self) -> Result<()> {
        for number in self.running.clone() {
            if self.running_mut(number).is_some_and(|running| !running.family.freeze()) {
                return Err(self.cannot_freeze());
            }
        }
        if !self.sessions.freeze() {
            return Err(self.cannot_freeze());
        }
        Ok(())
    }

    fn cannot_freeze(&mut self) -> Error {
        self.thaw_all();
        Error::unavailable("a process of the cell cannot be held still")
            .hint("try again, or when nothing runs")
    }

    fn thaw_all(&mut self) {
        self.sessions.thaw();
        for number in self.running.clone() {
            if let Some(running) = self.running_mut(number) {
                running.family.thaw();
            }
        }
    }

    /// Whether somebody may be exchanging the cell's layers.
    pub(crate) fn is_root_changing(&self) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.stillness == Stillness::Empty)
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
            && ((self.warm.is_gone() && self.sessions.are_gone()) || !self.is_root_changing())
            && let Some(asker) = self.pause.as_mut().and_then(|pause| pause.asker.take())
        {
            self.tell(asker, &Tell::Done);
        }
    }

    /// Ends a pause that this connection asked for, and begins what has come meanwhile.
    pub(crate) fn resume(&mut self, connection: u64) {
        if let Some(pause) = self.pause.take_if(|pause| pause.connection == connection) {
            if pause.stillness == Stillness::Frozen {
                self.thaw_all();
            }
            self.ask_waiting_files();
            self.start_waiting();
        }
    }

    /// A connection is gone. If it was exchanging layers nobody knows how far it came.
    pub(crate) fn end_pause_of(&mut self, connection: u64) {
        match self.pause.as_ref().filter(|pause| pause.connection == connection) {
            Some(Pause { stillness: Stillness::Empty | Stillness::Vacant, .. }) => {
                self.pause = None;
                self.close(CloseReason::Asleep, None, Duration::ZERO);
            }
            Some(Pause { stillness: Stillness::Frozen, .. }) => self.resume(connection),
            None => {}
        }
    }
}

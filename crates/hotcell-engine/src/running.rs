//! How many execs this process has running, where that is bounded.
//!
//! An exec goes on whoever waits for it, so its end may be seen by nobody here: what is counted is
//! looked at again when there seems to be no room.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hotcell_model::{CellId, Error, ErrorCode, ExecId, ExecState, Result};

use crate::admission::LOOK_AGAIN;
use crate::site::Site;

/// How many execs a refusal names.
const NAMED: usize = 3;

/// The execs that this process has begun and not seen the end of; empty where nothing is bounded.
#[derive(Debug, Default)]
pub(crate) struct RunningExecs {
    /// The cell, once it is known where the exec runs.
    known: Mutex<HashMap<ExecId, Option<CellId>>>,
    looked_at: tokio::sync::Mutex<Option<Instant>>,
}

/// Room for one exec, given back if the exec does not begin.
#[derive(Debug)]
pub(crate) struct ExecRoom<'a> {
    running: &'a RunningExecs,
    exec: Option<ExecId>,
}

impl ExecRoom<'_> {
    /// The exec has begun in this cell, and takes the room until its end.
    pub(crate) fn began(mut self, cell: &CellId) {
        if let Some(exec) = self.exec.take() {
            self.running.known().insert(exec, Some(cell.clone()));
        }
    }
}

impl Drop for ExecRoom<'_> {
    fn drop(&mut self) {
        if let Some(exec) = &self.exec {
            self.running.known().remove(exec);
        }
    }
}

impl RunningExecs {
    fn known(&self) -> MutexGuard<'_, HashMap<ExecId, Option<CellId>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note that an exec has ended.
    pub(crate) fn forget(&self, exec: &ExecId) {
        self.known().remove(exec);
    }

    fn find_room(&self, exec: &ExecId, most: u32) -> Option<ExecRoom<'_>> {
        let mut known = self.known();
        if known.contains_key(exec) {
            // One that is asked for again has its room already, and keeps it.
            return Some(ExecRoom { running: self, exec: None });
        }
        if known.len() >= most as usize {
            return None;
        }
        known.insert(exec.clone(), None);
        Some(ExecRoom { running: self, exec: Some(exec.clone()) })
    }

    fn refusal(&self, most: u32) -> Error {
        let known = self.known();
        let mut named: Vec<String> = known.keys().take(NAMED).map(ToString::to_string).collect();
        named.sort();
        Error::limit_exceeded(format!(
            "{} execs of this server have not ended, and {most} may be there at once",
            known.len()
        ))
        .hint(format!(
            "wait for one to end, cancel one ({}), or let the operator raise admission.execs",
            named.join(", ")
        ))
    }
}

impl Site {
    /// Waits until one more exec may begin, or refuses it; nothing where that is not bounded.
    pub(crate) async fn admit_exec(&self, exec: &ExecId) -> Result<Option<ExecRoom<'_>>> {
        let Some(most) = self.settings.admission.execs else { return Ok(None) };
        let until = Instant::now() + self.settings.admission.wait;
        loop {
            if let Some(room) = self.running.find_room(exec, most) {
                return Ok(Some(room));
            }
            self.forget_ended().await;
            if let Some(room) = self.running.find_room(exec, most) {
                return Ok(Some(room));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.running.refusal(most));
            }
            tokio::time::sleep(LOOK_AGAIN.min(left)).await;
        }
    }

    /// Looks which of the execs have ended meanwhile; one looks for all who wait.
    async fn forget_ended(&self) {
        let asked_at = Instant::now();
        let mut looked_at = self.running.looked_at.lock().await;
        if looked_at.is_some_and(|at| at >= asked_at) {
            return;
        }
        let known: Vec<_> = self.running.known().clone().into_iter().collect();
        for (exec, cell) in known {
            let Some(cell) = cell else { continue };
            let has_ended = match self.get_exec_in(&cell, &exec).await {
                Ok(exec) => exec.state == ExecState::Ended,
                Err(error) => error.code == ErrorCode::NotFound,
            };
            if has_ended {
                self.running.forget(&exec);
            }
        }
        *looked_at = Some(Instant::now());
    }
}

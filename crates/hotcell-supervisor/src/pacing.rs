//! Execs that wait for a follower, the way a command waits for the reader of its pipe.

use hotcell_link::Tell;
use hotcell_model::{ExecId, Result};

use crate::cell::Supervisor;
use crate::event_loop::Slot;
use crate::exec::State;
use crate::output::fair_share;

/// The most that one record holds.
const MAX_RECORD_BYTES: u64 = 16 * 1024;

/// Records by which a follower may be behind at most: 16 MiB.
const FAR_BEHIND: u64 = 1024;

/// Records by which a follower may be behind so that what it has not read is still kept: of a log,
/// the last seven of sixteen parts are, less what is read at once before anybody looks again.
fn far_behind(output_bytes: u64) -> u64 {
    let kept = output_bytes / 16 * 7;
    (kept.saturating_sub(fair_share(output_bytes)) / MAX_RECORD_BYTES).clamp(1, FAR_BEHIND)
}

impl Supervisor {
    /// Lets an exec wait whenever a connection's followers of it fall behind.
    pub(crate) fn pace(&mut self, connection: u64, exec: ExecId) -> Result<Tell> {
        self.number(&exec)?;
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.awaited.remove(&exec);
            connection.paces.insert(exec);
        }
        Ok(Tell::Done)
    }

    /// Lets an exec wait from its start on for a connection that is going to follow it.
    pub(crate) fn await_follower(&mut self, connection: u64, exec: &ExecId) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.awaited.insert(exec.clone());
        }
    }

    /// Whether somebody for whom an exec waits is far behind.
    pub(crate) fn is_outpaced(&self, number: u32) -> bool {
        self.is_behind(number, far_behind)
    }

    /// Whether one is behind by more records than may be, of an exec that keeps this much.
    fn is_behind(&self, number: u32, may_be: fn(u64) -> u64) -> bool {
        let Some(exec) = self.execs.get(&number) else { return false };
        let records = may_be(exec.output_bytes);
        let mut awaiting = self.connections.values().filter(|c| c.awaited.contains(&exec.id));
        if exec.last_seq > records && awaiting.next().is_some() {
            return true;
        }
        let pacing = self.connections.values().filter(|c| c.paces.contains(&exec.id));
        let mut followers = pacing.flat_map(|connection| connection.followers.values());
        followers.any(|follower| {
            follower.exec == exec.id && exec.last_seq.saturating_sub(follower.position()) > records
        })
    }

    /// Leaves an exec's output in its pipes.
    pub(crate) fn hold_back(&mut self, number: u32) {
        self.set_held_back(number, true);
        self.held_back.insert(number);
    }

    /// Goes on reading from those whose followers have caught up or are gone.
    pub(crate) fn release_held_back(&mut self) {
        for number in self.held_back.clone() {
            if !self.is_behind(number, |bytes| far_behind(bytes) / 2) {
                self.held_back.remove(&number);
                self.set_held_back(number, false);
                self.step(number);
            }
        }
    }

    fn set_held_back(&mut self, number: u32, held_back: bool) {
        let Some(exec) = self.execs.get_mut(&number) else { return };
        let State::Running(running) = &mut exec.state else { return };
        running.held_back = held_back;
        for (slot, output) in [Slot::First, Slot::Second].into_iter().zip(&running.outputs) {
            if let Some(output) = output {
                self.poller.set_readable(output.fd(), slot.token(number), !held_back);
            }
        }
    }
}

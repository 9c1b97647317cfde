//! Programs of the cell that call tools: to which exec each belongs, and who carries what it says.
//!
//! Anybody in the cell can connect, as often and for as long as it likes. So there are bounds on how
//! many are looked at in one round, wait and are carried, for each exec and for all of them: what one
//! does leaves room for the others.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use hotcell_jail::{connected_by, has_ended, proctree};
use hotcell_link::{DataHead, FrameKind, Tell, data_cost};
use hotcell_model::{Error, Result};
use rustix::process::Pid;

use crate::cell::Supervisor;
use crate::clock::Moment;
use crate::event_loop::CALLERS;
use crate::exec::State;
use crate::family::Main;
use crate::input::Asker;

/// Programs that are looked at in one round of the loop: finding out whose each is takes a while.
const MOST_AT_ONCE: usize = 8;
/// Programs that wait to be carried, at once: those of one exec, and all.
const MOST_WAITING: Most = Most { of_one: 128, of_all: 384 };
/// Programs that are carried, at once; the rest of the connections is for ports of the cell.
const MOST_CARRIED: Most = Most { of_one: 48, of_all: 144 };
/// How long one waits for whoever started its exec to take any program at all.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
/// Channels on which one connection waits for programs, at once.
const MOST_ACCEPTS: usize = 8;

struct Most {
    of_one: usize,
    of_all: usize,
}

impl Most {
    /// Whether there may be one more for an exec, by the execs of those that are there.
    fn allows(&self, exec: u32, present: impl Iterator<Item = u32>) -> bool {
        let (of_one, of_all) =
            present.fold((0, 0), |(one, all), of| (one + usize::from(of == exec), all + 1));
        of_one < self.of_one && of_all < self.of_all
    }
}

/// Where programs connect, and those that nobody carries yet.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    listener: Option<UnixListener>,
    waiting: VecDeque<Caller>,
}

#[derive(Debug)]
struct Caller {
    socket: OwnedFd,
    exec: u32,
    /// When it is turned away; `None` once it is known that somebody takes programs of its exec.
    until: Option<Moment>,
}

impl Callers {
    /// When one has waited for too long.
    pub(crate) fn next_moment(&self) -> Option<Moment> {
        self.waiting.iter().filter_map(|caller| caller.until).min()
    }

    fn has_room(&self, exec: u32) -> bool {
        MOST_WAITING.allows(exec, self.waiting.iter().map(|caller| caller.exec))
    }
}

impl Supervisor {
    /// Takes programs from here on.
    pub(crate) fn listen_to_callers(&mut self, listener: UnixListener) {
        self.poller.add(listener.as_fd(), CALLERS);
        self.callers.listener = Some(listener);
    }

    /// Takes some of those that connected. One that belongs to no exec that runs is turned away, and
    /// so is one too many: it sees the end of the connection.
    pub(crate) fn take_callers(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            let accepted = self.callers.listener.as_ref().map(UnixListener::accept);
            let Some(Ok((stream, _))) = accepted else { break };
            if let Some(exec) = self.exec_of(&stream)
                && self.callers.has_room(exec)
                && stream.set_nonblocking(true).is_ok()
            {
                let (socket, until) = (stream.into(), Some(Moment::now().after(TAKEN_WITHIN)));
                self.callers.waiting.push_back(Caller { socket, exec, until });
            }
        }
        self.match_callers();
    }

    /// The exec that whoever connected belongs to, by the kernel's word. It must be there still, or
    /// its number could be another's by now.
    fn exec_of(&self, stream: &UnixStream) -> Option<u32> {
        let (pid, process) = connected_by(stream.as_fd()).ok()?;
        let exec = self.exec_with(pid)?;
        (!has_ended(process.as_fd())).then_some(exec)
    }

    fn exec_with(&self, pid: Pid) -> Option<u32> {
        let mut reaped = Vec::new();
        for number in &self.running {
            let state = self.execs.get(number).map(|exec| &exec.state);
            let Some(State::Running(running)) = state else { continue };
            match (&running.family.main, &running.family.cgroup) {
                (Main::Reaped { reaper, .. }, _) => reaped.push((*number, *reaper)),
                (Main::Child(_), Some(group)) if group.has(pid) => return Some(*number),
                (Main::Child(_), Some(_) | None) => {}
            }
        }
        if reaped.is_empty() {
            return None;
        }
        let above = proctree::ancestors(pid).ok()?;
        reaped.into_iter().find(|(_, reaper)| above.contains(reaper)).map(|(number, _)| number)
    }

    /// Lets a connection take the next program of an exec that it started.
    pub(crate) fn accept_caller(&mut self, asker: Asker, window: u32) -> Result<()> {
        let Some(connection) = self.connections.get_mut(&asker.0) else { return Ok(()) };
        if connection.accepts.len() >= MOST_ACCEPTS {
            return Err(Error::limit_exceeded(format!(
                "a connection waits for programs on {MOST_ACCEPTS} channels, which is the most"
            )));
        }
        connection.accepts.push_back((asker.1, window));
        connection.takes_callers = true;
        self.match_callers();
        Ok(())
    }

    /// Hands programs over to those who wait for them, in the order in which they came. Those that
    /// nobody can take any more are turned away.
    pub(crate) fn match_callers(&mut self) {
        for mut caller in std::mem::take(&mut self.callers.waiting) {
            let Some(exec) = self.execs.get(&caller.exec) else { continue };
            let (starter, line) = (exec.starter, format!("{}\n", exec.id));
            let Some(connection) = self.connections.get_mut(&starter) else { continue };
            if connection.takes_callers {
                caller.until = None;
            }
            let has_room = MOST_CARRIED.allows(caller.exec, self.ports.callers());
            let accept = if has_room { connection.accepts.pop_front() } else { None };
            let Some((channel, window)) = accept else {
                self.callers.waiting.push_back(caller);
                continue;
            };
            let (kind, head) = (FrameKind::Data, DataHead { last: false });
            connection.peer.send(FrameKind::Tell, channel, &Tell::Done);
            connection.peer.send_with_blob(kind, channel, &head, line.as_bytes());
            let left = window.saturating_sub(data_cost(line.len()));
            self.carry_caller((starter, channel), caller.exec, caller.socket, left);
        }
    }

    /// Turns those away that waited for too long.
    pub(crate) fn give_up_callers(&mut self, now: Moment) {
        if self.callers.next_moment().is_some_and(|until| until <= now) {
            self.callers.waiting.retain(|caller| caller.until.is_none_or(|until| until > now));
        }
    }

    /// Ends what programs of an exec that has ended had open: whoever got hold of it since speaks for
    /// another exec.
    pub(crate) fn end_callers_of(&mut self, exec: u32) {
        self.callers.waiting.retain(|caller| caller.exec != exec);
        self.end_ports_of_exec(exec);
    }
}

#[cfg(test)]
#[path = "callers_tests.rs"]
mod tests;

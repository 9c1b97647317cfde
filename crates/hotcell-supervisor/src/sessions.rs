//! Sessions of code: processes that ran code and wait for more, their variables in them.
//!
//! Each has a name in its cell, a group of its own, and one run at a time. Between runs it is alone in
//! its group, stopped, and not listened to. Nothing that it says is believed beyond the run that it
//! takes part in: the kernel tells which process sent a word, and the word has to name the run.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use hotcell_model::{
    Command, EndCause, ExecId, ExecSpec, SessionBounds, SessionInfo, SessionName, SessionTurn,
    SessionUse,
};
use hotcell_runner::DONE;
use rustix::process::Pid;

use crate::cell::{Supervisor, end_without_process};
use crate::clock::Moment;
use crate::exec::{Running, State, Turn};
use crate::family::Family;
use crate::warm::receive;

/// Set in the tokens of sessions.
pub(crate) const SESSION: u64 = 1 << 60;
/// How often it is looked whether those that were ended are gone.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The sessions of a cell.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_name: BTreeMap<SessionName, Session>,
    /// Processes that were ended and may not be gone yet.
    leaving: Vec<Family>,
    /// When runs that wait for their session give up.
    waits: BTreeMap<u32, Moment>,
    opened: u64,
}

#[derive(Debug)]
struct Session {
    token: u64,
    control: OwnedFd,
    runs: u64,
    stands: Stands,
}

/// Where a session is.
#[derive(Debug)]
enum Stands {
    /// It takes part in this exec, which has its processes.
    Busy(u32),
    /// It waits.
    Parked(Box<Parked>),
}

#[derive(Debug)]
struct Parked {
    family: Family,
    since: Moment,
    memory_bytes: u64,
}

/// Whether the process of a run stays for the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// It does, and holds so much memory.
    Kept { memory_bytes: u64 },
    /// It holds more memory than it may.
    TooLarge { memory_bytes: u64, most: u64 },
    /// It has ended, or has to.
    Gone,
}

impl Stay {
    pub(crate) fn of(running: &Running, bounds: &SessionBounds, is_ending: bool) -> Self {
        if is_ending || running.turn.as_ref().is_none_or(|turn| !turn.stays) {
            return Self::Gone;
        }
        let memory_bytes = running.family.used().memory_bytes;
        if memory_bytes > bounds.memory_bytes {
            return Self::TooLarge { memory_bytes, most: bounds.memory_bytes };
        }
        Self::Kept { memory_bytes }
    }

    /// What the run is told that its session cannot be kept for.
    pub(crate) fn refusal(self) -> Option<String> {
        let mb = |bytes: u64| bytes.div_ceil(1 << 20);
        match self {
            Self::TooLarge { memory_bytes, most } => Some(format!(
                "hotcell: the session has ended: it holds {} MiB, and may hold {} MiB between runs; \
                 write what is large to files\n",
                mb(memory_bytes),
                mb(most)
            )),
            Self::Kept { .. } | Self::Gone => None,
        }
    }

    pub(crate) fn told(self, is_new: bool) -> SessionUse {
        SessionUse { is_new, is_kept: matches!(self, Self::Kept { .. }) }
    }
}

/// The session that an exec takes part in.
pub(crate) fn turn_of(spec: &ExecSpec) -> Option<&SessionTurn> {
    match &spec.command {
        Command::Code(code) => code.session.as_ref(),
        Command::Shell(_) | Command::Argv(_) => None,
    }
}

impl Sessions {
    /// Whether there are any.
    pub(crate) fn are_some(&self) -> bool {
        !self.by_name.is_empty()
    }

    /// Whether no process of one is left.
    pub(crate) fn are_gone(&self) -> bool {
        self.by_name.is_empty() && self.leaving.is_empty()
    }

    fn is_busy(&self, name: &SessionName) -> bool {
        let stands = self.by_name.get(name).map(|session| &session.stands);
        matches!(stands, Some(Stands::Busy(_)))
    }

    /// The socket of one that waits for a run.
    pub(crate) fn waiting(&self, name: &SessionName) -> Option<&OwnedFd> {
        self.by_name.get(name).filter(|_| !self.is_busy(name)).map(|session| &session.control)
    }

    fn parked(&self) -> impl Iterator<Item = (&SessionName, &Parked)> {
        self.by_name.iter().filter_map(|(name, session)| match &session.stands {
            Stands::Parked(parked) => Some((name, &**parked)),
            Stands::Busy(_) => None,
        })
    }

    fn families_mut(&mut self) -> impl Iterator<Item = &mut Family> {
        self.by_name.values_mut().filter_map(|session| match &mut session.stands {
            Stands::Parked(parked) => Some(&mut parked.family),
            Stands::Busy(_) => None,
        })
    }

    /// Whether a child of this process is of one that waits or was ended.
    pub(crate) fn is_process(&self, pid: Pid) -> bool {
        let parked = self.parked().map(|(_, parked)| &parked.family);
        parked.chain(&self.leaving).any(|family| family.child() == pid)
    }

    /// Holds those still that wait; whether that could be done.
    pub(crate) fn freeze(&mut self) -> bool {
        self.families_mut().all(Family::freeze)
    }

    pub(crate) fn thaw(&mut self) {
        self.families_mut().for_each(Family::thaw);
    }

    pub(crate) fn stop_waiting(&mut self, number: u32) {
        self.waits.remove(&number);
    }

    pub(crate) fn list(&self) -> Vec<SessionInfo> {
        let now = Moment::now();
        let told = self.by_name.iter().map(|(name, session)| {
            let parked = match &session.stands {
                Stands::Parked(parked) => Some(parked),
                Stands::Busy(_) => None,
            };
            SessionInfo {
                name: name.clone(),
                runs: session.runs,
                idle_s: parked.map(|parked| now.since(parked.since).as_secs()),
                memory_bytes: parked.map(|parked| parked.memory_bytes),
            }
        });
        told.collect()
    }

    pub(crate) fn next_moment(&self, bounds: &SessionBounds) -> Option<Moment> {
        let ttl = Duration::from_secs(bounds.ttl_s);
        let idle = self.parked().map(|(_, parked)| parked.since.after(ttl)).min();
        let leaving = (!self.leaving.is_empty()).then(|| Moment::now().after(LOOK_AGAIN));
        [idle, leaving, self.waits.values().min().copied()].into_iter().flatten().min()
    }
}

impl Supervisor {
    /// Whether an exec that has just come can begin before those that wait.
    pub(crate) fn is_next(&self, number: u32) -> bool {
        let Some(State::Queued(queued)) = self.execs.get(&number).map(|exec| &exec.state) else {
            return false;
        };
        let turn = turn_of(&queued.spec);
        let is_before = |id: &ExecId| {
            let is_of_same = turn.is_some() && self.session_of(id) == turn.map(|turn| &turn.name);
            is_of_same || !self.is_held_up(id)
        };
        self.pause.is_none()
            && !self.is_held_up(&queued.spec.id)
            && !self.queue.iter().any(is_before)
    }

    /// What an exec that waits was asked to be.
    pub(crate) fn queued(&self, id: &ExecId) -> Option<&ExecSpec> {
        match self.execs.get(self.numbers.get(id)?).map(|exec| &exec.state) {
            Some(State::Queued(queued)) => Some(&queued.spec),
            Some(State::Running(_) | State::Ended(_)) | None => None,
        }
    }

    /// The session that an exec is to take part in.
    fn session_of(&self, id: &ExecId) -> Option<&SessionName> {
        turn_of(self.queued(id)?).map(|turn| &turn.name)
    }

    /// Whether an exec has to wait for its session, or for a process that is about to be there.
    fn is_held_up(&self, id: &ExecId) -> bool {
        self.session_of(id).is_some_and(|name| self.sessions.is_busy(name)) || self.awaits_child(id)
    }

    /// The first of those that wait that nothing of its own holds up.
    pub(crate) fn pop_ready(&mut self) -> Option<ExecId> {
        let mut queue = std::mem::take(&mut self.queue);
        let ready = queue.pop(|id| !self.is_held_up(id));
        self.queue = queue;
        ready
    }

    /// A run waits for its session no longer than it may run.
    pub(crate) fn bound_wait(&mut self, number: u32) {
        if let Some(State::Queued(queued)) = self.execs.get(&number).map(|exec| &exec.state)
            && turn_of(&queued.spec).is_some()
            && let Some(timeout) = queued.spec.timeout_ms
        {
            let until = Moment::now().after(Duration::from_millis(timeout));
            self.sessions.waits.insert(number, until);
        }
    }

    /// Makes a process that has taken code on a session.
    pub(crate) fn open_session(&mut self, number: u32, name: SessionName, control: OwnedFd) {
        self.sessions.opened += 1;
        let token = SESSION | self.sessions.opened;
        self.poller.add(control.as_fd(), token);
        let session = Session { token, control, runs: 1, stands: Stands::Busy(number) };
        self.sessions.by_name.insert(name, session);
        self.end_surplus();
    }

    /// Lets a process go on that waits and was given code.
    pub(crate) fn resume_session(&mut self, number: u32, name: &SessionName) -> Option<Family> {
        let session = self.sessions.by_name.get_mut(name)?;
        self.poller.add(session.control.as_fd(), session.token);
        session.runs += 1;
        match std::mem::replace(&mut session.stands, Stands::Busy(number)) {
            Stands::Parked(mut parked) => {
                parked.family.resume_main();
                Some(parked.family)
            }
            Stands::Busy(_) => None,
        }
    }

    /// Takes a word of a process that takes part in a run.
    pub(crate) fn read_session(&mut self, token: u64) {
        let sessions = self.sessions.by_name.values();
        let Some(session) = sessions.into_iter().find(|session| session.token == token) else {
            return;
        };
        let Stands::Busy(number) = session.stands else { return };
        let word = receive(&session.control).filter(|(word, _)| !word.is_empty());
        let Some((word, sender)) = word else {
            // Nobody can say anything any more; how its process ends is seen anyway.
            return self.poller.remove(session.control.as_fd());
        };
        let Some(exec) = self.execs.get_mut(&number) else { return };
        let State::Running(running) = &mut exec.state else { return };
        if sender == Some(running.family.leader())
            && let Some(code) = done_with(&word, &exec.id)
        {
            running.code_done(code);
            self.step(number);
        }
    }

    /// Does with the process of a run that has ended what was decided.
    pub(crate) fn leave_session(&mut self, turn: &Turn, family: Family, stay: Stay) {
        let Some(session) = self.sessions.by_name.get_mut(&turn.name) else {
            return self.see_off(family);
        };
        self.poller.remove(session.control.as_fd());
        let Stay::Kept { memory_bytes } = stay else {
            self.sessions.by_name.remove(&turn.name);
            return if turn.stays { self.see_off(family) } else { self.give_back(family) };
        };
        family.stop_main();
        self.processes.remove(&family.child().as_raw_nonzero().get());
        let since = Moment::now();
        session.stands = Stands::Parked(Box::new(Parked { family, since, memory_bytes }));
        self.end_surplus();
    }

    /// Ends those that waited longest, while there are too many.
    fn end_surplus(&mut self) {
        let most = usize::try_from(self.plan.spec.sessions.most).unwrap_or(usize::MAX);
        while self.sessions.by_name.len() > most {
            let longest = self.sessions.parked().min_by_key(|(_, parked)| parked.since);
            let Some(name) = longest.map(|(name, _)| name.clone()) else { return };
            self.dismiss_session(&name);
        }
    }

    /// Ends a session that waits.
    pub(crate) fn dismiss_session(&mut self, name: &SessionName) {
        if self.sessions.is_busy(name) {
            return;
        }
        if let Some(Session { stands: Stands::Parked(parked), .. }) =
            self.sessions.by_name.remove(name)
        {
            self.see_off(parked.family);
        }
    }

    /// Ends all that wait.
    pub(crate) fn dismiss_sessions(&mut self) {
        let waiting = self.sessions.parked().map(|(name, _)| name.clone());
        for name in waiting.collect::<Vec<_>>() {
            self.dismiss_session(&name);
        }
    }

    fn see_off(&mut self, family: Family) {
        self.processes.remove(&family.child().as_raw_nonzero().get());
        family.kill_all();
        self.sessions.leaving.push(family);
    }

    /// Gives the group back of processes that are gone.
    pub(crate) fn give_back(&mut self, family: Family) {
        if let (Some(groups), Some(group)) = (&mut self.exec_cgroups, family.cgroup) {
            groups.give_back(group);
        }
    }

    /// Notes that a process ended that waited, or was to end.
    pub(crate) fn note_session_end(&mut self, pid: Pid) {
        let found = self.sessions.parked().find(|(_, parked)| parked.family.child() == pid);
        if let Some(name) = found.map(|(name, _)| name.clone()) {
            self.dismiss_session(&name);
        }
        for family in &mut self.sessions.leaving {
            if family.child() == pid {
                family.child_ended();
            }
        }
    }

    /// Gives the groups back of those that are gone.
    pub(crate) fn tidy_sessions(&mut self) {
        if self.sessions.leaving.is_empty() {
            return;
        }
        let leaving = std::mem::take(&mut self.sessions.leaving);
        let (gone, left): (Vec<_>, Vec<_>) =
            leaving.into_iter().partition(|family| family.is_gone(true));
        left.iter().for_each(Family::kill_all);
        self.sessions.leaving = left;
        gone.into_iter().for_each(|family| self.give_back(family));
        self.settle_pause();
    }

    /// Ends what waited too long: sessions for a run, and runs for their session.
    pub(crate) fn tend_sessions(&mut self, now: Moment) {
        self.tidy_sessions();
        let ttl = Duration::from_secs(self.plan.spec.sessions.ttl_s);
        let idle = self.sessions.parked().filter(|(_, parked)| parked.since.after(ttl) <= now);
        for name in idle.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.dismiss_session(&name);
        }
        let due = self.sessions.waits.iter().filter(|(_, until)| **until <= now);
        for number in due.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.sessions.waits.remove(&number);
            self.give_up_waiting(number);
        }
    }

    /// Ends a run whose session was busy for as long as it might have run itself.
    fn give_up_waiting(&mut self, number: u32) {
        let Some(id) = self.execs.get(&number).map(|exec| exec.id.clone()) else { return };
        let Some(name) = self.session_of(&id).filter(|name| self.sessions.is_busy(name)) else {
            // It waits for its place among the cell's execs, as any other.
            return;
        };
        let message = format!(
            "session {name} was busy with another run all the time; wait for that, or use another session"
        );
        self.queue.remove(&id);
        self.end_unstarted(number, end_without_process(EndCause::TimedOut), &message);
        self.start_waiting();
    }
}

/// The exit code, if a word says that the code of this exec is done.
fn done_with(word: &[u8], exec: &ExecId) -> Option<u8> {
    let mut parts = std::str::from_utf8(word).ok()?.split(' ');
    let is_it = parts.next() == Some(DONE) && parts.next() == Some(exec.as_str());
    let code = parts.next().filter(|_| is_it)?.parse().ok()?;
    parts.next().is_none().then_some(code)
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;

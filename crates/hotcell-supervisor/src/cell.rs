//! The owner of all state of a cell.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use hotcell_jail::cgroup::{ExecCgroups, Meter};
use hotcell_jail::process::Launcher;
use hotcell_journal::{Entry, JournalWriter};
use hotcell_link::{DiskState, FrameKind, Plan, Started, Tell};
use hotcell_masking::Masks;
use hotcell_model::{
    CellStats, CloseReason, EndCause, Error, ExecEnd, ExecId, ExecSpec, ExecState, LimitHit,
    Result, Signal, Timestamp,
};

use crate::boot::Means;
use crate::callers::Callers;
use crate::clock::Moment;
use crate::connection::Connection;
use crate::event_loop::Poller;
use crate::exec::{Exec, Intent, Queued, State};
use crate::files::Files;
use crate::input::{Answer, Asker, Backlog, Refusal};
use crate::launch;
use crate::lifetime::{Activity, Lifetime};
use crate::output::READ_BYTES;
use crate::pause::Pause;
use crate::ports::Ports;
use crate::queue::Queue;
use crate::sessions::Sessions;
use crate::warm::Warm;

/// Between the request to end and the end, for an exec whose time is over.
pub(crate) const TIMEOUT_GRACE: Duration = Duration::from_secs(5);
/// Ended execs whose end is still known without reading the journal.
const MOST_ENDED_KEPT: usize = 1024;
/// How often the keeper is told that something ran.
const ACTIVITY_EVERY: Duration = Duration::from_secs(1);
/// What is begun is told a little later: most of it is over by then.
const ACTIVITY_FIRST: Duration = Duration::from_millis(200);

/// A cell on its way out.
#[derive(Debug)]
pub(crate) struct Closing {
    pub(crate) reason: CloseReason,
    pub(crate) askers: Vec<Asker>,
}

/// The state of a cell.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) plan: Plan,
    pub(crate) records: OwnedFd,
    pub(crate) journal: JournalWriter,
    pub(crate) launcher: Launcher,
    pub(crate) exec_cgroups: Option<ExecCgroups>,
    pub(crate) memory: Option<Meter>,
    pub(crate) pids: Option<Meter>,
    cpu: Option<Meter>,
    pub(crate) poller: Poller,
    pub(crate) numbers: HashMap<ExecId, u32>,
    pub(crate) execs: BTreeMap<u32, Exec>,
    pub(crate) running: BTreeSet<u32>,
    pub(crate) ended: BTreeSet<u32>,
    pub(crate) wake_at: BTreeMap<u32, Moment>,
    pub(crate) queue: Queue,
    /// Execs that wait for approval, and until when.
    pub(crate) awaiting: BTreeMap<u32, Moment>,
    pub(crate) processes: HashMap<i32, u32>,
    pub(crate) connections: BTreeMap<u64, Connection>,
    pub(crate) fresh_output: BTreeSet<u32>,
    pub(crate) held_back: BTreeSet<u32>,
    pub(crate) files: Files,
    pub(crate) ports: Ports,
    pub(crate) warm: Warm,
    pub(crate) sessions: Sessions,
    /// Programs that call tools and that nobody carries yet.
    pub(crate) callers: Callers,
    /// When the calls of code fail, unless somebody carries them by then.
    pub(crate) uncarried: BTreeMap<u32, Moment>,
    pub(crate) masks: Masks,
    /// When what may be the beginning of a secret is no longer held, by exec.
    pub(crate) unmask_at: BTreeMap<u32, Moment>,
    pub(crate) pause: Option<Pause>,
    pub(crate) lifetime: Lifetime,
    pub(crate) closing: Option<Closing>,
    pub(crate) buffer: Vec<u8>,
    next_number: u32,
    pub(crate) disk: Option<DiskState>,
    disk_told_at: Option<Moment>,
    activity_at: Option<Moment>,
}

impl Supervisor {
    pub(crate) fn new(means: Means, poller: Poller) -> io::Result<Self> {
        use std::os::fd::AsFd;
        let (mut journal, left_over) =
            JournalWriter::open(means.records.as_fd()).map_err(io::Error::other)?;
        for exec in left_over {
            journal.append(&Entry::Ended { exec, end: end_without_process(EndCause::Lost) });
        }
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        journal.append(&Entry::Opened {
            at: Timestamp::now(),
            boot: boot.trim().to_owned(),
            software: concat!("hotcell ", env!("CARGO_PKG_VERSION")).to_owned(),
        });
        let lifetime = Lifetime::new(&means.plan.spec, Moment::now());
        Ok(Self {
            plan: means.plan,
            records: means.records,
            journal,
            launcher: means.launcher,
            exec_cgroups: means.exec_cgroups,
            memory: means.memory,
            pids: means.pids,
            cpu: means.cpu,
            poller,
            numbers: HashMap::new(),
            execs: BTreeMap::new(),
            running: BTreeSet::new(),
            ended: BTreeSet::new(),
            wake_at: BTreeMap::new(),
            queue: Queue::default(),
            awaiting: BTreeMap::new(),
            processes: HashMap::new(),
            connections: BTreeMap::new(),
            fresh_output: BTreeSet::new(),
            held_back: BTreeSet::new(),
            files: Files::default(),
            ports: Ports::default(),
            warm: Warm::new(means.program),
            sessions: Sessions::default(),
            callers: Callers::default(),
            uncarried: BTreeMap::new(),
            masks: Masks::default(),
            unmask_at: BTreeMap::new(),
            pause: None,
            lifetime,
            closing: None,
            buffer: vec![0; READ_BYTES],
            next_number: 0,
            disk: None,
            disk_told_at: None,
            activity_at: None,
        })
    }

    /// Takes an exec on: starts it, or lets it wait for its turn. The connection that asks for it
    /// first is the one that carries its calls of tools.
    pub(crate) fn start(&mut self, spec: ExecSpec, starter: u64) -> Result<Started> {
        if let Some(number) = self.numbers.get(&spec.id) {
            return Ok(self.started(*number));
        }
        if self.closing.is_some() {
            return Err(Error::unavailable("the cell is ending").hint("spawn another cell"));
        }
        self.check_room(&spec)?;
        let queued_at = Timestamp::now();
        let id = spec.id.clone();
        // What cannot work is found out before anything is written down; not while there may be no
        // root to look at.
        let is_changing = self.is_root_changing();
        let prepared = if is_changing { None } else { Some(launch::prepare(&self.plan, &spec)?) };
        let number = self.next_number;
        self.next_number += 1;
        self.journal.append(&Entry::Queued {
            exec: id.clone(),
            command: spec.command.clone(),
            pty: spec.pty.is_some(),
            as_root: spec.as_root,
            keep_s: spec.bounds.keep_s,
            at: queued_at,
        });
        let (priority, need) = (spec.priority, spec.approval.clone());
        if let Some(checkpoint) = spec.checkpoint.clone() {
            self.journal.append(&Entry::Kept { exec: id.clone(), checkpoint, at: queued_at });
        }
        let output_bytes = self.output_bytes(&spec);
        let state = State::Queued(Box::new(Queued::new(spec)));
        let exec = Exec {
            id: id.clone(),
            starter,
            queued_at,
            started_at: None,
            pid: None,
            output_bytes,
            approval: None,
            last_seq: 0,
            state,
        };
        self.numbers.insert(id.clone(), number);
        self.execs.insert(number, exec);
        let is_next = self.is_next(number);
        match prepared {
            _ if need.is_some() => self.await_approval(number, need),
            Some(prepared) if is_next && self.running.len() < self.most_running() => {
                self.launch(number, prepared);
            }
            Some(_) | None => {
                let awaits_child = self.awaits_child(&id);
                self.queue.push(id, priority);
                self.bound_wait(number);
                if awaits_child {
                    self.keep_warm();
                }
            }
        }
        self.note_activity();
        Ok(self.started(number))
    }

    fn started(&self, number: u32) -> Started {
        let exec = self.execs.get(&number);
        let state = match exec.map(|exec| &exec.state) {
            Some(State::Queued(_)) => ExecState::Queued,
            Some(State::Running(_)) => ExecState::Running,
            Some(State::Ended(_)) | None => ExecState::Ended,
        };
        Started {
            state,
            queued_at: exec.map_or_else(Timestamp::now, |exec| exec.queued_at),
            started_at: exec.and_then(|exec| exec.started_at),
            pid: exec.and_then(|exec| exec.pid),
            approval: exec.and_then(|exec| exec.approval.clone()),
            end: exec.and_then(|exec| exec.end().cloned()),
        }
    }

    /// Refuses an exec that would rather not be than wait, where it would have to.
    fn check_room(&self, spec: &ExecSpec) -> Result<()> {
        let Some(most) = spec.bounds.most_live else { return Ok(()) };
        let limit = u64::from(most).min(self.most_running() as u64);
        let current = (self.running.len() + self.queue.len() + self.awaiting.len()) as u64;
        if current < limit {
            return Ok(());
        }
        Err(Error::limit_exceeded(format!(
            "{current} execs of the cell have not ended, of {limit} at most"
        ))
        .hint("wait for one of them, or end one with `hotcell cancel`")
        .hit("max_running", limit, current))
    }

    fn most_running(&self) -> usize {
        usize::try_from(self.plan.spec.max_running).unwrap_or(usize::MAX)
    }

    /// Starts those that wait, as long as there is room.
    pub(crate) fn start_waiting(&mut self) {
        while self.pause.is_none() && self.running.len() < self.most_running() {
            let Some(id) = self.pop_ready() else { break };
            let Some(number) = self.numbers.get(&id).copied() else { continue };
            let spec = match self.execs.get(&number).map(|exec| &exec.state) {
                Some(State::Queued(queued)) => queued.spec.clone(),
                Some(State::Running(_) | State::Ended(_)) | None => continue,
            };
            match launch::prepare(&self.plan, &spec) {
                Ok(prepared) => self.launch(number, prepared),
                // It was there when it was asked for; now it is as if the shell did not find it.
                Err(error) => self.fail_to_start(number, 127, &error.message),
            }
        }
    }

    /// Asks an exec to end.
    pub(crate) fn cancel(
        &mut self,
        exec: &ExecId,
        signal: Signal,
        grace: Duration,
    ) -> Result<bool> {
        let number = self.number(exec)?;
        let intent = Intent { cause: EndCause::Cancelled, limit: None };
        Ok(self.end_exec(number, intent, signal, grace))
    }

    /// Ends an exec; whether there was anything to end.
    fn end_exec(&mut self, number: u32, intent: Intent, signal: Signal, grace: Duration) -> bool {
        let Some(exec) = self.execs.get_mut(&number) else { return false };
        match &mut exec.state {
            State::Ended(_) => return false,
            State::Queued(_) => {
                let id = exec.id.clone();
                self.queue.remove(&id);
                self.record_end(number, end_without_process(intent.cause));
            }
            State::Running(running) => {
                running.terminate(intent, signal, grace);
                self.step(number);
            }
        }
        true
    }

    /// Ends every exec that has not ended.
    pub(crate) fn end_all(&mut self, intent: Intent, signal: Signal, grace: Duration) {
        let live = self.execs.iter().filter(|(_, exec)| exec.end().is_none());
        for number in live.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.end_exec(number, intent, signal, grace);
        }
    }

    pub(crate) fn set_disk(&mut self, state: DiskState) {
        self.disk = Some(state);
        let told_before = self.disk_told_at.replace(Moment::now());
        if state.end_execs {
            let limit = state.over.or(Some(LimitHit::Disk));
            let intent = Intent { cause: EndCause::Signaled, limit };
            for number in self.running.clone() {
                if self.was_running_at(number, told_before) {
                    self.end_exec(number, intent, Signal::KILL, Duration::ZERO);
                }
            }
        }
    }

    /// Whether an exec ran when the cell's disk was told of before: what grew since may be its doing.
    /// What has begun meanwhile may be there to tidy up, and is asked about the next time.
    fn was_running_at(&self, number: u32, told_before: Option<Moment>) -> bool {
        match self.execs.get(&number).map(|exec| &exec.state) {
            Some(State::Running(running)) => told_before.is_none_or(|told| running.started <= told),
            Some(State::Queued(_) | State::Ended(_)) | None => false,
        }
    }

    /// Something may have made room: until that is measured the cell is not taken to be over its
    /// disk limit.
    pub(crate) fn take_as_tidied(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.over = None;
        }
    }

    pub(crate) fn stats(&self) -> CellStats {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        CellStats {
            running: count(self.running.len()),
            queued: count(self.queue.len() + self.awaiting.len()),
            cpu_ms: self.cpu.as_ref().and_then(Meter::cpu_us).map(|us| us / 1000),
            memory_bytes: self.memory.as_ref().and_then(Meter::memory_bytes),
            pids: self.pids.as_ref().and_then(Meter::pids),
            disk_bytes: self.disk.map(|disk| disk.used_bytes),
            disk_files: self.disk.map(|disk| disk.used_files),
            network: None,
            sessions: self.sessions.list(),
        }
    }

    /// The number of an exec that this supervisor knows.
    pub(crate) fn number(&self, exec: &ExecId) -> Result<u32> {
        self.numbers.get(exec).copied().ok_or_else(|| {
            Error::not_found(format!("the cell runs no exec {exec}"))
                .hint("list the cell's execs with `hotcell ps`")
        })
    }

    /// Writes down how an exec ended and tells everyone.
    pub(crate) fn record_end(&mut self, number: u32, end: ExecEnd) {
        if end.limit.is_none() {
            self.take_as_tidied();
        }
        let Some(exec) = self.execs.get_mut(&number) else { return };
        self.journal.append(&Entry::Ended { exec: exec.id.clone(), end: end.clone() });
        let before = std::mem::replace(&mut exec.state, State::Ended(end));
        if let State::Queued(mut queued) = before {
            let answers = queued.input.as_mut().map(Backlog::refuse_all).unwrap_or_default();
            self.answer_input(answers);
        }
        self.running.remove(&number);
        self.awaiting.remove(&number);
        self.sessions.stop_waiting(number);
        self.wake_at.remove(&number);
        self.uncarried.remove(&number);
        self.end_callers_of(number);
        self.ended.insert(number);
        self.fresh_output.insert(number);
        self.forget_oldest();
        self.note_activity();
    }

    /// Bounds what is kept of execs that have ended; the journal has them all.
    fn forget_oldest(&mut self) {
        let oldest = self.ended.first().copied().filter(|_| self.ended.len() > MOST_ENDED_KEPT);
        let Some(number) = oldest.filter(|number| !self.is_followed(*number)) else { return };
        self.ended.remove(&number);
        if let Some(exec) = self.execs.remove(&number) {
            self.numbers.remove(&exec.id);
        }
    }

    fn is_followed(&self, number: u32) -> bool {
        let id = self.execs.get(&number).map(|exec| &exec.id);
        let mut followers = self.connections.values().flat_map(|c| c.followers.values());
        followers.any(|follower| Some(&follower.exec) == id)
    }

    /// Keeps the cell's lifetime and the keeper's attention up to date.
    pub(crate) fn note_activity(&mut self) {
        let now = Moment::now();
        let idle = self.running.is_empty()
            && self.queue.len() == 0
            && self.awaiting.is_empty()
            && self.files.is_idle()
            && self.ports.is_empty();
        if idle {
            self.lifetime.set_activity(Activity::Idle, now);
        } else {
            self.lifetime.set_activity(Activity::Busy, now);
            self.activity_at.get_or_insert(now.after(ACTIVITY_FIRST));
        }
    }

    /// Tells those that watch, when it is time to.
    pub(crate) fn tell_watchers(&mut self, now: Moment) {
        if self.activity_at.is_none_or(|at| at > now) {
            return;
        }
        for connection in self.connections.values_mut() {
            if let Some(channel) = connection.watches {
                connection.peer.send(FrameKind::Activity, channel, &());
            }
        }
        let busy = !self.running.is_empty();
        self.activity_at = busy.then(|| now.after(ACTIVITY_EVERY));
    }

    /// The next moment at which something has to be done without an event.
    pub(crate) fn next_moment(&self) -> Option<Moment> {
        let lifetime = match self.closing {
            None => self.lifetime.next().map(|(at, _)| at),
            Some(_) => None,
        };
        let execs = self.wake_at.values().min().copied();
        let (files, ports) = (self.files.next_moment(), self.ports.next_moment());
        let held = self.unmask_at.values().min().copied();
        let unanswered = self.awaiting.values().min().copied();
        let (warm, uncarried) = (self.warm.next_moment(), self.uncarried.values().min().copied());
        let sessions = self.sessions.next_moment(&self.plan.spec.sessions);
        let all = [lifetime, execs, self.activity_at, files, ports, held, unanswered, warm];
        let callers = self.callers.next_moment();
        all.into_iter().chain([uncarried, sessions, callers]).flatten().min()
    }

    /// Starts the end of the cell.
    pub(crate) fn close(&mut self, reason: CloseReason, asker: Option<Asker>, grace: Duration) {
        let closing = self.closing.get_or_insert(Closing { reason, askers: Vec::new() });
        closing.askers.extend(asker);
        let intent = Intent { cause: EndCause::Cancelled, limit: None };
        let signal = if grace.is_zero() { Signal::KILL } else { Signal::TERM };
        self.end_all(intent, signal, grace);
        self.dismiss_sessions();
    }

    /// Whether the cell is to end and nothing is left in it; the last entry is then written.
    pub(crate) fn finish_closing(&mut self) -> bool {
        let Some(closing) = &mut self.closing else { return false };
        if !self.running.is_empty() || !self.sessions.are_gone() {
            return false;
        }
        self.journal.append(&Entry::Closed { reason: closing.reason, at: Timestamp::now() });
        for asker in std::mem::take(&mut closing.askers) {
            self.tell(asker, &Tell::Done);
        }
        true
    }

    /// Answers a question.
    pub(crate) fn tell(&mut self, (connection, channel): Asker, tell: &Tell) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.peer.send(FrameKind::Tell, channel, tell);
        }
    }

    pub(crate) fn answer_input(&mut self, answers: Vec<Answer>) {
        for (asker, taken) in answers {
            let tell = match taken {
                Ok(()) => Tell::Done,
                Err(refusal) => Tell::Failed(input_refused(refusal)),
            };
            self.tell(asker, &tell);
        }
    }
}

pub(crate) fn input_refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Closed => input_closed(),
        Refusal::Full => Error::limit_exceeded("the exec has not read 8 MiB of its input yet")
            .hint("send more once it reads"),
    }
}

/// Why input cannot be taken.
pub(crate) fn input_closed() -> Error {
    Error::conflict("the exec's standard input is closed")
        .hint("start the exec with its input kept open (`hotcell run -i` or `stdin_open`)")
}

/// The end of an exec that never had a process, or none that is known of.
pub(crate) fn end_without_process(cause: EndCause) -> ExecEnd {
    ExecEnd::without_process(cause, Timestamp::now())
}

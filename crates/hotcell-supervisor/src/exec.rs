//! One exec: its processes, its streams, and the steps to its end.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use hotcell_jail::cgroup::ExecCgroup;
use hotcell_jail::process::{Ending, Reaped};
use hotcell_jail::{pty, signals};
use hotcell_journal::OutputLog;
use hotcell_model::{
    Approval, EndCause, ExecEnd, ExecId, ExecSpec, LimitHit, SessionName, Signal, Stdin, Stream,
    Timestamp, Usage,
};

use crate::clock::Moment;
use crate::code::CodeEnds;
use crate::family::Family;
use crate::input::{Backlog, Input, Sink};
use crate::output::Output;

/// How long descendants may go on writing after the main process has ended.
const LINGER: Duration = Duration::from_millis(250);
/// How often it is looked whether the last process is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// An exec and where it stands.
#[derive(Debug)]
pub(crate) struct Exec {
    pub(crate) id: ExecId,
    /// The connection that asked for it.
    pub(crate) starter: u64,
    pub(crate) queued_at: Timestamp,
    pub(crate) started_at: Option<Timestamp>,
    /// Its main process.
    pub(crate) pid: Option<u32>,
    /// Bytes of its output that are kept.
    pub(crate) output_bytes: u64,
    pub(crate) approval: Option<Approval>,
    pub(crate) last_seq: u64,
    pub(crate) state: State,
}

#[derive(Debug)]
pub(crate) enum State {
    Queued(Box<Queued>),
    Running(Box<Running>),
    Ended(ExecEnd),
}

/// An exec that waits for its turn.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) spec: ExecSpec,
    /// What came for it already; nothing when its input is not open.
    pub(crate) input: Option<Backlog>,
    /// The code's end of its calls, which somebody carries already.
    pub(crate) calls: Option<OwnedFd>,
}

impl Queued {
    pub(crate) fn new(spec: ExecSpec) -> Self {
        let sink = match (&spec.pty, &spec.stdin) {
            (Some(_), _) => Some(Sink::Terminal),
            (None, Stdin::Open) => Some(Sink::Pipe),
            (None, Stdin::Empty | Stdin::Text(_)) => None,
        };
        Self { spec, input: sink.map(Backlog::new), calls: None }
    }
}

impl Exec {
    pub(crate) fn end(&self) -> Option<&ExecEnd> {
        match &self.state {
            State::Ended(end) => Some(end),
            State::Queued(_) | State::Running(_) => None,
        }
    }
}

/// Where a running exec is on the way to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Its main process runs.
    Alive,
    /// It was asked to end.
    Terminating { kill_at: Moment },
    /// Its main process has ended, its output is still open.
    Lingering { until: Moment },
    /// Whatever is left is being killed.
    Killing { look_at: Moment },
}

/// Why Hotcell ends an exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Intent {
    pub(crate) cause: EndCause,
    pub(crate) limit: Option<LimitHit>,
}

/// How often the cell came up against limits that the kernel keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LimitCounts {
    /// Processes that were killed for want of memory.
    pub(crate) oom_kills: u64,
    /// Processes and threads that were refused.
    pub(crate) refused_pids: u64,
}

fn cpus() -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(cpus).unwrap_or(u32::MAX)
}

/// Whether an exec goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Look again at this moment, or at the next event.
    GoesOn(Option<Moment>),
    /// All its processes are gone.
    Gone,
}

/// An exec whose process was started.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) family: Family,
    /// For code in a session.
    pub(crate) turn: Option<Turn>,
    pub(crate) log: OutputLog,
    pub(crate) outputs: [Option<Output>; 2],
    pub(crate) input: Option<Input>,
    pub(crate) terminal: Option<OwnedFd>,
    pub(crate) code: Option<CodeEnds>,
    pub(crate) started: Moment,
    pub(crate) deadline: Option<Moment>,
    /// The CPU time that it may use.
    pub(crate) cpu: Option<Duration>,
    /// Between the request to end and the end, once its time is over.
    pub(crate) grace: Duration,
    pub(crate) before: LimitCounts,
    /// Whether its output is left in the pipes until a follower has caught up.
    pub(crate) held_back: bool,
    phase: Phase,
    intent: Option<Intent>,
    ended: Option<Reaped>,
    killed_descendants: u32,
}

/// The part of an exec in a session.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) name: SessionName,
    /// Whether the session began with it.
    pub(crate) is_new: bool,
    /// What its process had used before.
    pub(crate) cpu_us_before: u64,
    /// Whether the process is done with the code and lives on.
    pub(crate) stays: bool,
}

/// What a running exec starts with.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) family: Family,
    pub(crate) turn: Option<Turn>,
    pub(crate) log: OutputLog,
    pub(crate) outputs: [Option<Output>; 2],
    pub(crate) input: Option<Input>,
    pub(crate) terminal: Option<OwnedFd>,
    pub(crate) code: Option<CodeEnds>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cpu: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) before: LimitCounts,
}

impl Running {
    pub(crate) fn new(parts: Parts) -> Self {
        let started = Moment::now();
        Self {
            family: parts.family,
            turn: parts.turn,
            log: parts.log,
            outputs: parts.outputs,
            input: parts.input,
            terminal: parts.terminal,
            code: parts.code,
            started,
            deadline: parts.timeout.map(|timeout| started.after(timeout)),
            cpu: parts.cpu,
            grace: parts.grace,
            before: parts.before,
            held_back: false,
            phase: Phase::Alive,
            intent: None,
            ended: None,
            killed_descendants: 0,
        }
    }

    /// Notes that the main process has ended.
    pub(crate) fn main_ended(&mut self, end: Reaped) {
        self.ended.get_or_insert(end);
        if let Some(turn) = &mut self.turn {
            turn.stays = false;
        }
    }

    /// Notes that the subreaper has ended, and with it the last descendant or the report of the
    /// main process: then it can only have been killed, and what it looked after is killed too.
    pub(crate) fn reaper_ended(&mut self, end: Reaped) {
        self.family.child_ended();
        self.main_ended(end);
    }

    /// Notes that the main process is done with its code and waits for the next run. It is stopped:
    /// nothing goes on in a session between its runs.
    pub(crate) fn code_done(&mut self, code: u8) {
        let Some(turn) = &mut self.turn else { return };
        match self.phase {
            Phase::Alive if self.ended.is_none() => {}
            // It was asked to end, and so it does.
            Phase::Terminating { .. } => return self.start_killing(),
            Phase::Alive | Phase::Lingering { .. } | Phase::Killing { .. } => return,
        }
        turn.stays = true;
        self.family.stop_main();
        let used = self.family.used();
        self.ended = Some(Reaped {
            pid: self.family.leader(),
            status: i32::from(code) << 8,
            cpu_us: used.cpu_us,
            max_rss_kb: used.max_rss_kb,
        });
    }

    fn stays(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.stays)
    }

    /// Sends a signal to the main process's group; one that keys send too, to the foreground program
    /// of the terminal.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.ended.is_some() {
            return;
        }
        match self.terminal.as_ref().filter(|_| signal.is_of_keyboard()).and_then(|terminal| {
            pty::foreground(terminal.as_fd()).filter(|group| self.family.is_in_session(*group))
        }) {
            // A group that is gone needs no signal.
            Some(group) => drop(signals::send_to_group(group, signal.number())),
            None => self.family.signal(signal),
        }
    }

    /// Asks the exec to end, all of it, and kills it after the grace. A second call can only
    /// shorten the grace.
    pub(crate) fn terminate(&mut self, intent: Intent, signal: Signal, grace: Duration) {
        let kill_at = Moment::now().after(grace);
        let stayed = self.stays();
        if let Some(turn) = &mut self.turn {
            turn.stays = false;
        }
        match &mut self.phase {
            Phase::Alive | Phase::Lingering { .. } => {
                if self.ended.is_none() {
                    self.intent = Some(intent);
                }
                self.phase = Phase::Terminating { kill_at };
            }
            Phase::Terminating { kill_at: present } => *present = kill_at.min(*present),
            Phase::Killing { .. } => return,
        }
        // One that is stopped takes no request.
        if grace.is_zero() || stayed {
            self.start_killing();
        } else {
            self.family.signal_all(signal);
        }
    }

    /// Goes on towards the end as far as it goes now.
    pub(crate) fn step(&mut self) -> Step {
        let now = Moment::now();
        loop {
            match self.phase {
                Phase::Alive if self.ended.is_some() => {
                    self.phase = Phase::Lingering { until: now.after(LINGER) };
                }
                Phase::Alive => match self.deadline {
                    Some(deadline) if deadline <= now => {
                        let intent = Intent { cause: EndCause::TimedOut, limit: None };
                        self.terminate(intent, Signal::TERM, self.grace);
                    }
                    deadline => match self.cpu_left() {
                        None => return Step::GoesOn(deadline),
                        Some(Duration::ZERO) => {
                            let limit = Some(LimitHit::Cpu);
                            let intent = Intent { cause: EndCause::TimedOut, limit };
                            self.terminate(intent, Signal::TERM, self.grace);
                        }
                        Some(left) => {
                            // It cannot use that up before, on all CPUs at once.
                            let look_at = now.after((left / cpus()).max(LOOK_AGAIN));
                            let look_at = deadline.map_or(look_at, |at| at.min(look_at));
                            return Step::GoesOn(Some(look_at));
                        }
                    },
                },
                Phase::Terminating { kill_at } => {
                    if now >= kill_at || (self.ended.is_some() && self.is_gone()) {
                        self.start_killing();
                    } else if self.ended.is_some() {
                        return Step::GoesOn(Some(kill_at.min(now.after(LOOK_AGAIN))));
                    } else {
                        return Step::GoesOn(Some(kill_at));
                    }
                }
                // What keeps its output open may only be waiting for us.
                Phase::Lingering { .. } if self.held_back => return Step::GoesOn(None),
                Phase::Lingering { until } => {
                    if now >= until || self.outputs.iter().all(Option::is_none) {
                        if self.intent.is_none() && !self.is_gone() {
                            self.killed_descendants = self.count_descendants();
                        }
                        self.start_killing();
                    } else {
                        return Step::GoesOn(Some(until));
                    }
                }
                Phase::Killing { look_at } => {
                    if self.ended.is_some() && self.is_gone() {
                        return Step::Gone;
                    }
                    if now >= look_at {
                        self.kill_all();
                        self.phase = Phase::Killing { look_at: now.after(LOOK_AGAIN) };
                    }
                    return Step::GoesOn(Some(now.after(LOOK_AGAIN)));
                }
            }
        }
    }

    /// The CPU time that is left to it, where it is bounded and all its processes are counted.
    fn cpu_left(&self) -> Option<Duration> {
        let most = self.cpu?;
        let counted = self.family.cgroup.as_ref().and_then(ExecCgroup::cpu_us);
        let in_turn = self
            .turn
            .as_ref()
            .map(|turn| self.family.used().cpu_us.saturating_sub(turn.cpu_us_before));
        Some(most.saturating_sub(Duration::from_micros(counted.or(in_turn)?)))
    }

    /// Whether the kernel ended it for its CPU time, as it does where nobody counts: by a signal
    /// that can be ignored, and a second later by one that cannot.
    fn used_up(&self, signal: Option<Signal>) -> bool {
        let used = self.ended.map(|reaped| Duration::from_micros(reaped.cpu_us));
        match (self.cpu.filter(|_| self.turn.is_none()), signal) {
            (Some(_), Some(Signal::XCPU)) => true,
            (Some(most), Some(Signal::KILL)) => used.is_some_and(|used| used >= most),
            (_, _) => false,
        }
    }

    fn start_killing(&mut self) {
        let now = Moment::now();
        if !self.is_gone() || self.ended.is_none() {
            self.kill_all();
        }
        self.phase = Phase::Killing { look_at: now.after(LOOK_AGAIN) };
    }

    /// Whether its processes are gone, but for one that stays.
    fn is_gone(&self) -> bool {
        if self.stays() {
            self.family.is_main_alone()
        } else {
            self.family.is_gone(self.ended.is_some())
        }
    }

    fn count_descendants(&self) -> u32 {
        let staying = usize::from(self.stays());
        u32::try_from(self.family.count().saturating_sub(staying)).unwrap_or(u32::MAX)
    }

    fn kill_all(&self) {
        if self.stays() {
            self.family.kill_others();
        } else {
            self.family.kill_all();
        }
    }

    /// The limits that its cell came up against since its start.
    fn limits_hit(&self, now: LimitCounts) -> Vec<LimitHit> {
        let ended_for = self.intent.and_then(|intent| intent.limit);
        let kept_by_kernel = [
            (now.oom_kills > self.before.oom_kills, LimitHit::Memory),
            (now.refused_pids > self.before.refused_pids, LimitHit::Pids),
            (self.log.has_dropped(), LimitHit::Output),
        ];
        let hit = kept_by_kernel.into_iter().filter_map(|(is_hit, limit)| is_hit.then_some(limit));
        ended_for.into_iter().chain(hit).collect()
    }

    /// How it ended, and what is left of it; called once all its processes are gone.
    pub(crate) fn into_end(mut self, now: LimitCounts) -> (ExecEnd, Family, Option<Turn>) {
        let ending = self.ended.map(|reaped| reaped.ending());
        let signal = match ending {
            Some(Ending::Signaled(number)) => Signal::from_number(number),
            Some(Ending::Exited(_)) | None => None,
        };
        let exit_code = match ending {
            Some(Ending::Exited(code)) => Some(code),
            Some(Ending::Signaled(_)) | None => None,
        };
        if self.intent.is_none() && self.used_up(signal) {
            self.intent = Some(Intent { cause: EndCause::TimedOut, limit: Some(LimitHit::Cpu) });
        }
        let cause = match self.intent {
            Some(intent) => intent.cause,
            None if signal == Some(Signal::KILL) && now.oom_kills > self.before.oom_kills => {
                EndCause::OomKilled
            }
            None if signal.is_some() => EndCause::Signaled,
            None => EndCause::Exited,
        };
        let counted = self.family.cgroup.as_ref().and_then(ExecCgroup::cpu_us);
        let before = self.turn.as_ref().map_or(0, |turn| turn.cpu_us_before);
        let told = self.ended.map(|reaped| reaped.cpu_us.saturating_sub(before));
        let cpu_us = counted.or(told).unwrap_or(0);
        let wall = Moment::now().since(self.started);
        let usage = Usage {
            wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
            cpu_ms: cpu_us / 1000,
            max_rss_kb: self.ended.map_or(0, |reaped| reaped.max_rss_kb),
            stdout_bytes: self.log.bytes(Stream::Stdout) + self.log.bytes(Stream::Pty),
            stderr_bytes: self.log.bytes(Stream::Stderr),
        };
        let end = ExecEnd {
            cause,
            exit_code,
            signal,
            limit: self.intent.and_then(|intent| intent.limit),
            limits_hit: self.limits_hit(now),
            killed_descendants: self.killed_descendants,
            ended_at: Timestamp::now(),
            usage,
            session: None,
        };
        (end, self.family, self.turn)
    }
}

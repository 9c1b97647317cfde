//! One exec: its processes, its streams, and the steps to its end.

use std::os::fd::OwnedFd;
use std::time::Duration;

use hotcell_jail::cgroup::ExecCgroup;
use hotcell_jail::process::{Ending, Reaped};
use hotcell_jail::{proctree, signals};
use hotcell_journal::OutputLog;
use hotcell_model::{
    Approval, EndCause, ExecEnd, ExecId, ExecSpec, LimitHit, Signal, Stdin, Stream, Timestamp,
    Usage,
};
use rustix::process::Pid;

use crate::clock::Moment;
use crate::code::CodeEnds;
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
    pub(crate) queued_at: Timestamp,
    pub(crate) started_at: Option<Timestamp>,
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

/// The main process of an exec.
#[derive(Debug)]
pub(crate) enum Main {
    /// A child of the supervisor.
    Child(Pid),
    /// A child of a subreaper, which is a child of the supervisor.
    Reaped { main: Pid, reaper: Pid, report: OwnedFd, reaper_ended: bool },
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
    pub(crate) main: Main,
    pub(crate) cgroup: Option<ExecCgroup>,
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
    /// Processes that were stopped to hold it still.
    stopped: Vec<i32>,
}

/// What a running exec starts with.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) main: Main,
    pub(crate) cgroup: Option<ExecCgroup>,
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
            main: parts.main,
            stopped: Vec::new(),
            cgroup: parts.cgroup,
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
    }

    /// Notes that the subreaper has ended, and with it the last descendant or the report of the
    /// main process: then it can only have been killed, and what it looked after is killed too.
    pub(crate) fn reaper_ended(&mut self, end: Reaped) {
        if let Main::Reaped { reaper_ended, .. } = &mut self.main {
            *reaper_ended = true;
        }
        self.ended.get_or_insert(end);
    }

    /// Sends a signal to the main process's group.
    pub(crate) fn signal(&self, signal: Signal) {
        let leader = match &self.main {
            Main::Child(main) | Main::Reaped { main, .. } => *main,
        };
        if self.ended.is_none() {
            // A group that is gone needs no signal.
            let _ = signals::send_to_group(leader, signal.number());
        }
    }

    /// Asks the exec to end, all of it, and kills it after the grace. A second call can only
    /// shorten the grace.
    pub(crate) fn terminate(&mut self, intent: Intent, signal: Signal, grace: Duration) {
        let kill_at = Moment::now().after(grace);
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
        if grace.is_zero() {
            self.start_killing();
        } else {
            self.signal_all(signal);
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
        let used = self.cgroup.as_ref().and_then(ExecCgroup::cpu_us);
        Some(self.cpu?.saturating_sub(Duration::from_micros(used?)))
    }

    /// Whether the kernel ended it for its CPU time, as it does where nobody counts: by a signal
    /// that can be ignored, and a second later by one that cannot.
    fn used_up(&self, signal: Option<Signal>) -> bool {
        let used = self.ended.map(|reaped| Duration::from_micros(reaped.cpu_us));
        match (self.cpu, signal) {
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

    fn is_gone(&self) -> bool {
        match (&self.main, &self.cgroup) {
            (Main::Child(_), Some(cgroup)) => cgroup.is_empty(),
            (Main::Child(_), None) => self.ended.is_some(),
            (Main::Reaped { reaper_ended, .. }, _) => *reaper_ended,
        }
    }

    fn count_descendants(&self) -> u32 {
        let count = match (&self.main, &self.cgroup) {
            (Main::Reaped { reaper, .. }, _) => {
                proctree::descendants(*reaper).map_or(0, |found| found.len())
            }
            (Main::Child(_), Some(cgroup)) => cgroup.count(),
            (Main::Child(_), None) => 0,
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn signal_all(&self, signal: Signal) {
        match (&self.main, &self.cgroup) {
            (Main::Reaped { reaper, .. }, _) => {
                for pid in proctree::descendants(*reaper).unwrap_or_default() {
                    let _ = Pid::from_raw(pid).map(|pid| signals::send(pid, signal.number()));
                }
            }
            (Main::Child(_), Some(cgroup)) => cgroup.signal(signal.number()),
            (Main::Child(_), None) => self.signal(signal),
        }
    }

    /// Holds all its processes still; whether that could be done.
    pub(crate) fn freeze(&mut self) -> bool {
        match (&self.main, &self.cgroup) {
            (Main::Reaped { reaper, .. }, _) => match proctree::stop_descendants(*reaper) {
                Ok(stopped) => {
                    self.stopped = stopped;
                    true
                }
                Err(_) => false,
            },
            (Main::Child(_), Some(cgroup)) => cgroup.freeze(),
            (Main::Child(_), None) => false,
        }
    }

    /// Lets its processes go on.
    pub(crate) fn thaw(&mut self) {
        proctree::go_on(&std::mem::take(&mut self.stopped));
        if let (Main::Child(_), Some(cgroup)) = (&self.main, &self.cgroup) {
            cgroup.thaw();
        }
    }

    fn kill_all(&self) {
        match (&self.main, &self.cgroup) {
            (Main::Reaped { reaper, reaper_ended, .. }, _) => {
                if !reaper_ended {
                    // Unreadable /proc would be a broken cell; the next look tries again.
                    let _ = proctree::kill_descendants(*reaper);
                }
            }
            (Main::Child(_), Some(cgroup)) => cgroup.kill(),
            (Main::Child(_), None) => self.signal(Signal::KILL),
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

    /// How it ended; called once all its processes are gone.
    pub(crate) fn into_end(mut self, now: LimitCounts) -> (ExecEnd, OutputLog, Option<ExecCgroup>) {
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
        let counted = self.cgroup.as_ref().and_then(ExecCgroup::cpu_us);
        let cpu_us = counted.or(self.ended.map(|reaped| reaped.cpu_us)).unwrap_or(0);
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
        };
        (end, self.log, self.cgroup)
    }
}

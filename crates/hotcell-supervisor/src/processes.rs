//! Starting and collecting processes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use hotcell_jail::cgroup::Meter;
use hotcell_jail::process::{
    EXECVE_STEP, Ending, Identity, Launch, LaunchError, Others, Reaped, Report, Streams, Wait, reap,
};
use hotcell_jail::{proctree, pty};
use hotcell_journal::{Entry, OutputLog};
use hotcell_model::{
    Command, EndCause, ExecEnd, ExecSpec, SessionTurn, Stdin, Stream, TerminalSize, Timestamp,
};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Gid, Pid, Uid, getpid};

use crate::cell::{Supervisor, TIMEOUT_GRACE, end_without_process};
use crate::clock::Moment;
use crate::code::{CodeEnds, TheirCode, sealed, wire_code};
use crate::event_loop::Slot;
use crate::exec::{Exec, LimitCounts, Parts, Running, State, Step, Turn};
use crate::family::{Family, Main};
use crate::input::{Input, Sink};
use crate::launch::Prepared;
use crate::output::{Flow, Output, fair_share};
use crate::sessions::{Stay, turn_of};
use crate::warm::{control_pair, send_run};

/// How long it is waited for the death of processes that were killed: nothing but the kernel can
/// keep them, and only an exec that kills its own subreaper gets here.
const ORPHAN_LOOKS: u32 = 200;
/// How long what may be the beginning of a secret is held for the rest of it.
const HELD_FOR: Duration = Duration::from_millis(100);
/// How long whoever started code may take to carry its calls; without that they fail.
const CARRIED_WITHIN: Duration = Duration::from_secs(10);
const ORPHAN_PAUSE: Duration = Duration::from_millis(1);

/// The supervisor's and the exec's ends of its streams.
struct Wiring {
    code: Option<(CodeEnds, TheirCode)>,
    outputs: [Option<Output>; 2],
    input: Option<Input>,
    terminal: Option<OwnedFd>,
    theirs: Theirs,
}

/// This end of code that a process has taken on.
struct Handed {
    outputs: [Option<Output>; 2],
    input: Option<Input>,
    log: OutputLog,
    code: CodeEnds,
    before: LimitCounts,
}

impl Handed {
    fn taken_on_by(self, family: Family, turn: Option<Turn>) -> Parts {
        let Self { outputs, input, log, code, before } = self;
        let (terminal, code, timeout, cpu) = (None, Some(code), None, None);
        let grace = TIMEOUT_GRACE;
        Parts { family, turn, log, outputs, input, terminal, code, timeout, cpu, grace, before }
    }
}

enum Theirs {
    Pipes { stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd },
    Terminal(OwnedFd),
}

impl Supervisor {
    /// Starts an exec that has its turn.
    pub(crate) fn launch(&mut self, number: u32, prepared: Prepared) {
        let (spec, carried) = match self.execs.get_mut(&number).map(|exec| &mut exec.state) {
            Some(State::Queued(queued)) => (queued.spec.clone(), queued.calls.take()),
            Some(State::Running(_) | State::Ended(_)) | None => return,
        };
        let carried = carried.as_ref();
        let (mut parts, turns) = match self.begin(number, &spec, &prepared, carried) {
            Ok(begun) => begun,
            Err(error) => {
                let code = exit_code_for(&error);
                return self.fail_to_start(number, code, &start_failure(&spec.command, &error));
            }
        };
        parts.timeout = spec.timeout_ms.map(Duration::from_millis);
        parts.cpu = spec.code.cpu_ms.map(Duration::from_millis);
        parts.grace = match &spec.command {
            Command::Shell(_) | Command::Argv(_) => {
                spec.bounds.grace_ms.map_or(TIMEOUT_GRACE, Duration::from_millis)
            }
            // It has nothing to tidy up that would be worth going on for, and may well not listen.
            Command::Code(_) => Duration::ZERO,
        };
        let at = Timestamp::now();
        let pid = u32::try_from(parts.family.leader().as_raw_nonzero().get()).ok();
        self.journal.append(&Entry::Started { exec: spec.id.clone(), pid, at });
        self.processes.insert(parts.family.child().as_raw_nonzero().get(), number);
        if let Some(size) = spec.pty.filter(|size| *size != TerminalSize::default()) {
            self.note_terminal_size(&spec.id, size, 0);
        }
        if let (Some(turn), Some(turns)) = (turn_of(&spec), turns) {
            let (name, is_new) = (turn.name.clone(), true);
            self.open_session(number, name.clone(), turns);
            parts.turn = Some(Turn { name, is_new, cpu_us_before: 0, stays: false });
        }
        let mut running = Running::new(parts);
        if let Stdin::Text(text) = &spec.stdin
            && let Some(input) = &mut running.input
        {
            // A pipe that was just made takes what is pushed.
            let _ = input.push(text.clone().into_bytes(), true, None);
        }
        if let Some(exec) = self.execs.get_mut(&number) {
            if let State::Queued(queued) = &mut exec.state
                && let (Some(input), Some(kept)) = (&mut running.input, queued.input.take())
            {
                input.begin_with(kept);
            }
            (exec.started_at, exec.pid) = (Some(at), pid);
            exec.state = State::Running(Box::new(running));
        }
        self.running.insert(number);
        self.watch(number);
        if let Command::Code(code) = &spec.command {
            if carried.is_none() {
                self.uncarried.insert(number, Moment::now().after(CARRIED_WITHIN));
            }
            if !code.language.is_script() {
                self.keep_warm();
            }
        }
        self.write_input(number);
        self.step(number);
    }

    /// Has a process take the exec on: one that waits for the next run of its session, one that was
    /// forked ahead of need, or one that is started for it. With a process that is new to its session
    /// comes the socket on which that is told of its next runs.
    fn begin(
        &mut self,
        number: u32,
        spec: &ExecSpec,
        prepared: &Prepared,
        carried: Option<&OwnedFd>,
    ) -> std::result::Result<(Parts, Option<OwnedFd>), LaunchError> {
        if let Some(turn) = turn_of(spec) {
            if turn.reset {
                self.dismiss_session(&turn.name);
            }
            if let Some(parts) = self.run_parked(number, turn, spec, prepared, carried) {
                return Ok((parts, None));
            }
        }
        let warm = match (&spec.command, spec.as_root) {
            (Command::Code(code), false) if !code.language.is_script() => {
                self.run_warm(spec, prepared, carried)
            }
            (Command::Code(_) | Command::Shell(_) | Command::Argv(_), _) => None,
        };
        match warm {
            Some(begun) => Ok(begun),
            None => self.launch_process(spec, prepared, carried),
        }
    }

    fn launch_process(
        &mut self,
        spec: &ExecSpec,
        prepared: &Prepared,
        carried: Option<&OwnedFd>,
    ) -> std::result::Result<(Parts, Option<OwnedFd>), LaunchError> {
        let failed = |step: &'static str| move |source: io::Error| LaunchError { step, source };
        let mut turns = None;
        let mut wiring =
            wire(spec, prepared.identity).map_err(failed("open the standard streams"))?;
        if let Command::Code(code) = &spec.command {
            let ends = wire_code(spec, code, None, carried);
            let (ours, mut theirs) = ends.map_err(failed("hand the code over"))?;
            if code.session.is_some() {
                let (our_turns, their_turns) = control_pair().map_err(failed("open a session"))?;
                theirs.turns = Some(their_turns);
                turns = Some(our_turns);
            }
            if code.language.is_script() {
                let reader = self.reader_of_scripts().map_err(failed("hand hotcell over"))?;
                theirs.reader = Some(reader);
            }
            wiring.code = Some((ours, theirs));
        }
        let cgroup = match &mut self.exec_cgroups {
            Some(groups) => Some(groups.take().map_err(failed("make a cgroup"))?),
            None => None,
        };
        let log = OutputLog::new(self.records.as_fd(), &spec.id, self.output_bytes(spec))
            .map_err(failed("open the output log"))?;
        let before = self.limit_counts();
        let entry = cgroup.as_ref().map(|group| group.entry());
        let source = runner_text(&spec.command).map(|text| sealed("runner", text.as_bytes()));
        let source = source.transpose().map_err(failed("hand the runner over"))?;
        let handed = match (&wiring.code, &source) {
            (Some((_, theirs)), Some(source)) => Some(theirs.with(source)),
            (_, _) => None,
        };
        let launch = Launch {
            program: &prepared.program,
            argv: &prepared.argv,
            env: &prepared.env,
            cwd: prepared.cwd.as_fd(),
            streams: match &wiring.theirs {
                Theirs::Pipes { stdin, stdout, stderr } => Streams::Pipes {
                    stdin: stdin.as_fd(),
                    stdout: stdout.as_fd(),
                    stderr: stderr.as_fd(),
                },
                Theirs::Terminal(peer) => Streams::Terminal(peer.as_fd()),
            },
            identity: prepared.identity,
            rlimits: &prepared.rlimits,
            cgroup: entry.unwrap_or(hotcell_jail::process::Cgroup::Inherit),
            extra: handed.as_ref().map_or(&[], |handed| handed.as_slice()),
        };
        let launched = if self.exec_cgroups.is_some() {
            self.launcher.launch(&launch).map(Main::Child)
        } else {
            self.launcher.launch_reaped(&launch).map(|launched| Main::Reaped {
                main: launched.main,
                reaper: launched.reaper,
                report: launched.report,
                reaper_ended: false,
            })
        };
        drop(wiring.theirs);
        match launched {
            Ok(main) => {
                if self.memory.is_some() {
                    let (Main::Child(pid) | Main::Reaped { main: pid, .. }) = &main;
                    prefer_for_oom(*pid);
                }
                let Wiring { outputs, input, terminal, code, .. } = wiring;
                let code = code.map(|(ours, _)| ours);
                let (timeout, cpu, grace) = (None, None, TIMEOUT_GRACE);
                let (family, turn) = (Family::new(main, cgroup), None);
                let parts = Parts {
                    family,
                    turn,
                    log,
                    outputs,
                    input,
                    terminal,
                    code,
                    timeout,
                    cpu,
                    grace,
                    before,
                };
                Ok((parts, turns))
            }
            Err(error) => {
                match (&mut self.exec_cgroups, cgroup) {
                    (Some(groups), Some(group)) => groups.give_back(group),
                    // A command may have killed its subreaper before that could tell of it.
                    (_, _) => self.kill_orphans(),
                }
                Err(error)
            }
        }
    }

    /// Has a child take code on that was forked ahead of need; `None` where there is none.
    fn run_warm(
        &mut self,
        spec: &ExecSpec,
        prepared: &Prepared,
        carried: Option<&OwnedFd>,
    ) -> Option<(Parts, Option<OwnedFd>)> {
        let claimed = self.claim_warm(&spec.code)?;
        let Some(handed) = self.hand_over(spec, prepared, carried, &claimed.control) else {
            self.drop_claimed(claimed);
            return None;
        };
        if self.memory.is_some() {
            prefer_for_oom(claimed.pid);
        }
        let family = Family::new(Main::Child(claimed.pid), Some(claimed.cgroup));
        let turns = turn_of(spec).map(|_| claimed.control);
        Some((handed.taken_on_by(family, None), turns))
    }

    /// Has the process take code on that has the variables of its session; `None` where there is
    /// none.
    fn run_parked(
        &mut self,
        number: u32,
        turn: &SessionTurn,
        spec: &ExecSpec,
        prepared: &Prepared,
        carried: Option<&OwnedFd>,
    ) -> Option<Parts> {
        let control = self.sessions.waiting(&turn.name)?;
        let Some(handed) = self.hand_over(spec, prepared, carried, control) else {
            self.dismiss_session(&turn.name);
            return None;
        };
        let family = self.resume_session(number, &turn.name)?;
        let (name, cpu_us_before) = (turn.name.clone(), family.used().cpu_us);
        let turn = Turn { name, is_new: false, cpu_us_before, stays: false };
        Some(handed.taken_on_by(family, Some(turn)))
    }

    /// Sends code to a process that waits for it.
    fn hand_over(
        &self,
        spec: &ExecSpec,
        prepared: &Prepared,
        carried: Option<&OwnedFd>,
        control: &OwnedFd,
    ) -> Option<Handed> {
        let Command::Code(code) = &spec.command else { return None };
        let env = Some(prepared.variables.clone());
        let (ours, theirs) = wire_code(spec, code, env, carried).ok()?;
        let wiring = wire(spec, prepared.identity).ok()?;
        let bound = self.output_bytes(spec);
        let log = OutputLog::new(self.records.as_fd(), &spec.id, bound).ok()?;
        let Theirs::Pipes { stdin, stdout, stderr } = &wiring.theirs else { return None };
        let given = [
            stdin.as_fd(),
            stdout.as_fd(),
            stderr.as_fd(),
            prepared.cwd.as_fd(),
            theirs.calls.as_fd(),
            theirs.report.as_fd(),
            theirs.order.as_fd(),
        ];
        let before = self.limit_counts();
        if !send_run(control, &given) {
            return None;
        }
        let Wiring { outputs, input, .. } = wiring;
        Some(Handed { outputs, input, log, code: ours, before })
    }

    /// A program wants something done that only this process may do.
    pub(crate) fn answer_question(&self) {
        if let Some(questions) = self.launcher.questions() {
            questions.answer_one();
        }
    }

    /// How much of an exec's output is kept.
    pub(crate) fn output_bytes(&self, spec: &ExecSpec) -> u64 {
        spec.bounds.output_bytes.unwrap_or(self.plan.spec.output_bytes)
    }

    fn limit_counts(&self) -> LimitCounts {
        LimitCounts {
            oom_kills: self.memory.as_ref().and_then(Meter::oom_kills).unwrap_or(0),
            refused_pids: self.pids.as_ref().and_then(Meter::refused_pids).unwrap_or(0),
        }
    }

    /// Ends an exec whose program could not be run, the way a shell does.
    pub(crate) fn fail_to_start(&mut self, number: u32, code: i32, message: &str) {
        let end = ExecEnd { exit_code: Some(code), ..end_without_process(EndCause::Exited) };
        self.end_unstarted(number, end, message);
    }

    /// Ends an exec that never had a process, and tells it why.
    pub(crate) fn end_unstarted(&mut self, number: u32, mut end: ExecEnd, message: &str) {
        let Some(exec) = self.execs.get_mut(&number) else { return };
        let log = OutputLog::new(self.records.as_fd(), &exec.id, exec.output_bytes);
        let text = format!("hotcell: {message}\n");
        if let Ok(mut log) = log {
            let seqs = log.append(Stream::Stderr, Timestamp::now(), text.as_bytes());
            exec.last_seq = *seqs.end();
            log.finish();
            end.usage.stderr_bytes = text.len() as u64;
        }
        self.record_end(number, end);
    }

    /// Takes what an exec's subreaper has to tell.
    pub(crate) fn read_report(&mut self, number: u32) {
        if let Some(running) = self.running_mut(number)
            && let Main::Reaped { report, .. } = &running.family.main
        {
            let mut bytes = [0; Report::BYTES];
            if rustix::io::read(report, &mut bytes) == Ok(Report::BYTES) {
                match Report::from_bytes(&bytes) {
                    Some(Report { end, others: Others::None }) => running.reaper_ended(end),
                    Some(Report { end, others: Others::Some }) => running.main_ended(end),
                    None => {}
                }
            }
        }
        self.step(number);
    }

    /// Collects every child that has ended.
    pub(crate) fn collect_children(&mut self) {
        let mut orphaned = false;
        while let Ok(Some(end)) = reap(Wait::Poll) {
            // A subreaper that nobody killed ends after the last of its descendants.
            orphaned |= self.launcher.forget(end.pid) && end.ending() != Ending::Exited(0);
            let pid = end.pid.as_raw_nonzero().get();
            if let Some(number) = self.processes.remove(&pid) {
                self.note_child_end(number, end);
            } else if self.files.is_process(pid) {
                self.note_files_end(end.pid);
            } else if self.sessions.is_process(end.pid) {
                self.note_session_end(end.pid);
            } else {
                self.note_warm_end(pid);
            }
        }
        self.launcher.wake_reapers();
        self.tidy_warm();
        self.tidy_sessions();
        if orphaned {
            self.kill_orphans();
        }
        for number in self.running.clone() {
            self.step(number);
        }
    }

    fn note_child_end(&mut self, number: u32, end: Reaped) {
        let Some(running) = self.running_mut(number) else { return };
        match &running.family.main {
            Main::Child(_) => running.main_ended(end),
            Main::Reaped { .. } => {
                // What it told before it ended comes first.
                self.read_report(number);
                if let Some(running) = self.running_mut(number) {
                    running.reaper_ended(end);
                }
            }
        }
    }

    /// Kills whatever came to this process because its subreaper is gone, and sees it die: the exec
    /// whose subreaper was killed ends right after this.
    fn kill_orphans(&mut self) {
        let own = getpid();
        for _ in 0..ORPHAN_LOOKS {
            // Unreadable /proc would be a broken cell.
            let is_known = |pid| {
                let of_session =
                    Pid::from_raw(pid).is_some_and(|pid| self.sessions.is_process(pid));
                of_session || self.processes.contains_key(&pid) || self.files.is_process(pid)
            };
            match proctree::kill_others(own, is_known) {
                Ok(0) | Err(_) => return,
                Ok(_) => std::thread::sleep(ORPHAN_PAUSE),
            }
        }
    }

    /// Moves an exec on towards its end.
    pub(crate) fn step(&mut self, number: u32) {
        let Some(running) = self.running_mut(number) else { return };
        match running.step() {
            Step::GoesOn(Some(at)) => {
                self.wake_at.insert(number, at);
            }
            Step::GoesOn(None) => {
                self.wake_at.remove(&number);
            }
            Step::Gone => {
                self.finish(number);
                self.start_waiting();
            }
        }
    }

    /// The last of an exec: what is still in its pipes, then its end.
    fn finish(&mut self, number: u32) {
        self.unwatch(number);
        let counts = self.limit_counts();
        let is_ending = self.closing.is_some() || self.is_root_changing();
        let Some(exec) = self.execs.get_mut(&number) else { return };
        let placeholder = State::Ended(end_without_process(EndCause::Lost));
        let State::Running(mut running) = std::mem::replace(&mut exec.state, placeholder) else {
            return;
        };
        for output in running.outputs.iter_mut().flatten() {
            output.drain(&mut running.log, &self.masks, &mut self.buffer);
        }
        self.unmask_at.remove(&number);
        if let Some(code) = &running.code {
            code.keep_report(self.records.as_fd(), &exec.id, &self.masks);
        }
        let stay = Stay::of(&running, &self.plan.spec.sessions, is_ending);
        if let Some(why) = stay.refusal() {
            running.log.append(Stream::Stderr, Timestamp::now(), why.as_bytes());
        }
        running.log.finish();
        exec.last_seq = running.log.last_seq();
        let answers = running.input.as_mut().map(Input::close).unwrap_or_default();
        let (mut end, family, turn) = running.into_end(counts);
        end.session = turn.as_ref().map(|turn| stay.told(turn.is_new));
        match turn {
            Some(turn) => self.leave_session(&turn, family, stay),
            None => self.give_back(family),
        }
        self.record_end(number, end);
        self.answer_input(answers);
    }

    /// Takes output that has come.
    pub(crate) fn read_output(&mut self, number: u32, slot: usize) {
        if self.is_outpaced(number) {
            return self.hold_back(number);
        }
        let Some(exec) = self.execs.get_mut(&number) else { return };
        let share = fair_share(exec.output_bytes);
        let State::Running(running) = &mut exec.state else { return };
        let Some(output) = running.outputs.get_mut(slot).and_then(Option::as_mut) else { return };
        let flow = output.read(&mut running.log, &self.masks, &mut self.buffer, share);
        if output.holds() {
            self.unmask_at.insert(number, Moment::now().after(HELD_FOR));
        }
        exec.last_seq = running.log.last_seq();
        self.fresh_output.insert(number);
        if flow == Flow::Closed {
            if let Some(output) = running.outputs[slot].take() {
                self.poller.remove(output.fd());
            }
            self.step(number);
        }
    }

    /// Lets go of what may be the beginning of a secret and was not gone on with.
    pub(crate) fn release_masked(&mut self, now: Moment) {
        let due = self.unmask_at.iter().filter(|(_, at)| **at <= now);
        for number in due.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.unmask_at.remove(&number);
            let Some(exec) = self.execs.get_mut(&number) else { continue };
            let State::Running(running) = &mut exec.state else { continue };
            for output in running.outputs.iter_mut().flatten() {
                output.release(&mut running.log, &self.masks);
            }
            exec.last_seq = running.log.last_seq();
            self.fresh_output.insert(number);
        }
    }

    /// Passes input on that waits.
    pub(crate) fn write_input(&mut self, number: u32) {
        let poller = self.poller.clone_handle();
        let Some(running) = self.running_mut(number) else { return };
        let Some(input) = &mut running.input else { return };
        let answers = input.write();
        if let Some(fd) = input.fd() {
            poller.set_writable(fd, Slot::Input.token(number), input.is_waiting());
        }
        self.answer_input(answers);
    }

    pub(crate) fn running_mut(&mut self, number: u32) -> Option<&mut Running> {
        match self.execs.get_mut(&number).map(|exec| &mut exec.state) {
            Some(State::Running(running)) => Some(running),
            Some(State::Queued(_) | State::Ended(_)) | None => None,
        }
    }

    fn watch(&mut self, number: u32) {
        let Some(Exec { state: State::Running(running), .. }) = self.execs.get(&number) else {
            return;
        };
        for (slot, output) in [Slot::First, Slot::Second].into_iter().zip(&running.outputs) {
            if let Some(output) = output {
                self.poller.add(output.fd(), slot.token(number));
            }
        }
        if let Main::Reaped { report, .. } = &running.family.main {
            self.poller.add(report.as_fd(), Slot::Report.token(number));
        }
    }

    fn unwatch(&mut self, number: u32) {
        let Some(Exec { state: State::Running(running), .. }) = self.execs.get(&number) else {
            return;
        };
        for output in running.outputs.iter().flatten() {
            self.poller.remove(output.fd());
        }
        if let Some(fd) = running.input.as_ref().and_then(Input::fd) {
            self.poller.remove(fd);
        }
        if let Main::Reaped { report, .. } = &running.family.main {
            self.poller.remove(report.as_fd());
        }
    }
}

fn wire(spec: &ExecSpec, identity: Identity) -> io::Result<Wiring> {
    if let Some(size) = spec.pty {
        let terminal = pty::open(size.rows, size.cols, identity)?;
        let input = terminal.controller.try_clone()?;
        let resize = terminal.controller.try_clone()?;
        return Ok(Wiring {
            outputs: [Some(Output::new(terminal.controller, Stream::Pty)), None],
            input: Some(Input::new(input, Sink::Terminal)),
            code: None,
            terminal: Some(resize),
            theirs: Theirs::Terminal(terminal.peer),
        });
    }
    let (out, their_out) = read_end()?;
    let (err, their_err) = read_end()?;
    let (stdin, input) = match spec.stdin {
        Stdin::Empty => {
            (rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?, None)
        }
        Stdin::Text(_) | Stdin::Open => {
            let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&ours, true)?;
            (theirs, Some(Input::new(ours, Sink::Pipe)))
        }
    };
    let pipes = [Some(&their_out), Some(&their_err), input.is_some().then_some(&stdin)];
    for pipe in pipes.into_iter().flatten() {
        // So that a command may open it again by the names in /dev. Without that it still works.
        let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
        let _ = rustix::fs::fchown(pipe, Some(uid), Some(gid));
    }
    Ok(Wiring {
        outputs: [Some(Output::new(out, Stream::Stdout)), Some(Output::new(err, Stream::Stderr))],
        input,
        code: None,
        terminal: None,
        theirs: Theirs::Pipes { stdin, stdout: their_out, stderr: their_err },
    })
}

fn read_end() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// When memory runs out, an exec goes before the supervisor does.
fn prefer_for_oom(pid: Pid) {
    // Without it the kernel chooses by size alone, which is nearly always the exec too.
    let _ = std::fs::write(format!("/proc/{}/oom_score_adj", pid.as_raw_nonzero()), "500");
}

/// As shells have it: 127 not found, 126 found and not runnable.
fn exit_code_for(error: &LaunchError) -> i32 {
    match (error.step, error.source.kind()) {
        (EXECVE_STEP, io::ErrorKind::NotFound) => 127,
        _ => 126,
    }
}

/// The text of the runner for code, which is started with it.
fn runner_text(command: &Command) -> Option<&'static str> {
    match command {
        Command::Code(code) if code.language.is_script() => Some(hotcell_runner::script_source()),
        Command::Code(_) => Some(hotcell_runner::source()),
        Command::Shell(_) | Command::Argv(_) => None,
    }
}

fn start_failure(command: &Command, error: &LaunchError) -> String {
    if error.step == EXECVE_STEP {
        format!("cannot run {command}: {}", error.source)
    } else {
        format!("cannot start {command}: {error}")
    }
}

//! What engines and the keeper ask, and what they are told.

use std::os::fd::AsFd;
use std::time::Duration;

use hotcell_jail::pty;
use hotcell_link::{Ask, Frame, FrameKind, GivenSecret, PeerError, Tell};
use hotcell_model::{
    CancelStatus, CellSpec, CloseReason, Error, ExecId, Keep, Pace, Result, TerminalSize,
};

use crate::cell::{Supervisor, input_closed, input_refused};
use crate::clock::Moment;
use crate::connection::Standing;
use crate::exec::State;
use crate::following::{Follower, Progress};
use crate::input::{Asker, Kept};
use crate::lifetime::Lifetime;

impl Supervisor {
    /// Takes what a connection sent.
    pub(crate) fn read_connection(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let mut standing = connection.read();
        while standing == Standing::Open {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            match connection.next_frame() {
                Ok(Some(frame)) => {
                    if self.take_frame(id, &frame).is_err() {
                        standing = Standing::Closed;
                    }
                }
                Ok(None) => break,
                Err(_) => {
                    // The greeting tells the other end why.
                    let _ = connection.write();
                    standing = Standing::Closed;
                }
            }
        }
        if standing == Standing::Closed {
            self.drop_connection(id);
        }
    }

    fn take_frame(&mut self, id: u64, frame: &Frame) -> std::result::Result<(), PeerError> {
        match frame.kind {
            FrameKind::Ask => {
                let asker = (id, frame.channel);
                match frame.head::<Ask>() {
                    Ok(ask) => self.take_ask(asker, ask, frame.blob.clone()),
                    Err(error) => {
                        let error = Error::unsupported(format!(
                            "the cell's supervisor does not understand: {error}"
                        ))
                        .hint("the cell was made by another version of hotcell; spawn a new one");
                        self.tell(asker, &Tell::Failed(error));
                    }
                }
            }
            FrameKind::File => self.ask_files((id, frame.channel), frame),
            FrameKind::Data | FrameKind::Credit | FrameKind::Forget
                if self.pass_to_port((id, frame.channel), frame) => {}
            FrameKind::Data | FrameKind::Credit | FrameKind::Forget
                if self.pass_to_files((id, frame.channel), frame) => {}
            FrameKind::Credit => {
                let bytes: u32 = frame.head()?;
                if let Some(connection) = self.connections.get_mut(&id)
                    && let Some(follower) = connection.followers.get_mut(&frame.channel)
                {
                    follower.add_credit(bytes);
                }
                self.pump_connection(id);
            }
            FrameKind::Forget => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.followers.remove(&frame.channel);
                    connection.accepts.retain(|(channel, _)| *channel != frame.channel);
                }
            }
            FrameKind::Hello
            | FrameKind::Tell
            | FrameKind::Record
            | FrameKind::Ended
            | FrameKind::Activity
            | FrameKind::Data => {}
        }
        Ok(())
    }

    fn take_ask(&mut self, asker: Asker, ask: Ask, blob: Vec<u8>) {
        let answer = match ask {
            Ask::Start { mut spec, window, secrets } => {
                for GivenSecret { name, variable, value } in secrets {
                    self.masks.add(&name, value.as_bytes());
                    spec.env.entry(variable).or_insert(value);
                }
                let (id, pace) = (spec.id.clone(), spec.pace);
                if pace == Pace::Follower {
                    self.await_follower(asker.0, &id);
                }
                let started = self.start(*spec, asker.0).map(Tell::Started);
                match (started, window) {
                    (Ok(tell), Some(window)) => {
                        self.tell(asker, &tell);
                        if let Err(error) = self.follow(asker, id, 0, window) {
                            self.tell(asker, &Tell::Failed(error));
                        }
                        return;
                    }
                    (other, _) => other,
                }
            }
            Ask::Follow { exec, after_seq, window } => match self.number(&exec) {
                Ok(_) => {
                    self.tell(asker, &Tell::Done);
                    match self.follow(asker, exec, after_seq, window) {
                        Ok(()) => return,
                        Err(error) => Err(error),
                    }
                }
                Err(error) => Err(error),
            },
            Ask::Pace { exec } => self.pace(asker.0, exec),
            Ask::Input { exec, eof } => match self.push_input(asker, &exec, blob, eof) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            Ask::Resize { exec, size } => self.resize(&exec, size),
            Ask::InputState { exec } => self.input_state(&exec).map(Tell::InputState),
            Ask::Signal { exec, signal } => self.running_exec(&exec).map(|running| {
                running.signal(signal);
                Tell::Done
            }),
            Ask::Cancel { exec, signal, grace_ms } => {
                self.cancel(&exec, signal, Duration::from_millis(grace_ms)).map(|was_live| {
                    Tell::Cancelled(if was_live {
                        CancelStatus::Cancelled
                    } else {
                        CancelStatus::AlreadyEnded
                    })
                })
            }
            Ask::Answer { exec, answer, checkpoint } => {
                self.answer_approval(&exec, answer, checkpoint).map(|()| Tell::Done)
            }
            Ask::Hold => {
                self.set_holding(asker.0);
                Ok(Tell::Done)
            }
            Ask::Watch => {
                if let Some(connection) = self.connections.get_mut(&asker.0) {
                    connection.watches = Some(asker.1);
                }
                Ok(Tell::Done)
            }
            Ask::Disk(state) => {
                self.set_disk(state);
                Ok(Tell::Done)
            }
            Ask::Pause(stillness) => match self.pause(asker, stillness) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            Ask::Resume => {
                self.resume(asker.0);
                Ok(Tell::Done)
            }
            Ask::Stats => Ok(Tell::Stats(self.stats())),
            Ask::Dial { port, window } => match self.dial(asker, port, window) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            Ask::Calls { exec, window } => match self.carry_calls(asker, &exec, window) {
                Ok(()) => Ok(Tell::Done),
                Err(error) => Err(error),
            },
            Ask::Accept { window } => match self.accept_caller(asker, window) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            Ask::Assign { spec } => self.assign(*spec).map(|()| Tell::Done),
            Ask::Close { reason, force } => match self.ask_to_close(asker, reason, force) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
        };
        self.tell(asker, &answer.unwrap_or_else(Tell::Failed));
    }

    fn follow(
        &mut self,
        (id, channel): Asker,
        exec: ExecId,
        after_seq: u64,
        window: u32,
    ) -> Result<()> {
        let follower = Follower::new(self.records.as_fd(), exec, after_seq, window)
            .map_err(|error| Error::unavailable(format!("cannot open the output log: {error}")))?;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.followers.insert(channel, follower);
        }
        self.pump_connection(id);
        Ok(())
    }

    fn push_input(&mut self, asker: Asker, exec: &ExecId, bytes: Vec<u8>, end: bool) -> Result<()> {
        let number = self.number(exec)?;
        if let Some(State::Queued(queued)) = self.execs.get_mut(&number).map(|e| &mut e.state) {
            let input = queued.input.as_mut().ok_or_else(input_closed)?;
            if input.keep(bytes, end, asker).map_err(input_refused)? == Kept::Now {
                self.tell(asker, &Tell::Done);
            }
            return Ok(());
        }
        let running = self.running_exec(exec)?;
        let input = running.input.as_mut().ok_or_else(input_closed)?;
        input.push(bytes, end, Some(asker)).map_err(input_refused)?;
        self.write_input(number);
        Ok(())
    }

    fn resize(&mut self, exec: &ExecId, size: TerminalSize) -> Result<Tell> {
        let no_terminal =
            || Error::conflict(format!("exec {exec} has no terminal")).hint("start it with a pty");
        let number = self.number(exec)?;
        if let Some(State::Queued(queued)) = self.execs.get_mut(&number).map(|e| &mut e.state) {
            *queued.spec.pty.as_mut().ok_or_else(no_terminal)? = size;
            return Ok(Tell::Done);
        }
        let running = self.running_exec(exec)?;
        let terminal = running.terminal.as_ref().ok_or_else(no_terminal)?;
        pty::resize(terminal.as_fd(), size.rows, size.cols)
            .map_err(|error| Error::internal(format!("cannot resize the terminal: {error}")))?;
        // What was printed at the old size is in the log first.
        self.read_output(number, 0);
        let after_seq = self.execs.get(&number).map_or(0, |exec| exec.last_seq);
        self.note_terminal_size(exec, size, after_seq);
        Ok(Tell::Done)
    }

    fn running_exec(&mut self, exec: &ExecId) -> Result<&mut crate::exec::Running> {
        let number = self.number(exec)?;
        let message = match self.execs.get(&number) {
            Some(found) if found.end().is_none() => format!("exec {exec} is still queued"),
            Some(_) | None => format!("exec {exec} has ended"),
        };
        self.running_mut(number)
            .ok_or_else(|| Error::conflict(message).hint("look at it with `hotcell ps --all`"))
    }

    fn set_holding(&mut self, id: u64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.holds = true;
        }
        self.count_holders();
    }

    fn count_holders(&mut self) {
        let holders = self.connections.values().filter(|connection| connection.holds).count();
        self.lifetime.set_holders(holders, Moment::now());
    }

    /// Becomes the cell of somebody who asked for one. Whoever held it ahead of need holds it no more.
    fn assign(&mut self, mut spec: CellSpec) -> Result<()> {
        let own = &self.plan.spec;
        for (name, value) in &own.env {
            // What the image says, where the cell says nothing else.
            spec.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        if *own == spec {
            return Ok(());
        }
        let is_meant = spec.id == own.id && spec.tenant == own.tenant && spec.limits == own.limits;
        if own.keep != Keep::Pool || !is_meant {
            return Err(Error::conflict(format!("cell {} cannot be given out as this", own.id)));
        }
        for connection in self.connections.values_mut() {
            connection.holds = false;
        }
        self.lifetime = Lifetime::new(&spec, Moment::now());
        self.plan.spec = spec;
        Ok(())
    }

    fn ask_to_close(&mut self, asker: Asker, reason: CloseReason, force: bool) -> Result<()> {
        let live = self.running.len() + self.queue.len() + self.awaiting.len();
        if live > 0 && !force {
            return Err(self
                .busy()
                .hint("cancel them with `hotcell cancel`, or use force to end them"));
        }
        self.close(reason, Some(asker), Duration::ZERO);
        Ok(())
    }

    /// The error for what cannot be done while execs are live: names them.
    pub(crate) fn busy(&self) -> Error {
        const MOST_NAMES: usize = 5;
        let live = self.execs.values().filter(|exec| !matches!(exec.state, State::Ended(_)));
        let names: Vec<&str> = live.map(|exec| exec.id.as_str()).collect();
        let shown = names[..names.len().min(MOST_NAMES)].join(", ");
        Error::conflict(match names.len() {
            1 => format!("exec {shown} is still running in the cell"),
            count if count <= MOST_NAMES => format!("execs {shown} are still running in the cell"),
            count => format!("{count} execs are still running in the cell, among them {shown}"),
        })
    }

    pub(crate) fn drop_connection(&mut self, id: u64) {
        if let Some(connection) = self.connections.remove(&id) {
            self.poller.remove(connection.fd());
        }
        self.forget_files_of(id);
        self.forget_ports_of(id);
        self.match_callers();
        self.end_pause_of(id);
        self.count_holders();
    }

    /// Sends to followers of execs that have something new.
    pub(crate) fn pump_fresh(&mut self) {
        let fresh = std::mem::take(&mut self.fresh_output);
        if fresh.is_empty() {
            return;
        }
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            self.pump(id, |number| fresh.contains(&number));
        }
    }

    /// Sends to the followers of one connection what there is.
    pub(crate) fn pump_connection(&mut self, id: u64) {
        self.pump(id, |_| true);
    }

    fn pump(&mut self, id: u64, wanted: impl Fn(u32) -> bool) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (execs, numbers, peer) = (&self.execs, &self.numbers, &mut connection.peer);
        connection.followers.retain(|channel, follower| {
            let Some(number) = numbers.get(&follower.exec) else { return false };
            let Some(exec) = execs.get(number).filter(|_| wanted(*number)) else { return true };
            follower.pump(peer, *channel, exec.last_seq, exec.end()) == Progress::Waiting
        });
    }
}

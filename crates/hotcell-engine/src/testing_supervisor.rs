//! A stand-in for a supervisor: real journal, real logs, real frames; execs that a test plays.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use hotcell_journal::{Align, Ended, Entry, JournalWriter, LogReader, OutputLog};
use hotcell_link::{Ask, Frame, FrameKind, Peer, RecordHead, Started, Tell};
use hotcell_model::{
    CancelStatus, CellStats, CloseReason, Command, EndCause, Error, ExecEnd, ExecId, ExecSpec,
    ExecState, Signal, Stream, Timestamp, Usage,
};

/// What becomes of the next question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection breaks before it is read.
    LoseQuestion,
    /// It is done, and the connection breaks before the answer.
    LoseAnswer,
    /// It is done, and the supervisor dies before the answer.
    DieAfterDoing,
}

/// A supervisor that lives in threads of the test.
#[derive(Debug)]
pub(crate) struct FakeSupervisor {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    alive: bool,
    records: PathBuf,
    directory: File,
    output_bytes: u64,
    journal: JournalWriter,
    execs: BTreeMap<ExecId, FakeExec>,
    connections: HashMap<u32, Connection>,
    next_connection: u32,
    faults: Vec<Fault>,
    starts: u32,
    holds: u32,
    queue_next: bool,
}

#[derive(Debug)]
struct FakeExec {
    log: OutputLog,
    queued_at: Timestamp,
    started_at: Option<Timestamp>,
    end: Option<ExecEnd>,
    input: Vec<u8>,
    eof: bool,
    signals: Vec<Signal>,
}

#[derive(Debug)]
struct Connection {
    peer: Peer,
    stream: UnixStream,
    follows: HashMap<u32, (ExecId, u64)>,
}

impl FakeSupervisor {
    pub(crate) fn start(records: &Path, output_bytes: u64) -> Arc<Self> {
        let directory = File::open(records).unwrap();
        let (mut journal, lost) = JournalWriter::open(directory.as_fd()).unwrap();
        let at = Timestamp::now();
        journal.append(&Entry::Opened { at, boot: "boot".to_owned(), software: "fake".to_owned() });
        for exec in lost {
            journal.append(&Entry::Ended { exec, end: end(EndCause::Lost, None) });
        }
        let state = State {
            alive: true,
            records: records.to_owned(),
            directory,
            output_bytes,
            journal,
            execs: BTreeMap::new(),
            connections: HashMap::new(),
            next_connection: 0,
            faults: Vec::new(),
            starts: 0,
            holds: 0,
            queue_next: false,
        };
        Arc::new(Self { state: Mutex::new(state) })
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.state().alive
    }

    pub(crate) fn connect(self: &Arc<Self>) -> Option<UnixStream> {
        let mut state = self.state();
        if !state.alive {
            return None;
        }
        let (ours, theirs) = UnixStream::pair().unwrap();
        let id = state.next_connection;
        state.next_connection += 1;
        let reader = ours.try_clone().unwrap();
        let mut connection =
            Connection { peer: Peer::new(), stream: ours, follows: HashMap::new() };
        connection.flush();
        state.connections.insert(id, connection);
        let this = Arc::clone(self);
        thread::spawn(move || this.serve(id, reader));
        Some(theirs)
    }

    /// Lets the next questions go wrong, one after the other.
    pub(crate) fn inject(&self, faults: &[Fault]) {
        self.state().faults.extend(faults.iter().rev());
    }

    /// Lets the next exec wait in the queue.
    pub(crate) fn queue_next(&self) {
        self.state().queue_next = true;
    }

    pub(crate) fn begin_queued(&self, exec: &ExecId) {
        let mut state = self.state();
        state.begin(exec);
    }

    /// Breaks every connection and lives on.
    pub(crate) fn drop_links(&self) {
        self.state().drop_links();
    }

    /// Dies without a word, and lets nobody wait for it to be noticed.
    pub(crate) fn kill(&self) {
        self.state().die();
    }

    /// Dies without a word. Every engine that was connected knows it after this.
    pub(crate) async fn die(&self) {
        self.kill();
        self.noticed().await;
    }

    /// Ends by itself. Every engine that was connected knows it after this.
    pub(crate) async fn close(&self, reason: CloseReason) {
        self.close_at(reason, Timestamp::now()).await;
    }

    pub(crate) async fn close_at(&self, reason: CloseReason, at: Timestamp) {
        {
            let mut state = self.state();
            state.journal.append(&Entry::Closed { reason, at });
            state.die();
        }
        self.noticed().await;
    }

    /// Waits until every engine has hung up, which each does once it has read the end of its link.
    async fn noticed(&self) {
        while !self.state().connections.is_empty() {
            tokio::task::yield_now().await;
        }
    }

    /// Prints as an exec.
    pub(crate) fn print(&self, exec: &ExecId, stream: Stream, bytes: &[u8]) {
        let mut state = self.state();
        let log = &mut state.execs.get_mut(exec).unwrap().log;
        log.append(stream, Timestamp::now(), bytes);
        state.pump();
    }

    /// Ends an exec with this exit code.
    pub(crate) fn exit(&self, exec: &ExecId, code: i32) {
        let mut state = self.state();
        state.finish(exec, end(EndCause::Exited, Some(code)));
    }

    /// Writes a line into the journal that the cell had no reason to write.
    pub(crate) fn forge(&self, entry: &Entry) {
        self.state().journal.append(entry);
    }

    /// Prints and ends an exec, and sends its followers nothing but the end.
    pub(crate) fn exit_unheard(&self, exec: &ExecId, bytes: &[u8]) {
        let mut state = self.state();
        let log = &mut state.execs.get_mut(exec).unwrap().log;
        let seqs = log.append(Stream::Stdout, Timestamp::now(), bytes);
        let follows = state.connections.values_mut().flat_map(|c| c.follows.values_mut());
        follows.for_each(|(_, last_seq)| *last_seq = *seqs.end());
        state.finish(exec, end(EndCause::Exited, Some(0)));
    }

    /// How many execs were really started.
    pub(crate) fn starts(&self) -> u32 {
        self.state().starts
    }

    /// The execs that have not ended.
    pub(crate) fn running(&self) -> Vec<ExecId> {
        self.state().running()
    }

    pub(crate) fn holds(&self) -> u32 {
        self.state().holds
    }

    pub(crate) fn followers(&self) -> usize {
        self.state().connections.values().map(|connection| connection.follows.len()).sum()
    }

    pub(crate) fn input(&self, exec: &ExecId) -> (Vec<u8>, bool) {
        let state = self.state();
        let exec = &state.execs[exec];
        (exec.input.clone(), exec.eof)
    }

    pub(crate) fn signals(&self, exec: &ExecId) -> Vec<Signal> {
        self.state().execs[exec].signals.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn serve(&self, id: u32, mut reader: UnixStream) {
        let mut buffer = [0; 65536];
        loop {
            let length = reader.read(&mut buffer).unwrap_or(0);
            let mut state = self.state();
            if length == 0 {
                state.connections.remove(&id);
            }
            let alive = state.alive;
            let Some(connection) = state.connections.get_mut(&id) else { return };
            if !alive {
                continue;
            }
            connection.peer.receive(&buffer[..length]);
            while let Some(frame) =
                state.connections.get_mut(&id).and_then(|c| c.peer.next_frame().unwrap())
            {
                state.handle(id, &frame);
            }
        }
    }
}

impl State {
    fn handle(&mut self, id: u32, frame: &Frame) {
        match frame.kind {
            FrameKind::Ask => {}
            FrameKind::Forget => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.follows.remove(&frame.channel);
                }
                return;
            }
            FrameKind::Hello
            | FrameKind::Tell
            | FrameKind::Record
            | FrameKind::Ended
            | FrameKind::Activity
            | FrameKind::Credit
            | FrameKind::File
            | FrameKind::Data => return,
        }
        let fault = self.faults.pop();
        if fault == Some(Fault::LoseQuestion) {
            self.connections.remove(&id).unwrap().shut();
            return;
        }
        let (tell, follow) = self.answer(frame);
        match fault {
            Some(Fault::LoseAnswer) => self.connections.remove(&id).unwrap().shut(),
            Some(Fault::DieAfterDoing) => self.die(),
            Some(Fault::LoseQuestion) | None => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.peer.send(FrameKind::Tell, frame.channel, &tell);
                    if let Some(follow) = follow {
                        connection.follows.insert(frame.channel, follow);
                    }
                    connection.flush();
                }
                self.pump();
                if matches!(tell, Tell::Done) && matches!(frame.head().unwrap(), Ask::Close { .. })
                {
                    self.die();
                }
            }
        }
    }

    fn answer(&mut self, frame: &Frame) -> (Tell, Option<(ExecId, u64)>) {
        let ended = || Tell::Failed(Error::conflict("it has ended"));
        let unknown = || Tell::Failed(Error::not_found("no such exec here"));
        match frame.head().unwrap() {
            Ask::Start { spec, .. } => {
                let id = spec.id.clone();
                let tell = self.run(*spec);
                let follow = matches!(tell, Tell::Started(_)).then_some((id, 0));
                (tell, follow)
            }
            Ask::Follow { exec, after_seq, .. } => match self.execs.contains_key(&exec) {
                true => (Tell::Done, Some((exec, after_seq))),
                false => (unknown(), None),
            },
            Ask::Input { exec, eof } => {
                let tell = match self.execs.get_mut(&exec) {
                    None => unknown(),
                    Some(exec) if exec.end.is_some() => ended(),
                    Some(exec) => {
                        exec.input.extend_from_slice(&frame.blob);
                        exec.eof |= eof;
                        Tell::Done
                    }
                };
                (tell, None)
            }
            Ask::Pause(_) | Ask::Resume => (Tell::Done, None),
            Ask::Calls { .. } | Ask::Accept { .. } => (ended(), None),
            Ask::Signal { exec, signal } => {
                let tell = match self.execs.get_mut(&exec) {
                    None => unknown(),
                    Some(exec) if exec.end.is_some() => ended(),
                    Some(exec) => {
                        exec.signals.push(signal);
                        Tell::Done
                    }
                };
                (tell, None)
            }
            Ask::Cancel { exec, .. } => (self.cancel(&exec), None),
            Ask::Pace { .. } | Ask::Answer { .. } => (Tell::Done, None),
            Ask::Hold => {
                self.holds += 1;
                (Tell::Done, None)
            }
            Ask::Stats => {
                let running = u32::try_from(self.running().len()).unwrap();
                (Tell::Stats(CellStats { running, ..CellStats::default() }), None)
            }
            Ask::Close { reason, force } => (self.close(reason, force), None),
            Ask::InputState { .. } => (Tell::Failed(Error::unsupported("not known here")), None),
            Ask::Resize { .. }
            | Ask::Watch
            | Ask::Disk(_)
            | Ask::Dial { .. }
            | Ask::Assign { .. } => (Tell::Done, None),
        }
    }

    fn run(&mut self, spec: ExecSpec) -> Tell {
        let id = spec.id.clone();
        if !self.execs.contains_key(&id) {
            let text = spec.command.to_string();
            if text == "refuse" {
                return Tell::Failed(Error::unsupported("there is no uid 0 here"));
            }
            self.starts += 1;
            let at = Timestamp::now();
            let (pty, as_root) = (spec.pty.is_some(), spec.as_root);
            let command: Command = spec.command;
            self.journal.append(&Entry::Queued {
                exec: id.clone(),
                command,
                pty,
                as_root,
                keep_s: spec.bounds.keep_s,
                at,
            });
            let log = OutputLog::new(self.directory.as_fd(), &id, self.output_bytes).unwrap();
            let exec = FakeExec {
                log,
                queued_at: at,
                started_at: None,
                end: None,
                input: Vec::new(),
                eof: false,
                signals: Vec::new(),
            };
            self.execs.insert(id.clone(), exec);
            if !std::mem::take(&mut self.queue_next) {
                self.begin(&id);
                self.play(&id, &text);
            }
        }
        let exec = &self.execs[&id];
        let state = match (&exec.end, exec.started_at) {
            (Some(_), _) => ExecState::Ended,
            (None, Some(_)) => ExecState::Running,
            (None, None) => ExecState::Queued,
        };
        Tell::Started(Started {
            state,
            queued_at: exec.queued_at,
            started_at: exec.started_at,
            pid: None,
            approval: None,
            end: exec.end.clone(),
        })
    }

    fn play(&mut self, id: &ExecId, text: &str) {
        let Some(words) = text.strip_prefix("echo ") else { return };
        let line = format!("{words}\n");
        let log = &mut self.execs.get_mut(id).unwrap().log;
        log.append(Stream::Stdout, Timestamp::now(), line.as_bytes());
        self.finish(id, end(EndCause::Exited, Some(0)));
    }

    fn begin(&mut self, id: &ExecId) {
        let at = Timestamp::now();
        self.execs.get_mut(id).unwrap().started_at = Some(at);
        self.journal.append(&Entry::Started { exec: id.clone(), pid: None, at });
    }

    fn cancel(&mut self, id: &ExecId) -> Tell {
        match self.execs.get(id) {
            None => Tell::Failed(Error::not_found("no such exec here")),
            Some(exec) if exec.end.is_some() => Tell::Cancelled(CancelStatus::AlreadyEnded),
            Some(_) => {
                self.finish(id, end(EndCause::Cancelled, None));
                Tell::Cancelled(CancelStatus::Cancelled)
            }
        }
    }

    fn close(&mut self, reason: CloseReason, force: bool) -> Tell {
        let running = self.running();
        if !running.is_empty() && !force {
            return Tell::Failed(Error::conflict(format!("{} execs run", running.len())));
        }
        for exec in running {
            self.finish(&exec, end(EndCause::Cancelled, None));
        }
        self.journal.append(&Entry::Closed { reason, at: Timestamp::now() });
        Tell::Done
    }

    fn running(&self) -> Vec<ExecId> {
        let live = self.execs.iter().filter(|(_, exec)| exec.end.is_none());
        live.map(|(id, _)| id.clone()).collect()
    }

    fn finish(&mut self, id: &ExecId, mut end: ExecEnd) {
        let exec = self.execs.get_mut(id).unwrap();
        exec.log.finish();
        end.usage = Usage {
            stdout_bytes: exec.log.bytes(Stream::Stdout),
            stderr_bytes: exec.log.bytes(Stream::Stderr),
            ..Usage::default()
        };
        exec.end = Some(end.clone());
        self.journal.append(&Entry::Ended { exec: id.clone(), end });
        self.pump();
    }

    /// Sends every follower what it has not got.
    fn pump(&mut self) {
        for connection in self.connections.values_mut() {
            let mut done = Vec::new();
            for (channel, (exec, last_seq)) in &mut connection.follows {
                let mut log = LogReader::at(&self.records, exec).unwrap();
                let batch = log.read_after(*last_seq, u64::MAX, Align::Raw, Ended::NotYet).unwrap();
                for record in batch.records {
                    *last_seq = record.seq;
                    let (seq, ts, stream) = (record.seq, record.ts, record.stream);
                    let head = RecordHead { seq, ts, stream };
                    connection.peer.send_with_blob(
                        FrameKind::Record,
                        *channel,
                        &head,
                        &record.bytes,
                    );
                }
                if let Some(end) = self.execs.get(exec).and_then(|exec| exec.end.as_ref()) {
                    connection.peer.send(FrameKind::Ended, *channel, end);
                    done.push(*channel);
                }
            }
            for channel in done {
                connection.follows.remove(&channel);
            }
            connection.flush();
        }
    }

    fn drop_links(&mut self) {
        for (_, connection) in self.connections.drain() {
            connection.shut();
        }
    }

    /// Says no more. A connection goes when its other end hangs up.
    fn die(&mut self) {
        self.alive = false;
        for connection in self.connections.values() {
            let _ = connection.stream.shutdown(Shutdown::Write);
        }
    }
}

impl Connection {
    /// What is sent in a test fits into the socket, so that this never waits for its reader.
    fn flush(&mut self) {
        // A peer that hung up is noticed where it is read from.
        let _ = self.stream.write_all(self.peer.unsent());
        let length = self.peer.unsent().len();
        self.peer.mark_sent(length);
    }

    fn shut(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

pub(crate) fn end(cause: EndCause, exit_code: Option<i32>) -> ExecEnd {
    ExecEnd {
        cause,
        exit_code,
        signal: None,
        limit: None,
        limits_hit: Vec::new(),
        killed_descendants: 0,
        ended_at: Timestamp::now(),
        usage: Usage::default(),
        session: None,
    }
}

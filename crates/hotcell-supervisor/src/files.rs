//! The process that serves the cell's files, and the way of frames between it and connections.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use hotcell_files::Roots;
use hotcell_jail::process::{Groups, Identity, Surroundings, become_ordinary, end_now};
use hotcell_jail::{Forked, fork, keep_freed, signals};
use hotcell_link::{DiskState, FileAsk, Frame, FrameKind, FrameView, Tell, encode, view};
use hotcell_model::{Error, FileOp, LimitHit, Result, Signal};
use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags, fstat, openat};
use rustix::process::Pid;

use crate::cell::Supervisor;
use crate::clock::Moment;
use crate::ground::{beginning, surroundings};
use crate::input::Asker;

/// How the event loop knows the process.
pub(crate) const FILES: u64 = 2;
const UNDO_LOG: &str = "files.undo";
const READ_BYTES: usize = 128 * 1024;
const KEPT_BYTES: usize = 256 * 1024;
/// What the process keeps of what it freed; it does not stay long.
const KEPT_FREED: usize = 8 << 20;
/// How long the process stays when it has nothing to do.
const STAYS: Duration = Duration::from_secs(30);
/// No watch is asked for by more.
const WATCH_BYTES: usize = 64 * 1024;
/// How long it may say nothing while it has something to do: it is stopped, by whom ever.
const SILENT: Duration = Duration::from_secs(20);

/// What is being done with files, for whom and by whom.
#[derive(Debug, Default)]
pub(crate) struct Files {
    process: Option<Process>,
    /// The process's channels and who asked on them.
    askers: HashMap<u32, Asker>,
    channels: HashMap<Asker, u32>,
    /// What nobody waits for any more and the process has not let go of yet.
    abandoned: HashSet<u32>,
    /// What of all that only looks on: it ends when nobody listens, and keeps the cell from nothing.
    watches: HashSet<u32>,
    last_channel: u32,
    leaves_at: Option<Moment>,
    /// Processes that were let go and have not ended yet.
    leaving: Vec<Pid>,
    /// What came during a pause.
    waiting: Vec<(Asker, Frame)>,
}

/// The process, as this one sees it.
#[derive(Debug)]
struct Process {
    /// None once its end was collected.
    pid: Option<Pid>,
    stream: UnixStream,
    received: Vec<u8>,
    to_send: Vec<u8>,
    awaits_room: bool,
    heard_at: Moment,
}

impl Files {
    /// Whether nothing is being done, but for looking on.
    pub(crate) fn is_idle(&self) -> bool {
        self.askers.keys().chain(&self.abandoned).all(|channel| self.watches.contains(channel))
    }

    /// Whether the process has nothing to do.
    fn is_unused(&self) -> bool {
        self.askers.is_empty() && self.abandoned.is_empty()
    }

    /// Whether a child is the process.
    pub(crate) fn is_process(&self, pid: i32) -> bool {
        let pid = Pid::from_raw(pid);
        let is_it = |process: &Process| process.pid.is_some() && process.pid == pid;
        self.process.as_ref().is_some_and(is_it)
            || pid.is_some_and(|pid| self.leaving.contains(&pid))
    }

    /// Whether there is no process at all.
    pub(crate) fn is_gone(&self) -> bool {
        self.process.is_none() && self.leaving.is_empty()
    }

    /// When the process is to leave, if nothing comes before.
    pub(crate) fn next_moment(&self) -> Option<Moment> {
        self.leaves_at.into_iter().chain(self.silent_at()).min()
    }

    /// When the process that has something to do has said nothing for too long.
    fn silent_at(&self) -> Option<Moment> {
        let process = self.process.as_ref().filter(|_| !self.is_unused())?;
        Some(process.heard_at.after(SILENT))
    }

    fn send(&mut self, kind: FrameKind, channel: u32, head: &[u8], blob: &[u8]) {
        if let Some(process) = &mut self.process {
            encode(kind, channel, head, blob, &mut process.to_send);
        }
    }

    fn forget(&mut self, channel: u32) -> Option<Asker> {
        let asker = self.askers.remove(&channel)?;
        self.channels.remove(&asker);
        Some(asker)
    }

    /// Nobody waits for this any more; the process is to stop and undo it.
    fn abandon(&mut self, channel: u32) {
        if self.forget(channel).is_some() {
            self.send(FrameKind::Forget, channel, b"null", &[]);
            self.abandoned.insert(channel);
        }
    }

    /// Lets the process leave some time after the last thing was done.
    fn note_end(&mut self) {
        if self.is_unused() {
            self.leaves_at = Some(Moment::now().after(STAYS));
        }
    }
}

impl Supervisor {
    /// Passes on what a connection wants done with files.
    pub(crate) fn ask_files(&mut self, asker: Asker, frame: &Frame) {
        if self.pause.is_some() {
            return self.files.waiting.push((asker, frame.clone()));
        }
        let refused = self.refuse_growth(frame);
        if let Err(error) = refused.and_then(|()| self.start_files()) {
            self.tell(asker, &Tell::Failed(error));
            return;
        }
        let files = &mut self.files;
        if files.is_unused()
            && let Some(process) = &mut files.process
        {
            process.heard_at = Moment::now();
        }
        files.last_channel = files.last_channel.wrapping_add(1);
        let channel = files.last_channel;
        files.askers.insert(channel, asker);
        files.channels.insert(asker, channel);
        if is_watch(frame) {
            files.watches.insert(channel);
        }
        files.leaves_at = None;
        files.send(FrameKind::File, channel, &frame.head, &frame.blob);
        self.note_activity();
        self.write_files();
    }

    /// A cell that is over its disk limit takes nothing more; what makes room goes on.
    fn refuse_growth(&mut self, frame: &Frame) -> Result<()> {
        let Some(DiskState { over: Some(limit), .. }) = self.disk else { return Ok(()) };
        match frame.head::<FileAsk>() {
            Ok(ask) if ask.op.lets_grow() => {
                let limits = &self.plan.spec.limits;
                let over = match limit {
                    LimitHit::DiskFiles => format!("{} files", limits.disk_files),
                    LimitHit::Disk
                    | LimitHit::Memory
                    | LimitHit::Pids
                    | LimitHit::Output
                    | LimitHit::Cpu => format!("{} MiB", limits.disk_mb),
                };
                Err(Error::limit_exceeded(format!("the cell is over its disk limit of {over}"))
                    .hint("delete files or checkpoints first"))
            }
            Ok(ask) if !ask.op.only_reads() => {
                self.take_as_tidied();
                Ok(())
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Passes on a later frame of a conversation about files; whether it is part of one.
    pub(crate) fn pass_to_files(&mut self, asker: Asker, frame: &Frame) -> bool {
        if self.files.waiting.iter().any(|(waiting, _)| *waiting == asker) {
            self.files.waiting.push((asker, frame.clone()));
            return true;
        }
        let Some(channel) = self.files.channels.get(&asker).copied() else { return false };
        if frame.kind == FrameKind::Forget {
            self.files.abandon(channel);
        } else {
            self.files.send(frame.kind, channel, &frame.head, &frame.blob);
        }
        self.write_files();
        true
    }

    /// Ends what a connection that is gone wanted done.
    pub(crate) fn forget_files_of(&mut self, connection: u64) {
        self.files.waiting.retain(|(asker, _)| asker.0 != connection);
        let channels: Vec<u32> = self
            .files
            .askers
            .iter()
            .filter(|(_, asker)| asker.0 == connection)
            .map(|(channel, _)| *channel)
            .collect();
        for channel in channels {
            self.files.abandon(channel);
        }
        self.write_files();
    }

    fn start_files(&mut self) -> Result<()> {
        if self.closing.is_some() {
            return Err(Error::unavailable("the cell is ending").hint("spawn another cell"));
        }
        if self.files.process.is_some() {
            return Ok(());
        }
        let ids = &self.plan.ids;
        let groups = if ids.setgroups { Groups::Cleared } else { Groups::Kept };
        let identity = Identity { uid: ids.uid, gid: ids.gid, groups };
        let process = open_undo_log(self.records.as_fd())
            .and_then(|log| {
                let place = Place {
                    surroundings: &surroundings(&self.plan),
                    beginning: beginning(&self.plan),
                };
                Process::start(identity, place, log)
            })
            .map_err(|error| {
                Error::unavailable(format!("cannot start the process that serves files: {error}"))
                    .hint("end some processes of the cell, or raise its limits")
            })?;
        self.poller.add(process.stream.as_fd(), FILES);
        self.files.process = Some(process);
        Ok(())
    }

    /// Lets changes that were cut off in the middle be brought to an end.
    pub(crate) fn recover_files(&mut self) {
        let unfinished = open_undo_log(self.records.as_fd())
            .and_then(|log| Ok(fstat(&log)?.st_size > 0))
            .unwrap_or(false);
        if unfinished && self.start_files().is_ok() {
            self.files.leaves_at = Some(Moment::now().after(STAYS));
        }
    }

    /// Takes what the process has to say.
    pub(crate) fn read_files(&mut self) {
        let Some(process) = &mut self.files.process else { return };
        if !process.read() {
            return self.end_files();
        }
        let received = std::mem::take(&mut process.received);
        let mut taken = 0;
        loop {
            match view(&received[taken..]) {
                Ok(Some((length, frame))) => {
                    taken += length;
                    if let Some(frame) = frame {
                        self.pass_from_files(frame);
                    }
                }
                Ok(None) => break,
                Err(_) => return self.end_files(),
            }
        }
        if let Some(process) = &mut self.files.process {
            process.received = received;
            process.received.drain(..taken);
            if process.received.is_empty() {
                // What a large answer took is given back; pid 1 lives long.
                process.received.shrink_to(KEPT_BYTES);
            }
        }
    }

    fn pass_from_files(&mut self, frame: FrameView<'_>) {
        let is_last = match frame.kind {
            FrameKind::Tell => true,
            FrameKind::Data | FrameKind::Credit => false,
            FrameKind::Hello
            | FrameKind::Ask
            | FrameKind::Record
            | FrameKind::Ended
            | FrameKind::Activity
            | FrameKind::Forget
            | FrameKind::File => return,
        };
        let asker = self.files.askers.get(&frame.channel).copied();
        if let Some((connection, channel)) = asker
            && let Some(connection) = self.connections.get_mut(&connection)
        {
            connection.peer.pass_on(frame, channel);
        }
        if is_last {
            self.files.forget(frame.channel);
            self.files.abandoned.remove(&frame.channel);
            self.files.watches.remove(&frame.channel);
            self.files.note_end();
            self.note_activity();
            self.settle_pause();
        }
    }

    /// Writes to the process what it takes now.
    pub(crate) fn write_files(&mut self) {
        let Some(process) = &mut self.files.process else { return };
        if !process.write() {
            return self.end_files();
        }
        let awaits_room = !process.to_send.is_empty();
        if awaits_room != process.awaits_room {
            process.awaits_room = awaits_room;
            self.poller.set_connection(process.stream.as_fd(), FILES, awaits_room);
        }
    }

    /// Lets the process go when it had nothing to do for a while.
    pub(crate) fn dismiss_files(&mut self, now: Moment) {
        if self.files.leaves_at.is_some_and(|at| at <= now) {
            self.dismiss_files_now();
        }
        if self.files.silent_at().is_some_and(|at| at <= now) {
            self.end_files();
        }
    }

    /// Lets the process go. Whoever looks on is told, and may ask again.
    pub(crate) fn dismiss_files_now(&mut self) {
        self.files.leaves_at = None;
        self.files.channels.clear();
        self.files.abandoned.clear();
        self.files.watches.clear();
        let error = Error::unavailable("the cell is held still, which ends what watches its files")
            .hint("look at what is there, then watch again");
        let watching: Vec<Asker> = self.files.askers.drain().map(|(_, asker)| asker).collect();
        for asker in watching {
            self.tell(asker, &Tell::Failed(error.clone()));
        }
        if let Some(process) = self.files.process.take() {
            self.let_go(&process);
        }
    }

    /// It has nothing to lose by now, and might be stopped.
    fn let_go(&mut self, process: &Process) {
        self.poller.remove(process.stream.as_fd());
        if let Some(pid) = process.pid {
            // One that has ended and was not collected yet takes no harm.
            let _ = signals::send(pid, Signal::KILL.number());
            self.files.leaving.push(pid);
        }
    }

    /// A process that served files has ended.
    pub(crate) fn note_files_end(&mut self, pid: Pid) {
        if let Some(process) =
            self.files.process.as_mut().filter(|process| process.pid == Some(pid))
        {
            process.pid = None;
            // What it said before it ended comes first.
            self.read_files();
            self.end_files();
        }
        self.files.leaving.retain(|leaving| *leaving != pid);
        self.settle_pause();
    }

    /// Passes on what came during a pause.
    pub(crate) fn ask_waiting_files(&mut self) {
        for (asker, frame) in std::mem::take(&mut self.files.waiting) {
            if frame.kind == FrameKind::File {
                self.ask_files(asker, &frame);
            } else {
                self.pass_to_files(asker, &frame);
            }
        }
    }

    /// The process is gone, or must go; whoever waits for it is told.
    pub(crate) fn end_files(&mut self) {
        let Some(process) = self.files.process.take() else { return };
        self.let_go(&process);
        self.files.leaves_at = None;
        self.files.channels.clear();
        let was_working = !self.files.is_idle();
        self.files.abandoned.clear();
        self.files.watches.clear();
        let error = Error::unavailable("the process that serves the cell's files was ended")
            .hint("look at what is there, then try again");
        let askers: Vec<Asker> = self.files.askers.drain().map(|(_, asker)| asker).collect();
        for asker in &askers {
            self.tell(*asker, &Tell::Failed(error.clone()));
        }
        self.note_activity();
        if was_working {
            self.recover_files();
        }
    }
}

/// Where the process works.
#[derive(Clone, Copy)]
struct Place<'a> {
    surroundings: &'a Surroundings,
    /// Where the cell's files begin.
    beginning: &'a Path,
}

impl Process {
    fn start(identity: Identity, place: Place<'_>, undo_log: OwnedFd) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        match fork()? {
            Forked::Child => end_now(serve(identity, place, theirs, undo_log)),
            Forked::Parent { pid, pidfd: _ } => {
                ours.set_nonblocking(true)?;
                Ok(Self {
                    pid: Some(pid),
                    stream: ours,
                    received: Vec::new(),
                    to_send: Vec::new(),
                    awaits_room: false,
                    heard_at: Moment::now(),
                })
            }
        }
    }

    /// Takes what came; whether the process is still there.
    fn read(&mut self) -> bool {
        self.received.reserve(READ_BYTES);
        match rustix::io::read(&self.stream, spare_capacity(&mut self.received)) {
            Ok(0) => false,
            Ok(_) => {
                self.heard_at = Moment::now();
                true
            }
            Err(errno) => is_temporary(&errno.into()),
        }
    }

    /// Writes what is taken; whether the process is still there.
    fn write(&mut self) -> bool {
        while !self.to_send.is_empty() {
            match self.stream.write(&self.to_send) {
                Ok(length) => {
                    self.to_send.drain(..length);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return is_temporary(&error),
            }
        }
        true
    }
}

/// The life of the process; its exit code.
fn serve(identity: Identity, place: Place<'_>, stream: UnixStream, undo_log: OwnedFd) -> i32 {
    let kept = [stream.as_fd(), undo_log.as_fd()];
    if become_ordinary(identity, &kept, c"hotcell-files", place.surroundings).is_err() {
        return 1;
    }
    keep_freed(KEPT_FREED);
    match hotcell_files::serve(stream, File::from(undo_log), place.beginning, Roots::default()) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

/// Whether something is asked for that goes on until nobody listens any more.
fn is_watch(frame: &Frame) -> bool {
    frame.head.len() <= WATCH_BYTES
        && matches!(frame.head::<FileAsk>(), Ok(FileAsk { op: FileOp::Watch(_), .. }))
}

fn open_undo_log(records: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat(records, UNDO_LOG, flags, Mode::from_raw_mode(0o600))?)
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

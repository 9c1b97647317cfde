//! What changes in the records of a cell, in the order in which it may be told.
//!
//! The kernel tells which files were written to, and it does so before whoever wrote goes on. A round
//! sends every other file as far as it goes, and then the journal as far as it went when the round
//! began: what it says is never of output that was not sent.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{AtFlags, CWD, FileType, Mode};
use rustix::io::Errno;

use crate::file_name::{FileName, JOURNAL, LOGS};
use crate::frame::{Frame, Head, Held, HeldFile, PIECE_BYTES};
use crate::held::{Opened, directory_flags, list, open_file, size_of};
use crate::tail_sum::{read_at, tail_sum};

/// What is told of a directory.
const WATCHED: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO);
const EVENTS_BYTES: usize = 16 << 10;

/// What was sent of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sent {
    Bytes { length: u64, sum: u32 },
    Link { target: String },
}

/// What has changed since it was sent.
#[derive(Debug)]
pub(crate) struct Changes {
    events: OwnedFd,
    records: OwnedFd,
    records_watch: i32,
    logs_watch: Option<i32>,
    beside_watch: i32,
    beside: PathBuf,
    /// Files beside the records that are told.
    told: Vec<String>,
    /// The one that comes when nothing is written any more, and whether it was seen.
    over: String,
    is_over: bool,
    sent: HashMap<FileName, Sent>,
    /// Files to look at.
    dirty: BTreeSet<FileName>,
    dirty_beside: BTreeSet<String>,
    /// A file that is being sent in pieces, and how far in this round.
    current: Option<(FileName, u64)>,
    /// How far the journal may be sent in this round.
    journal_to: Option<u64>,
    /// Whether it was longer than that.
    journal_goes_on: bool,
}

impl Changes {
    /// Begins with what the other end has.
    pub(crate) fn begin(
        records: &Path,
        beside: &Path,
        told: Vec<String>,
        over: String,
        have: Vec<HeldFile>,
    ) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let opened = rustix::fs::openat(CWD, records, directory_flags(), Mode::empty())?;
        let records_watch = inotify::add_watch(&events, records, WATCHED)?;
        let beside_watch = inotify::add_watch(&events, beside, WATCHED)?;
        let mut changes = Self {
            events,
            records: opened,
            records_watch,
            logs_watch: None,
            beside_watch,
            beside: beside.to_owned(),
            dirty_beside: told.iter().cloned().collect(),
            told,
            is_over: beside.join(&over).exists(),
            over,
            sent: HashMap::new(),
            dirty: BTreeSet::new(),
            current: None,
            journal_to: None,
            journal_goes_on: false,
        };
        changes.forget_forgotten(&have)?;
        for HeldFile { file, held } in have {
            changes.dirty.insert(file.clone());
            let sent = match held {
                Held::Bytes { length, sum } => Sent::Bytes { length, sum },
                Held::Link { target } => Sent::Link { target },
            };
            changes.sent.insert(file, sent);
        }
        changes.look_everywhere()?;
        Ok(changes)
    }

    /// Ready to be read when there is something new.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// The next of what is to be sent; `None` when a round is done: everything that was there when it
    /// began has been told.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame>> {
        if self.journal_to.is_none() {
            // First, for what is written between the two is told by the events.
            self.journal_to = Some(self.journal_size()?);
            self.take_events()?;
        }
        loop {
            if let Some(file) = self.dirty_beside.pop_first() {
                match std::fs::read(self.beside.join(&file)) {
                    Ok(bytes) => return Ok(Some(Frame::new(Head::Put { file }, bytes))),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
            }
            let Some(file) = self.next_file() else { break };
            if let Some(frame) = self.piece(file)? {
                return Ok(Some(frame));
            }
        }
        self.journal_to = None;
        if std::mem::take(&mut self.journal_goes_on) {
            self.dirty.extend(FileName::in_records(JOURNAL));
        }
        Ok(None)
    }

    /// Whether nothing was written any more when the last round began.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether nothing is known that was not sent.
    pub(crate) fn is_quiet(&self) -> bool {
        self.dirty.is_empty() && self.dirty_beside.is_empty()
    }

    /// The file that is being sent, or another one; the journal is the last.
    fn next_file(&mut self) -> Option<FileName> {
        if let Some((file, _)) = &self.current {
            return Some(file.clone());
        }
        let next = self.dirty.iter().find(|file| !file.is_journal()).cloned();
        let next = next.or_else(|| self.dirty.first().cloned())?;
        self.dirty.remove(&next);
        Some(next)
    }

    /// The next piece of a file; `None` when there is no more of it in this round.
    fn piece(&mut self, file: FileName) -> io::Result<Option<Frame>> {
        let opened = match open_file(&self.records, &file)? {
            Opened::File(opened) => opened,
            Opened::Link(target) => {
                self.current = None;
                let sent = Sent::Link { target: target.clone() };
                let before = self.sent.insert(file.clone(), sent.clone());
                let is_new = before.as_ref() != Some(&sent);
                return Ok(is_new.then(|| Frame::bare(Head::Link { file, target })));
            }
            Opened::Nothing => {
                self.current = None;
                let was_sent = self.sent.remove(&file).is_some();
                return Ok(was_sent.then(|| Frame::bare(Head::Gone { file })));
            }
        };
        let size = size_of(&opened)?;
        let end = match &self.current {
            // What is written from now on is of another round.
            Some((_, end)) => (*end).min(size),
            None if file.is_journal() => {
                let to = self.journal_to.unwrap_or(0);
                self.journal_goes_on |= size > to;
                to.min(size)
            }
            None => size,
        };
        let offset = match self.sent.get(&file) {
            Some(Sent::Bytes { length, sum })
                if *length <= size && tail_sum(opened.as_fd(), *length)? == Some(*sum) =>
            {
                *length
            }
            // Another file by now, or one that was written over.
            Some(Sent::Bytes { .. } | Sent::Link { .. }) | None => 0,
        };
        let is_known = matches!(self.sent.get(&file), Some(Sent::Bytes { length, .. })
            if offset == *length);
        if is_known && offset >= end {
            self.current = None;
            return Ok(None);
        }
        let room = usize::try_from(end - offset.min(end)).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let mut piece = vec![0; room];
        let read = read_at(opened.as_fd(), &mut piece, offset)?;
        piece.truncate(read);
        let length = offset + read as u64;
        let Some(sum) = tail_sum(opened.as_fd(), length)? else {
            // It was cut just now, and is looked at again.
            self.sent.remove(&file);
            self.current = None;
            self.dirty.insert(file.clone());
            return Ok(Some(Frame::bare(Head::Write { file, offset: 0 })));
        };
        self.sent.insert(file.clone(), Sent::Bytes { length, sum });
        self.current = (length < end && read > 0).then(|| (file.clone(), end));
        Ok(Some(Frame::new(Head::Write { file, offset }, piece)))
    }

    fn journal_size(&self) -> io::Result<u64> {
        let Some(journal) = FileName::in_records(JOURNAL) else { return Ok(0) };
        match open_file(&self.records, &journal)? {
            Opened::File(file) => size_of(&file),
            Opened::Link(_) | Opened::Nothing => Ok(0),
        }
    }

    /// Takes what the kernel has told.
    fn take_events(&mut self) -> io::Result<()> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); EVENTS_BYTES];
        let events = self.events.try_clone()?;
        let mut reader = Reader::new(&events, &mut buffer);
        let mut missed = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    missed |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                    let name = event.file_name().and_then(|name| name.to_str().ok());
                    if let Some(name) = name {
                        self.note(event.wd(), name)?;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        if missed {
            self.is_over |= self.beside.join(&self.over).exists();
            self.dirty.extend(self.sent.keys().cloned());
            self.dirty_beside.extend(self.told.iter().cloned());
            self.look_everywhere()?;
        }
        Ok(())
    }

    fn note(&mut self, watch: i32, name: &str) -> io::Result<()> {
        if watch == self.records_watch && name == LOGS {
            self.logs_watch = None;
            return self.look_everywhere();
        }
        if watch == self.records_watch {
            self.dirty.extend(FileName::in_records(name));
        } else if Some(watch) == self.logs_watch {
            self.dirty.extend(FileName::in_logs(name));
        } else if watch == self.beside_watch && name == self.over {
            self.is_over = true;
        } else if watch == self.beside_watch && self.told.iter().any(|told| told == name) {
            self.dirty_beside.insert(name.to_owned());
        }
        Ok(())
    }

    /// Every file is looked at.
    fn look_everywhere(&mut self) -> io::Result<()> {
        if self.logs_watch.is_none() {
            match rustix::fs::openat(&self.records, LOGS, directory_flags(), Mode::empty()) {
                Ok(logs) => {
                    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&logs));
                    self.logs_watch = Some(inotify::add_watch(&self.events, path, WATCHED)?);
                }
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        for (file, kind) in list(&self.records)? {
            if matches!(kind, FileType::RegularFile | FileType::Symlink | FileType::Unknown) {
                self.dirty.insert(file);
            }
        }
        Ok(())
    }

    /// Output that was let go of where the copy is, is let go of here: there is nothing of it there but
    /// a link that says how much it was.
    fn forget_forgotten(&self, have: &[HeldFile]) -> io::Result<()> {
        let has_bytes = |prefix: &str| {
            have.iter().any(|other| {
                matches!(other.held, Held::Bytes { .. }) && other.file.exec_prefix() == Some(prefix)
            })
        };
        let here = list(&self.records)?;
        for HeldFile { file, held } in have {
            let (Held::Link { target }, Some(prefix)) = (held, file.exec_prefix()) else {
                continue;
            };
            let mut of_exec = here.iter().filter(|(other, kind)| {
                *kind == FileType::RegularFile && other.exec_prefix() == Some(prefix)
            });
            if has_bytes(prefix) || of_exec.clone().next().is_none() {
                continue;
            }
            match rustix::fs::unlinkat(&self.records, file.as_str(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
            rustix::fs::symlinkat(target.as_str(), &self.records, file.as_str())?;
            of_exec.try_for_each(|(other, _)| {
                rustix::fs::unlinkat(&self.records, other.as_str(), AtFlags::empty())
            })?;
        }
        Ok(())
    }
}

//! What changes in the records of a cell, in the order in which it may be told.
//!
//! The kernel tells which files were written to, and it does so before whoever wrote goes on. A round
//! sends every other file as far as it goes, and then the journal as far as it went when the round
//! began: what it says is never of output that was not sent.

use std::collections::{BTreeSet, HashMap, VecDeque};
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
use crate::tail_sum::read_after;

/// What is told of a directory.
const WATCHED: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO);
const EVENTS_BYTES: usize = 16 << 10;
/// The sum of nothing.
const EMPTY: u32 = 0;
/// Files that are looked at in a row before something is said, if only that this end is there.
const LOOKS: u32 = 256;

/// What was sent of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sent {
    Bytes { length: u64, sum: u32 },
    Link { target: String },
}

/// By what the kernel tells what changes. Users have only so many of them.
#[derive(Debug)]
struct Watch {
    events: OwnedFd,
    records: i32,
    logs: Option<i32>,
    beside: i32,
}

impl Watch {
    fn begin(records: &Path, beside: &Path) -> io::Result<Option<Self>> {
        let events = match inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) {
            Ok(events) => events,
            Err(Errno::MFILE | Errno::NOSPC) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let add = |path: &Path| match inotify::add_watch(&events, path, WATCHED) {
            Ok(watch) => Ok(Some(watch)),
            Err(Errno::NOSPC) => Ok(None),
            Err(errno) => Err(io::Error::from(errno)),
        };
        let (Some(records), Some(beside)) = (add(records)?, add(beside)?) else { return Ok(None) };
        Ok(Some(Self { events, records, logs: None, beside }))
    }
}

/// What has changed since it was sent.
#[derive(Debug)]
pub(crate) struct Changes {
    watch: Option<Watch>,
    /// What files looked like, where nobody tells when they change.
    seen: HashMap<FileName, (u64, i64, u64)>,
    records: OwnedFd,
    beside: PathBuf,
    /// Files beside the records that are told.
    told: Vec<String>,
    /// What was told of each last.
    told_last: HashMap<String, Vec<u8>>,
    /// The one that comes when nothing is written any more, and whether it was seen.
    over: String,
    is_over: bool,
    sent: HashMap<FileName, Sent>,
    /// Files to look at.
    dirty: BTreeSet<FileName>,
    dirty_beside: BTreeSet<String>,
    /// A file that is on its way to another name, by the number of that event.
    leaving: Option<(u32, FileName)>,
    /// Files that have other names since they were sent.
    moved: VecDeque<(FileName, FileName)>,
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
        let opened = rustix::fs::openat(CWD, records, directory_flags(), Mode::empty())?;
        let mut changes = Self {
            watch: Watch::begin(records, beside)?,
            seen: HashMap::new(),
            records: opened,
            beside: beside.to_owned(),
            dirty_beside: told.iter().cloned().collect(),
            told,
            told_last: HashMap::new(),
            is_over: beside.join(&over).exists(),
            over,
            sent: HashMap::new(),
            dirty: BTreeSet::new(),
            leaving: None,
            moved: VecDeque::new(),
            current: None,
            journal_to: None,
            journal_goes_on: false,
        };
        let had_journal = have.iter().any(|held| held.file.is_journal());
        if had_journal && matches!(changes.open_journal()?, Opened::Nothing) {
            return Err(io::Error::other("the records of the cell are not there any more"));
        }
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

    /// Ready to be read when there is something new; `None` where one has to look.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(|watch| watch.events.as_fd())
    }

    /// The next of what is to be sent; `None` when a round is done: everything that was there when it
    /// began has been told.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame>> {
        if self.journal_to.is_none() {
            // First, for what is written between the two is told by the events.
            self.journal_to = Some(self.journal_size()?);
            self.take_events()?;
        }
        if let Some((from, to)) = self.moved.pop_front() {
            return Ok(Some(Frame::bare(Head::Moved { from, to })));
        }
        for _ in 0..LOOKS {
            if let Some(file) = self.dirty_beside.pop_first() {
                match std::fs::read(self.beside.join(&file)) {
                    Ok(bytes) if self.told_last.get(&file) == Some(&bytes) => continue,
                    Ok(bytes) => {
                        self.told_last.insert(file.clone(), bytes.clone());
                        return Ok(Some(Frame::new(Head::Put { file }, bytes)));
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
            }
            let Some(file) = self.next_file() else {
                self.journal_to = None;
                if std::mem::take(&mut self.journal_goes_on) {
                    self.dirty.extend(FileName::in_records(JOURNAL));
                }
                return Ok(None);
            };
            if let Some(frame) = self.piece(file)? {
                return Ok(Some(frame));
            }
        }
        Ok(Some(Frame::bare(Head::Alive)))
    }

    /// Begins a round as if the journal had been so long then.
    #[cfg(test)]
    pub(crate) fn begin_round_at(&mut self, journal_to: u64) {
        self.journal_to = Some(journal_to);
        self.take_events().expect("taken");
    }

    #[cfg(test)]
    pub(crate) fn watch_nothing(&mut self) {
        self.watch = None;
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
        let known = match self.sent.get(&file) {
            Some(Sent::Bytes { length, sum }) if *length <= size => Some((*length, *sum)),
            // Another file by now, or one that was cut.
            Some(Sent::Bytes { .. } | Sent::Link { .. }) | None => None,
        };
        let room = |offset: u64| {
            usize::try_from(end.saturating_sub(offset)).unwrap_or(PIECE_BYTES).min(PIECE_BYTES)
        };
        let more = match known {
            Some((length, sum)) => read_after(opened.as_fd(), (length, sum), room(length))?
                .map(|(piece, sum)| (length, piece, sum)),
            None => None,
        };
        let (offset, piece, sum) = match more {
            Some((_, piece, _)) if piece.is_empty() => {
                self.current = None;
                return Ok(None);
            }
            Some(more) => more,
            None => match read_after(opened.as_fd(), (0, EMPTY), room(0))? {
                Some((piece, sum)) => (0, piece, sum),
                None => (0, Vec::new(), EMPTY),
            },
        };
        let length = offset + piece.len() as u64;
        self.current = (length < end && !piece.is_empty()).then(|| (file.clone(), end));
        self.sent.insert(file.clone(), Sent::Bytes { length, sum });
        Ok(Some(Frame::new(Head::Write { file, offset }, piece)))
    }

    fn open_journal(&self) -> io::Result<Opened> {
        match FileName::in_records(JOURNAL) {
            Some(journal) => open_file(&self.records, &journal),
            None => Ok(Opened::Nothing),
        }
    }

    fn journal_size(&self) -> io::Result<u64> {
        match self.open_journal()? {
            Opened::File(file) => size_of(&file),
            Opened::Link(_) | Opened::Nothing => Ok(0),
        }
    }

    /// Takes what the kernel has told.
    fn take_events(&mut self) -> io::Result<()> {
        let Some(watch) = &self.watch else { return self.look_for_changes() };
        let mut buffer = [MaybeUninit::<u8>::uninit(); EVENTS_BYTES];
        let events = watch.events.try_clone()?;
        let mut reader = Reader::new(&events, &mut buffer);
        let mut missed = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    missed |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                    let name = event.file_name().and_then(|name| name.to_str().ok());
                    if let Some(name) = name {
                        self.note(event.wd(), name, event.events(), event.cookie())?;
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

    fn note(&mut self, from: i32, name: &str, what: ReadFlags, cookie: u32) -> io::Result<()> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        if from == watch.records && name == LOGS {
            watch.logs = None;
            return self.look_everywhere();
        }
        if from == watch.beside {
            self.is_over |= name == self.over;
            if self.told.iter().any(|told| told == name) {
                self.dirty_beside.insert(name.to_owned());
            }
            return Ok(());
        }
        let file = if from == watch.records {
            FileName::in_records(name)
        } else if Some(from) == watch.logs {
            FileName::in_logs(name)
        } else {
            None
        };
        let Some(file) = file else { return Ok(()) };
        self.dirty.insert(file.clone());
        if what.contains(ReadFlags::MOVED_FROM) {
            self.leaving = Some((cookie, file));
        } else if what.contains(ReadFlags::MOVED_TO)
            && let Some((_, from)) = self.leaving.take_if(|(other, _)| *other == cookie)
            && let Some(sent) = self.sent.remove(&from)
        {
            // Whoever reads the copy knows it by what it is, not only by its name.
            self.sent.insert(file.clone(), sent);
            self.moved.push_back((from, file));
        }
        Ok(())
    }

    /// Finds what has changed by looking at all of it.
    fn look_for_changes(&mut self) -> io::Result<()> {
        self.is_over |= self.beside.join(&self.over).exists();
        self.dirty_beside.extend(self.told.iter().cloned());
        let mut seen = HashMap::new();
        for (file, _) in list(&self.records)? {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let Ok(found) = rustix::fs::statat(&self.records, file.as_str(), flags) else {
                continue;
            };
            let looks = (found.st_ino, found.st_mtime, u64::try_from(found.st_size).unwrap_or(0));
            // What was written within the second looks the same.
            if self.seen.get(&file) != Some(&looks) || found.st_mtime + 2 > now() {
                self.dirty.insert(file.clone());
            }
            seen.insert(file, looks);
        }
        self.dirty.extend(self.sent.keys().filter(|file| !seen.contains_key(*file)).cloned());
        self.seen = seen;
        Ok(())
    }

    /// Every file is looked at.
    fn look_everywhere(&mut self) -> io::Result<()> {
        if let Some(watch) = &mut self.watch
            && watch.logs.is_none()
        {
            match rustix::fs::openat(&self.records, LOGS, directory_flags(), Mode::empty()) {
                Ok(logs) => {
                    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&logs));
                    match inotify::add_watch(&watch.events, path, WATCHED) {
                        Ok(logs) => watch.logs = Some(logs),
                        // From now on all is looked at.
                        Err(Errno::NOSPC) => self.watch = None,
                        Err(errno) => return Err(errno.into()),
                    }
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
    pub(crate) fn forget_forgotten(&self, have: &[HeldFile]) -> io::Result<()> {
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

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(i64::MAX)
}

//! Notices that the user changed something in a project, so that its cell is shown it.
//!
//! The kernel's overlay caches what it looked up in the directory below, and does not notice changes
//! there. So the keeper watches that directory, and makes the overlay forget its cache after a
//! change. The walk that adds the watches also records the tree (see [`super::shown`]).

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::git_index;
use super::shown::{self, ShownWriter};
use rustix::fs::CWD;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// Directories that are watched at most; a project of more counts as changed all the time.
const MOST_DIRECTORIES: usize = 16_384;
/// Directories that are looked into at a time.
const AT_A_TIME: usize = 64;
/// Events that are read at a time; a program may go on changing things for ever.
const EVENTS_AT_A_TIME: usize = 4096;
/// How often the project is walked before a command, while names come and go all the time.
const MOST_WALKS: usize = 3;

/// A watch on a whole project. The watches stay after a change: removing one takes the kernel longer
/// than starting a command.
#[derive(Debug)]
pub(crate) struct ProjectWatch {
    dir: PathBuf,
    state: State,
    /// Where the tree is recorded.
    record: PathBuf,
    writer: Option<ShownWriter>,
    /// Whether the tree was recorded since the cell was last shown it.
    is_recorded: bool,
    /// The inode of the last record that counted, if this watch wrote it.
    confirmed: Option<u64>,
}

#[derive(Debug)]
enum State {
    /// Directories are still being added, so something may have changed in the others.
    Beginning { inotify: OwnedFd, to_visit: Vec<PathBuf>, visited: usize },
    /// Everything is watched. Nothing has changed since, but the cell may not have been shown what
    /// changed before.
    Watching { inotify: OwnedFd, seen: bool },
    /// Something has changed that the cell was not shown yet.
    Changed { inotify: OwnedFd, what: Events },
    /// It cannot be watched.
    Unwatched,
}

/// What has happened in a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Events {
    None,
    /// The content or the mode of files changed, and nothing else.
    Content,
    /// Names came or went, or it is not known what happened.
    Names,
}

impl ProjectWatch {
    /// The tree is recorded in the file `record`.
    pub(crate) fn new(dir: PathBuf, record: PathBuf) -> Self {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let state = State::Unwatched;
        let mut watch =
            Self { dir, state, record, writer: None, is_recorded: false, confirmed: None };
        if let Ok(inotify) = inotify {
            watch.begin(inotify);
        }
        watch
    }

    /// To be polled: something happens there.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Beginning { inotify, .. } | State::Watching { inotify, .. } => {
                Some(inotify.as_fd())
            }
            State::Changed { .. } | State::Unwatched => None,
        }
    }

    /// Whether there is more to do right now than to wait.
    pub(crate) fn is_beginning(&self) -> bool {
        matches!(self.state, State::Beginning { .. })
    }

    /// Begins to walk the project.
    fn begin(&mut self, inotify: OwnedFd) {
        self.is_recorded = false;
        self.writer = match ShownWriter::begin(&self.dir, &self.record) {
            Ok(writer) => Some(writer),
            Err(error) => {
                self.warn(&error);
                None
            }
        };
        self.state = State::Beginning { inotify, to_visit: vec![self.dir.clone()], visited: 0 };
    }

    /// Goes on a little.
    pub(crate) fn step(&mut self) {
        let State::Beginning { inotify, to_visit, visited } = &mut self.state else { return };
        for _ in 0..AT_A_TIME {
            let Some(directory) = to_visit.pop() else { break };
            *visited += 1;
            let added = add(inotify.as_fd(), &directory, to_visit, &mut self.writer);
            if added.is_err() || *visited > MOST_DIRECTORIES {
                self.state = State::Unwatched;
                self.writer = None;
                return;
            }
        }
        if to_visit.is_empty() {
            match self.writer.take().map(ShownWriter::finish) {
                Some(Ok(())) => self.is_recorded = true,
                Some(Err(error)) => self.warn(&error),
                None => {}
            }
            self.state = match std::mem::replace(&mut self.state, State::Unwatched) {
                State::Beginning { inotify, .. } => State::Watching { inotify, seen: false },
                other @ (State::Watching { .. } | State::Changed { .. } | State::Unwatched) => {
                    other
                }
            };
        }
    }

    /// Takes note of what has happened by now.
    pub(crate) fn look(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Unwatched) {
            State::Watching { inotify, seen } => match take_events(inotify.as_fd()) {
                Events::None => State::Watching { inotify, seen },
                what @ (Events::Content | Events::Names) => State::Changed { inotify, what },
            },
            State::Changed { inotify, what } => {
                let what = what.max(take_events(inotify.as_fd()));
                State::Changed { inotify, what }
            }
            other @ (State::Beginning { .. } | State::Unwatched) => other,
        };
    }

    /// Whether the cell may not have been shown all of the project.
    pub(crate) fn is_unseen(&mut self) -> bool {
        self.look();
        match self.state {
            State::Watching { seen, .. } => !seen,
            State::Beginning { .. } | State::Changed { .. } | State::Unwatched => true,
        }
    }

    /// The cell has other layers now: what it was shown before may not count.
    pub(crate) fn distrust(&mut self) {
        if let State::Watching { seen, .. } = &mut self.state {
            *seen = false;
        }
    }

    /// Records the tree as it is now, right before the cell is shown it.
    pub(crate) fn catch_up(&mut self) {
        for _ in 0..MOST_WALKS {
            self.look();
            if self.is_outdated() {
                match std::mem::replace(&mut self.state, State::Unwatched) {
                    State::Watching { inotify, .. } | State::Changed { inotify, .. } => {
                        self.begin(inotify);
                    }
                    other @ (State::Beginning { .. } | State::Unwatched) => self.state = other,
                }
            }
            if !self.is_beginning() {
                return;
            }
            while self.is_beginning() {
                self.step();
            }
        }
    }

    /// Whether the last record is not of the project as it is now.
    fn is_outdated(&self) -> bool {
        match &self.state {
            State::Changed { what: Events::Names, .. } => true,
            // At a checkpoint there was another record, and it is back.
            State::Watching { .. } | State::Changed { .. } => {
                !self.is_recorded && self.confirmed.is_none_or(|it| self.inode() != Some(it))
            }
            State::Beginning { .. } | State::Unwatched => false,
        }
    }

    fn inode(&self) -> Option<u64> {
        fs::metadata(&self.record).map(|it| it.ino()).ok()
    }

    /// The cell was shown the project as it was after [`Self::catch_up`].
    pub(crate) fn mark_seen(&mut self) {
        if let Err(error) = self.confirm() {
            self.warn(&error);
        }
        match std::mem::replace(&mut self.state, State::Unwatched) {
            State::Watching { inotify, .. } | State::Changed { inotify, what: Events::Content } => {
                self.state = State::Watching { inotify, seen: true };
            }
            // Names still come and go.
            State::Changed { inotify, .. } => self.begin(inotify),
            other @ (State::Beginning { .. } | State::Unwatched) => self.state = other,
        }
    }

    /// Makes the last record the one that counts. A project that cannot be watched has none: an old
    /// one would make conflicts of everything that changed since.
    fn confirm(&mut self) -> io::Result<()> {
        let is_unknown = matches!(self.state, State::Unwatched);
        if self.is_recorded {
            self.is_recorded = false;
            shown::confirm(&self.record)?;
            self.confirmed = self.inode();
            Ok(())
        } else if is_unknown {
            hotcell_place::remove_if_there(&self.record)
        } else {
            Ok(())
        }
    }

    fn warn(&self, error: &io::Error) {
        let record = self.record.display();
        tracing::warn!(%error, %record, "cannot record the tree of a project");
    }
}

/// Reads what has happened.
fn take_events(inotify: BorrowedFd<'_>) -> Events {
    let file_only =
        ReadFlags::MODIFY | ReadFlags::ATTRIB | ReadFlags::CLOSE_WRITE | ReadFlags::ISDIR;
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    let mut reader = inotify::Reader::new(inotify, &mut buffer);
    let mut happened = Events::None;
    for _ in 0..EVENTS_AT_A_TIME {
        let what = match reader.next() {
            Ok(event) if file_only.contains(event.events()) => Events::Content,
            Ok(_) => Events::Names,
            Err(rustix::io::Errno::INTR) => Events::None,
            Err(rustix::io::Errno::AGAIN) => return happened,
            Err(_) => return Events::Names,
        };
        happened = happened.max(what);
    }
    // The reader drops what else it has read.
    Events::Names
}

/// Watches a directory, notes the directories in it, and records it with its files.
fn add(
    inotify: BorrowedFd<'_>,
    directory: &PathBuf,
    found: &mut Vec<PathBuf>,
    writer: &mut Option<ShownWriter>,
) -> io::Result<()> {
    let what = WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVE
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::MODIFY
        | WatchFlags::ATTRIB
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR
        | WatchFlags::DONT_FOLLOW
        | WatchFlags::EXCL_UNLINK;
    match inotify::add_watch(inotify, directory, what) {
        Ok(_) => {}
        // Gone meanwhile, or nobody's business.
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::ACCESS) => {
            return Ok(());
        }
        Err(errno) => return Err(errno.into()),
    }
    let (inode, entries) = match fs::symlink_metadata(directory).map(|it| it.ino()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        inode => (inode?, fs::read_dir(directory)),
    };
    let entries = match entries {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let mut record = |write: &dyn Fn(&mut ShownWriter) -> io::Result<()>| {
        if let Some(Err(error)) = writer.as_mut().map(write) {
            let directory = directory.display();
            tracing::warn!(%error, %directory, "cannot record the tree of a project");
            *writer = None;
        }
    };
    record(&|writer| writer.add_directory(directory, inode));
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(entry.path());
        } else {
            record(&|writer| add_file(writer, &entry.path()));
        }
    }
    Ok(())
}

/// Records a file, and what it says if it is an index of git.
fn add_file(writer: &mut ShownWriter, file: &Path) -> io::Result<()> {
    if git_index::is_index(file)
        && let Some(digest) = git_index::digest_in(CWD, file.as_os_str())?
    {
        writer.add_index(file, &digest)?;
    }
    writer.add_file(file)
}

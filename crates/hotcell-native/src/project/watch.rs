//! Notices that the host changed something in a project, so that its cell is shown it.
//!
//! The kernel's overlay remembers what it looked up in the directory below, and does not learn of
//! changes there. So the keeper watches that directory, and lets the overlay forget what it knows
//! once something has changed. Its first walk also keeps the names of the project's files.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::starting_names::NamesWriter;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// Directories that are watched at most; a project of more counts as changed all the time.
const MOST_DIRECTORIES: usize = 16_384;
/// Directories that are looked into at a time.
const AT_A_TIME: usize = 64;
/// How often what has happened is read at a time; somebody may go on changing things for ever.
const READS_AT_A_TIME: usize = 64;

/// A watch on a whole project. After the first change nobody listens until somebody has seen it; so
/// nothing has to be known of what was changed. The watches stay: to end one takes the kernel longer
/// than to start a command.
#[derive(Debug)]
pub(crate) struct ProjectWatch {
    dir: PathBuf,
    state: State,
    /// Collects the names during the first walk.
    names: Option<NamesWriter>,
}

#[derive(Debug)]
enum State {
    /// Directories are still being added, so something may have changed in the others.
    Beginning { inotify: OwnedFd, to_visit: Vec<PathBuf>, visited: usize },
    /// Everything is watched. Nothing has changed since, but what was changed before that may not
    /// have been seen yet.
    Watching { inotify: OwnedFd, seen: bool },
    /// Something has changed that was not seen yet.
    Changed { inotify: OwnedFd },
    /// It cannot be watched.
    Unwatched,
}

impl ProjectWatch {
    /// Names are kept in the file `names` unless it is there.
    pub(crate) fn new(dir: PathBuf, names: PathBuf) -> Self {
        let names = NamesWriter::begin(&dir, &names).unwrap_or_else(|error| {
            tracing::warn!(%error, names = %names.display(), "cannot keep a project's names");
            None
        });
        let state = match inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) {
            Ok(inotify) => State::begin(inotify, &dir),
            Err(_) => State::Unwatched,
        };
        Self { dir, state, names }
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

    /// Goes on a little.
    pub(crate) fn step(&mut self) {
        let State::Beginning { inotify, to_visit, visited } = &mut self.state else { return };
        for _ in 0..AT_A_TIME {
            let Some(directory) = to_visit.pop() else { break };
            *visited += 1;
            let added = add(inotify.as_fd(), &directory, to_visit, &mut self.names);
            if added.is_err() || *visited > MOST_DIRECTORIES {
                self.state = State::Unwatched;
                self.names = None;
                return;
            }
        }
        if to_visit.is_empty() {
            if let Some(Err(error)) = self.names.take().map(NamesWriter::finish) {
                tracing::warn!(%error, dir = %self.dir.display(), "cannot keep a project's names");
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
            State::Watching { inotify, .. } if takes_events(inotify.as_fd()) => {
                State::Changed { inotify }
            }
            State::Changed { inotify } => {
                takes_events(inotify.as_fd());
                State::Changed { inotify }
            }
            other @ (State::Beginning { .. } | State::Watching { .. } | State::Unwatched) => other,
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

    /// The cell is shown all that had happened when [`Self::is_unseen`] was asked.
    pub(crate) fn mark_seen(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Unwatched) {
            State::Watching { inotify, .. } => State::Watching { inotify, seen: true },
            // Directories may have come.
            State::Changed { inotify } => State::begin(inotify, &self.dir),
            other @ (State::Beginning { .. } | State::Unwatched) => other,
        };
    }
}

impl State {
    fn begin(inotify: OwnedFd, dir: &Path) -> Self {
        Self::Beginning { inotify, to_visit: vec![dir.to_owned()], visited: 0 }
    }
}

/// Reads what has happened, and tells whether something has.
fn takes_events(inotify: BorrowedFd<'_>) -> bool {
    let mut buffer = [std::mem::MaybeUninit::<u8>::uninit(); 4096];
    let mut taken = false;
    for _ in 0..READS_AT_A_TIME {
        match rustix::io::read(inotify, &mut buffer) {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => break,
            Ok(_) | Err(_) => taken = true,
        }
    }
    taken
}

/// Watches a directory, notes the directories in it, and keeps the names of the files.
fn add(
    inotify: BorrowedFd<'_>,
    directory: &PathBuf,
    found: &mut Vec<PathBuf>,
    names: &mut Option<NamesWriter>,
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
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(entry.path());
        } else if let Some(Err(error)) = names.as_mut().map(|names| names.add(&entry.path())) {
            tracing::warn!(%error, directory = %directory.display(), "cannot keep a project's names");
            *names = None;
        }
    }
    Ok(())
}

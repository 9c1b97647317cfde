//! A walk through directories by several threads, by descriptors and never through links.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::fs::FileType;

use crate::ignored::{Ignored, kind_of};
use crate::removal::{is_made_by_kernel, names, open_directory, within};
use crate::staged::is_ours;

const MOST_THREADS: usize = 8;
/// Threads that help with all walks together; the cell's commands need some too.
const MOST_HELPERS: usize = 16;
static HELPERS: AtomicUsize = AtomicUsize::new(0);

/// A thread beside that of the caller.
pub(crate) struct Helper;

impl Helper {
    /// One more, unless there are enough.
    pub(crate) fn new() -> Option<Self> {
        let helper = Self;
        (HELPERS.fetch_add(1, Ordering::Relaxed) < MOST_HELPERS).then_some(helper)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        HELPERS.fetch_sub(1, Ordering::Relaxed);
    }
}
/// How many threads share work: as many as there are processors, within reason.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS)
}

/// Files of one directory that one thread takes at once.
const FILES_AT_ONCE: usize = 32;

/// A directory that is being walked.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) fd: OwnedFd,
    /// Its path in the cell.
    pub(crate) path: PathBuf,
    ignored: Ignored,
    depth: usize,
}

impl Directory {
    /// A directory in it, unless it is gone, replaced, another user's, too deep, or made up by the
    /// kernel.
    fn open(&self, name: &OsStr) -> Option<Self> {
        let fd = open_directory(&self.fd, name).ok()?;
        let depth = self.depth + 1;
        if within(depth).is_err() || is_made_by_kernel(&fd, &self.fd) {
            return None;
        }
        Some(Self { fd, path: self.path.join(name), ignored: self.ignored.clone(), depth })
    }
}

/// Something that is still to be done.
#[derive(Debug)]
enum Task {
    /// Look into a directory.
    Enter(Arc<Directory>, OsString),
    /// Look into the first directory.
    Begin(Directory),
    /// Visit files of a directory.
    Visit(Arc<Directory>, Vec<OsString>),
}

/// Which entries are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeftOut {
    /// Hidden ones, and those that `.gitignore` names.
    Ignored,
    /// None.
    Nothing,
}

/// Which kinds of entries are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visited {
    /// Regular files.
    Files,
    /// Whatever is no directory.
    Names,
}

/// One walk.
#[derive(Debug)]
pub(crate) struct Walk {
    left_out: LeftOut,
    visited: Visited,
    state: Mutex<State>,
    moved: Condvar,
    stopped: AtomicBool,
}

/// A thread at work. Also when it breaks off, the others need not wait for it.
struct Busy<'a> {
    walk: &'a Walk,
    found: Vec<Task>,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.walk.lock();
        state.tasks.append(&mut self.found);
        state.busy -= 1;
        self.walk.moved.notify_all();
    }
}

#[derive(Debug)]
struct State {
    /// The last is done first, so that few directories are open at the same time.
    tasks: Vec<Task>,
    busy: usize,
}

impl Walk {
    /// A walk through a directory that is open.
    pub(crate) fn new(
        fd: OwnedFd,
        path: &Path,
        above: Ignored,
        left_out: LeftOut,
        visited: Visited,
    ) -> Self {
        let first = Directory { fd, path: path.to_owned(), ignored: above, depth: 0 };
        let state = State { tasks: vec![Task::Begin(first)], busy: 0 };
        Self {
            left_out,
            visited,
            state: Mutex::new(state),
            moved: Condvar::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Lets it end before everything was visited.
    pub(crate) fn stop(&self) {
        // A thread that is about to wait has seen it, or is woken.
        let _state = self.lock();
        self.stopped.store(true, Ordering::Relaxed);
        self.moved.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Walks with as many threads as there are processors, each with a visitor, through the
    /// directories that are wanted.
    pub(crate) fn run<V: FnMut(&Directory, &OsStr)>(
        &self,
        is_wanted: &(dyn Fn(&Path) -> bool + Sync),
        visitor: impl Fn() -> V + Sync,
    ) {
        thread::scope(|scope| {
            for _ in 1..threads() {
                let Some(helper) = Helper::new() else { break };
                let visitor = &visitor;
                let work = move || {
                    let _helper = helper;
                    self.work(is_wanted, visitor());
                };
                // With fewer threads it takes longer.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            self.work(is_wanted, visitor());
        });
    }

    fn work(&self, is_wanted: &dyn Fn(&Path) -> bool, mut visit: impl FnMut(&Directory, &OsStr)) {
        while let Some(task) = self.next() {
            let mut busy = Busy { walk: self, found: Vec::new() };
            match task {
                Task::Begin(directory) => self.enter(directory, &mut busy.found),
                Task::Enter(parent, name) => {
                    if is_wanted(&parent.path.join(&name))
                        && let Some(directory) = parent.open(&name)
                    {
                        self.enter(directory, &mut busy.found);
                    }
                }
                Task::Visit(directory, names) => {
                    for name in names {
                        if self.is_stopped() {
                            break;
                        }
                        visit(&directory, &name);
                    }
                }
            }
        }
    }

    /// The next thing to do; `None` when all is done.
    fn next(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if self.is_stopped() {
                return None;
            }
            if let Some(task) = state.tasks.pop() {
                state.busy += 1;
                return Some(task);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lists a directory and adds the tasks in it: the last is the first by name.
    fn enter(&self, mut directory: Directory, found: &mut Vec<Task>) {
        let Ok(mut entries) = names(&directory.fd) else { return };
        if self.left_out == LeftOut::Ignored {
            directory.ignored = directory.ignored.within(&directory.fd, &directory.path);
        }
        entries.sort_unstable_by(|one, other| other.0.cmp(&one.0));
        let directory = Arc::new(directory);
        let mut files = Vec::new();
        for (name, listed) in entries {
            let kind = kind_of(&directory.fd, &name, listed);
            if is_ours(&name) || self.is_left_out(&directory, &name, kind) {
                continue;
            }
            let is_visited = kind == FileType::RegularFile || self.visited == Visited::Names;
            if kind == FileType::Directory || files.len() == FILES_AT_ONCE {
                visit_in_order(&directory, &mut files, found);
            }
            if kind == FileType::Directory {
                found.push(Task::Enter(Arc::clone(&directory), name));
            } else if is_visited {
                files.push(name);
            }
        }
        visit_in_order(&directory, &mut files, found);
    }

    fn is_left_out(&self, directory: &Directory, name: &OsStr, kind: FileType) -> bool {
        match self.left_out {
            LeftOut::Nothing => false,
            LeftOut::Ignored => {
                name.as_bytes().starts_with(b".")
                    || directory.ignored.covers(&directory.path.join(name), kind)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a task for files that were listed in reverse.
fn visit_in_order(directory: &Arc<Directory>, files: &mut Vec<OsString>, found: &mut Vec<Task>) {
    if !files.is_empty() {
        let names = files.drain(..).rev().collect();
        found.push(Task::Visit(Arc::clone(directory), names));
    }
}

//! Telling of changes below a directory, as they happen.

use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_model::{Error, FileWatch, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, Event, ReadFlags, Reader, WatchFlags};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;

use crate::conversation::Conversation;
use crate::fault::{Tried, cancelled};
use crate::ignored::kind_of;
use crate::path::CellPath;
use crate::removal::{is_made_by_kernel, is_of_kernel, names, open_inside, within};
use crate::staged::is_ours;
use crate::tree::Tree;
use crate::watch_pending::{Change, Pending, tell};

/// Directories that one watch sees.
const MOST_DIRECTORIES: usize = 4096;
/// How often is looked whether the directory itself is still there.
const LOOK: Duration = Duration::from_secs(1);
const BUFFER_BYTES: usize = 64 * 1024;

/// Tells of changes until nobody listens any more or the directory itself is gone.
pub(crate) fn watch(tree: &Tree, request: &FileWatch, conversation: &Conversation) -> Result<()> {
    let path = CellPath::parse(&request.path)?;
    let what = || format!("watch {path}");
    let top = tree.directory(&path)?;
    if is_of_kernel(&top) {
        return Err(Error::denied(format!("{path} is made up by the kernel, not stored"))
            .hint("watch a directory that holds files"));
    }
    let bell = conversation.bell().tried(what)?;
    let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).tried(what)?;
    let mut watch = Watch {
        top: &top,
        events: &events,
        directories: HashMap::new(),
        pending: Pending::default(),
        is_gone: false,
    };
    watch.add(Path::new(""), Found::Before).tried(what)?;
    // From now on nothing is missed.
    tell(&path, Path::new(""), Change::Watching, conversation).tried(what)?;
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
    loop {
        if conversation.is_over() {
            return Err(cancelled());
        }
        watch.pending.tell_due(&path, &top, conversation).tried(what)?;
        if watch.is_gone {
            return Ok(());
        }
        wait([&events, &bell], watch.pending.wait().unwrap_or(LOOK).min(LOOK)).tried(what)?;
        watch.read(&mut buffer).tried(what)?;
        // As long as it is open, nothing is told of its removal.
        if fstat(&top).tried(what)?.st_nlink == 0 {
            watch.end();
        }
    }
}

/// Waits until something happens, or for a while.
fn wait(on: [&OwnedFd; 2], most: Duration) -> rustix::io::Result<()> {
    let mut polled = on.map(|descriptor| PollFd::new(descriptor, PollFlags::IN));
    let most = Timespec::try_from(most).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match poll(&mut polled, Some(&most)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// How a directory came to be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// It was there before the watch.
    Before,
    /// It is new, and so is what is in it.
    New,
}

/// A watch under way. Paths are those below its directory.
struct Watch<'a> {
    top: &'a OwnedFd,
    events: &'a OwnedFd,
    directories: HashMap<i32, PathBuf>,
    pending: Pending,
    is_gone: bool,
}

impl Watch<'_> {
    /// Watches a directory and those in it.
    fn add(&mut self, path: &Path, found: Found) -> rustix::io::Result<()> {
        // Where there are too many, those near the top are seen.
        let mut left = VecDeque::from([path.to_owned()]);
        while let Some(path) = left.pop_front() {
            let directory = match open_inside(self.top, &path) {
                Ok(directory) => directory,
                // Gone, replaced or another user's.
                Err(_) if !path.as_os_str().is_empty() => continue,
                Err(errno) => return Err(errno),
            };
            if is_made_by_kernel(&directory, self.top) || within(path.iter().count()).is_err() {
                continue;
            }
            if !self.add_one(&directory, &path)? {
                self.pending.note(path, Change::Unwatched);
                continue;
            }
            // Listed after it is watched: what is added meanwhile is seen twice, not never.
            for (name, kind) in names(&directory)? {
                if is_ours(&name) {
                    continue;
                }
                let inside = path.join(&name);
                if kind_of(&directory, &name, kind) == FileType::Directory {
                    left.push_back(inside.clone());
                }
                if found == Found::New {
                    self.pending.note(inside, Change::Created);
                }
            }
        }
        Ok(())
    }

    /// Watches one directory; whether there was room for it.
    fn add_one(&mut self, directory: &OwnedFd, path: &Path) -> rustix::io::Result<bool> {
        if self.directories.len() >= MOST_DIRECTORIES {
            return Ok(false);
        }
        let flags = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let open = format!("/proc/self/fd/{}", directory.as_raw_fd());
        match inotify::add_watch(self.events, open, flags) {
            Ok(number) => {
                self.directories.insert(number, path.to_owned());
                Ok(true)
            }
            // The user has as many watches as are allowed.
            Err(Errno::NOSPC) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Stops watching a directory that was moved away, and those in it.
    fn remove(&mut self, path: &Path) {
        let events = self.events;
        self.directories.retain(|number, watched| {
            let is_inside = watched.starts_with(path);
            if is_inside {
                // One that is gone is no longer watched anyway.
                let _ = inotify::remove_watch(events, *number);
            }
            !is_inside
        });
    }

    /// The directory itself is gone, or is no longer what its path leads to.
    fn end(&mut self) {
        self.pending.end();
        self.is_gone = true;
    }

    /// Takes all that has happened.
    fn read(&mut self, buffer: &mut [MaybeUninit<u8>]) -> rustix::io::Result<()> {
        let mut reader = Reader::new(self.events, buffer);
        loop {
            match reader.next() {
                Ok(event) => self.take(&event)?,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    fn take(&mut self, event: &Event<'_>) -> rustix::io::Result<()> {
        let happened = event.events();
        if happened.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.pending.overflow();
            // Directories that were made meanwhile are not watched yet.
            return self.add(Path::new(""), Found::Before);
        }
        if happened.contains(ReadFlags::IGNORED) {
            self.directories.remove(&event.wd());
            return Ok(());
        }
        let Some(directory) = self.directories.get(&event.wd()) else { return Ok(()) };
        let Some(name) = event.file_name().map(|name| std::ffi::OsStr::from_bytes(name.to_bytes()))
        else {
            if happened.contains(ReadFlags::MOVE_SELF) && directory.as_os_str().is_empty() {
                self.end();
            }
            return Ok(());
        };
        if is_ours(name) {
            return Ok(());
        }
        let path = directory.join(name);
        let is_directory = happened.contains(ReadFlags::ISDIR);
        if happened.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
            if is_directory {
                self.remove(&path);
            }
            self.pending.note(path, Change::Deleted);
        } else if happened.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            let is_new = happened.contains(ReadFlags::CREATE);
            let change = if is_new { Change::Created } else { Change::Moved };
            self.pending.note(path.clone(), change);
            if is_directory {
                self.add(&path, Found::New)?;
            }
        } else {
            self.pending.note(path, Change::Modified);
        }
        Ok(())
    }
}

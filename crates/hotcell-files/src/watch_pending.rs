//! Changes that were seen and not told yet: those of one path within a short time are told once.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, statat};
use serde::Serialize;

use crate::conversation::Conversation;
use crate::path::CellPath;
use crate::removal::open_inside;

const SETTLE: Duration = Duration::from_millis(50);
/// Beyond them the listener is told to look anew.
const MOST_PENDING: usize = 10_000;

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    Created,
    Modified,
    Deleted,
    /// It was moved to there.
    Moved,
    /// From now on changes below the path are told.
    Watching,
    /// So much happened that some of it is not told: look anew at what is below the path.
    Overflow,
    /// There are too many directories: changes in this one are not told.
    Unwatched,
}

/// A line of what is told.
#[derive(Debug, Serialize)]
struct Line {
    path: String,
    change: Change,
}

/// Tells of one change.
pub(crate) fn tell(
    base: &CellPath,
    path: &Path,
    change: Change,
    conversation: &Conversation,
) -> io::Result<()> {
    let whole = if path.as_os_str().is_empty() { base.clone() } else { base.join(path) };
    let mut line = serde_json::to_vec(&Line { path: whole.to_string(), change })?;
    line.push(b'\n');
    conversation.send(&line)
}

/// What is to be told, and when.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    changes: HashMap<PathBuf, Change>,
    due: VecDeque<(Instant, PathBuf)>,
}

impl Pending {
    /// Something happened.
    pub(crate) fn note(&mut self, path: PathBuf, change: Change) {
        if let Some(before) = self.changes.get_mut(&path) {
            *before = both(*before, change);
        } else if self.changes.len() >= MOST_PENDING {
            self.overflow();
        } else {
            self.due.push_back((Instant::now() + SETTLE, path.clone()));
            self.changes.insert(path, change);
        }
    }

    /// Some of what happened is not known.
    pub(crate) fn overflow(&mut self) {
        self.only(Change::Overflow);
    }

    /// The directory itself is gone.
    pub(crate) fn end(&mut self) {
        self.only(Change::Deleted);
    }

    /// Nothing else needs to be told before this, which is about the directory itself.
    fn only(&mut self, change: Change) {
        self.changes.clear();
        self.due.clear();
        self.due.push_back((Instant::now(), PathBuf::new()));
        self.changes.insert(PathBuf::new(), change);
    }

    /// How long until something is to be told.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.due.front().map(|(due, _)| due.saturating_duration_since(Instant::now()))
    }

    /// Tells what has waited long enough.
    pub(crate) fn tell_due(
        &mut self,
        base: &CellPath,
        top: &OwnedFd,
        conversation: &Conversation,
    ) -> io::Result<()> {
        let now = Instant::now();
        while self.due.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, path)) = self.due.pop_front() else { break };
            if let Some(change) = self.changes.remove(&path) {
                tell(base, &path, as_it_is(top, &path, change), conversation)?;
            }
        }
        Ok(())
    }
}

/// Two changes of one path as one.
fn both(before: Change, after: Change) -> Change {
    match (before, after) {
        (Change::Overflow, _) | (_, Change::Overflow) => Change::Overflow,
        (Change::Created, Change::Modified | Change::Moved) => Change::Created,
        (Change::Moved, Change::Modified) => Change::Moved,
        (Change::Deleted, Change::Created | Change::Moved) => Change::Modified,
        (_, after) => after,
    }
}

/// A change, corrected by what is there now: it may have come back, or be gone again.
fn as_it_is(top: &OwnedFd, path: &Path, change: Change) -> Change {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return change };
    let is_there = open_inside(top, parent)
        .and_then(|parent| statat(parent, name, AtFlags::SYMLINK_NOFOLLOW))
        .is_ok();
    match change {
        Change::Created | Change::Modified | Change::Moved if !is_there => Change::Deleted,
        Change::Deleted if is_there => Change::Modified,
        Change::Created
        | Change::Modified
        | Change::Moved
        | Change::Deleted
        | Change::Watching
        | Change::Overflow
        | Change::Unwatched => change,
    }
}

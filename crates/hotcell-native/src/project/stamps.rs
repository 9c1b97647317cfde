//! What real files were like right after a cell's changes were brought to them: changed since the
//! cell began, but by the cell.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

use super::place::Moment;
use hotcell_place::{read_json, save_json};

use crate::paths::CellPaths;

/// The state that a file was left in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    inode: u64,
    changed: Moment,
}

impl Stamp {
    pub(super) fn new(inode: u64, changed: Moment) -> Self {
        Self { inode, changed }
    }

    pub(super) fn of(stat: &Stat) -> Self {
        Self { inode: stat.st_ino, changed: changed(stat) }
    }
}

/// When a file was last changed in any way.
pub(super) fn changed(stat: &Stat) -> Moment {
    Moment::new(stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(i64::MAX))
}

/// Stamps by path; `None` for a file that the host does not have, as the cell knows. A name that is
/// not UTF-8 has none, and counts as changed by the user.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Stamps(BTreeMap<String, Option<Stamp>>);

impl Stamps {
    pub(super) fn load(paths: &CellPaths) -> io::Result<Self> {
        Ok(read_json(&paths.applied())?.unwrap_or_default())
    }

    pub(super) fn save(&self, paths: &CellPaths) -> io::Result<()> {
        save_json(&paths.applied(), self)
    }

    /// Whether a file is as it was left.
    pub(super) fn holds(&self, path: &Path, stat: &Stat) -> bool {
        self.get(path).flatten() == Some(Stamp::of(stat))
    }

    /// Whether the host had a file when the cell's changes were last applied. `None` if nothing of
    /// the cell was applied there.
    pub(super) fn was_there(&self, path: &Path) -> Option<bool> {
        self.get(path).map(|stamp| stamp.is_some())
    }

    /// The inode of a directory as it was left, and when that was.
    pub(super) fn directory(&self, path: &Path) -> Option<(u64, Moment)> {
        // The project itself is `.` here.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        self.get(path).flatten().map(|stamp| (stamp.inode, stamp.changed))
    }

    /// Everything that has a stamp.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.0.keys().map(PathBuf::from)
    }

    /// What the host had at a path; `None` if nothing of the cell was applied there.
    pub(super) fn get(&self, path: &Path) -> Option<Option<Stamp>> {
        self.0.get(path.to_str()?).copied()
    }

    /// Notes what the host has at a path now.
    pub(super) fn set(&mut self, path: &Path, stamp: Option<Stamp>) {
        if let Some(path) = path.to_str() {
            self.0.insert(path.to_owned(), stamp);
        }
    }
}

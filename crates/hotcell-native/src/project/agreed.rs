//! Records which project files were identical in the cell and on the host after an apply.
//!
//! An applied file stays in the cell's layers while a process runs in the cell or a checkpoint holds
//! the layer. As long as the cell's version equals the recorded one, the cell has not changed the
//! file, and [`super::follow`] copies later changes of the user into the cell.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use hotcell_images::Digesting;
use hotcell_place::{is_damage, read_json, remove_if_there, save_json};
use rustix::fs::{FileType, Stat, readlinkat};
use serde::{Deserialize, Serialize};

use super::change_digest::{of_file, of_link};
use super::stamps::Stamp;
use crate::paths::CellPaths;
use crate::tree;

/// Larger files are not compared again and again.
pub(super) const MOST_BYTES: u64 = 64 << 20;

/// What a file is like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    bytes: u64,
    /// The permissions of a file; those of a link mean nothing.
    mode: u32,
    digest: String,
}

impl Version {
    /// Of a file with this digest; `None` if it is too large.
    pub(super) fn of_file(bytes: u64, mode: u32, digest: String) -> Option<Self> {
        (bytes <= MOST_BYTES).then_some(Self { bytes, mode: mode & 0o777, digest })
    }

    pub(super) fn of_link(target: &[u8]) -> Self {
        Self { bytes: target.len() as u64, mode: 0, digest: of_link(target) }
    }
}

/// Whether a version is what is at a path; `None` stands for nothing. Only what can be equal is read.
pub(super) fn is_at(root: &OwnedFd, path: &Path, version: Option<&Version>) -> io::Result<bool> {
    match tree::parent(root, path) {
        Ok((above, name)) => is_in(&above, Path::new(name), version),
        Err(error) if tree::is_absent(&error) => Ok(version.is_none()),
        Err(error) => Err(error),
    }
}

fn is_in(above: &OwnedFd, name: &Path, version: Option<&Version>) -> io::Result<bool> {
    let stat = tree::look_in(above, name.as_os_str())?;
    let (stat, version) = match (stat, version) {
        (Some(stat), Some(version)) => (stat, version),
        (stat, version) => return Ok(stat.is_none() && version.is_none()),
    };
    if u64::try_from(stat.st_size) != Ok(version.bytes) {
        return Ok(false);
    }
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let target = readlinkat(above, name, Vec::new())?;
            Ok(Version::of_link(target.as_bytes()) == *version)
        }
        FileType::RegularFile if stat.st_mode & 0o777 == version.mode => {
            let file = tree::open_file(above.as_fd(), name.as_os_str())?;
            // It may grow meanwhile.
            let file = io::Read::take(file, version.bytes + 1);
            Ok(of_file(Digesting::new(file))? == version.digest)
        }
        FileType::RegularFile
        | FileType::Directory
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Ok(false),
    }
}

/// What was agreed on about one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Agreement {
    /// The host's file as it was left; `None` if the host had none.
    host: Option<Stamp>,
    /// What both had.
    pub(super) version: Option<Version>,
}

impl Agreement {
    pub(super) fn new(host: Option<Stamp>, version: Option<Version>) -> Self {
        Self { host, version }
    }

    /// Whether the host still has what was agreed on.
    pub(super) fn holds(&self, host: Option<&Stat>) -> bool {
        self.host == host.map(Stamp::of)
    }
}

/// What was agreed on, by path. A name that is not UTF-8 is not among them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Agreements(BTreeMap<String, Agreement>);

impl Agreements {
    /// Without a record, or with a damaged one, nothing counts as agreed on: that only makes
    /// conflicts of what would be none.
    pub(super) fn load(paths: &CellPaths) -> io::Result<Self> {
        match read_json(&paths.agreed()) {
            Err(error) if is_damage(&error) => Ok(Self::default()),
            read => Ok(read?.unwrap_or_default()),
        }
    }

    pub(super) fn save(&self, paths: &CellPaths) -> io::Result<()> {
        if self.0.is_empty() { forget(paths) } else { save_json(&paths.agreed(), self) }
    }

    pub(super) fn get(&self, path: &Path) -> Option<&Agreement> {
        self.0.get(path.to_str()?)
    }

    /// Whether the host has at a path what was agreed on.
    pub(super) fn holds(&self, path: &Path, host: Option<&Stat>) -> bool {
        self.get(path).is_some_and(|agreement| agreement.holds(host))
    }

    pub(super) fn set(&mut self, path: &Path, agreement: Agreement) {
        if let Some(path) = path.to_str() {
            self.0.insert(path.to_owned(), agreement);
        }
    }

    /// Ends what was agreed on about a path.
    pub(super) fn end(&mut self, path: &Path) {
        if let Some(path) = path.to_str() {
            self.0.remove(path);
        }
    }

    /// Ends what was agreed on about these paths and what is in them.
    pub(super) fn end_in(&mut self, paths: &[PathBuf]) {
        self.0.retain(|agreed, _| !paths.iter().any(|path| Path::new(agreed).starts_with(path)));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Path, &Agreement)> {
        self.0.iter().map(|(path, agreement)| (Path::new(path), agreement))
    }
}

/// Ends everything that was agreed on: the cell has other files now.
pub(super) fn forget(paths: &CellPaths) -> io::Result<()> {
    remove_if_there(&paths.agreed())
}

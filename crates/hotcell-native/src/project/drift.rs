//! Which files the user changed after the cell had made its own version of them.
//!
//! The user and the cell work on the same files for weeks. A file that the user changed before the
//! cell first wrote to it is no conflict: the cell was shown the change and went on from there. So
//! each time before the cell is shown what the user changed, the changed files of which it already
//! has its own version are noted. Changes that it was not shown yet count as conflicts.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use hotcell_model::CheckpointId;
use hotcell_place::{is_damage, read_json, remove_if_there, write_json};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat};
use serde::{Deserialize, Serialize};

use super::agreed::{self, Agreements};
use super::changes::{layer_of, written};
use super::discard::hides_the_hosts;
use super::journal::{Bytes, is_staging_name};
use super::place::{Moment, Project};
use super::shown::{Shown, ShownDirectory};
use super::stamps::{Stamps, changed};
use crate::order::Placed;
use crate::paths::CellPaths;
use crate::tree;

/// What is known about changes of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Drift {
    /// Every change of the user before this was shown to the cell, or is in `files`.
    shown: Moment,
    /// Files that the user changed or removed after the cell had made a version of its own.
    files: BTreeSet<Bytes>,
    /// The inodes of the host's directories beside what the cell wrote, sorted by path. They are
    /// needed for a project whose tree is not recorded.
    #[serde(default)]
    directories: Vec<(Bytes, u64)>,
}

impl Drift {
    /// What is known of a project. Without notes, every change since the cell began counts.
    pub(super) fn load(paths: &CellPaths, project: &Project) -> io::Result<Self> {
        match read_json(&paths.drift()) {
            Ok(Some(drift)) => Ok(drift),
            Ok(None) => Ok(Self::since(project.attached)),
            Err(error) if is_damage(&error) => Ok(Self::since(project.attached)),
            Err(error) => Err(error),
        }
    }

    /// Nothing before this moment is a conflict.
    pub(super) fn since(shown: Moment) -> Self {
        Self { shown, files: BTreeSet::new(), directories: Vec::new() }
    }

    /// Survives no power cut: older notes only show more conflicts.
    pub(super) fn save(&self, paths: &CellPaths) -> io::Result<()> {
        write_json(&paths.drift(), self)
    }

    /// Whether a file of the host may have changed since the cell was shown it.
    pub(super) fn is_later(&self, stat: &Stat) -> bool {
        changed(stat) >= self.shown
    }

    /// Whether the file was noted when the cell was shown a later change.
    pub(super) fn is_noted(&self, path: &Path) -> bool {
        self.files.contains(&Bytes::of(path))
    }

    /// Whether a directory of the host is not the one that the cell was shown at this path; the
    /// empty path is the project itself.
    pub(super) fn is_replaced(
        &self,
        path: &Path,
        stat: &Stat,
        shown: &Shown,
        stamps: &Stamps,
    ) -> io::Result<bool> {
        // The cell may not have been shown yet what was applied since.
        if stamps
            .directory(path)
            .is_some_and(|(inode, at)| inode == stat.st_ino && at >= self.shown)
        {
            return Ok(false);
        }
        Ok(match (shown.directory(path)?, self.directory(path)) {
            (ShownDirectory::Inode(inode), _) | (ShownDirectory::Unknown, Some(inode)) => {
                inode != stat.st_ino
            }
            (ShownDirectory::Absent, _) => true,
            (ShownDirectory::Unknown, None) => changed(stat) >= self.shown,
        })
    }

    fn directory(&self, path: &Path) -> Option<u64> {
        let path = Bytes::of(path);
        let found = self.directories.binary_search_by(|(at, _)| at.cmp(&path));
        found.ok().map(|found| self.directories[found].1)
    }

    /// The host has the cell's version of these paths now.
    pub(super) fn agree_on(&mut self, paths: &[PathBuf]) {
        self.files.retain(|file| !paths.contains(&file.path()));
    }

    /// The cell has no version of its own of these paths any more.
    pub(super) fn forget(&mut self, paths: &[PathBuf]) {
        self.files.retain(|file| {
            let file = file.path();
            !paths.iter().any(|path| file.starts_with(path))
        });
    }

    /// Notes what the user changed, right before the cell is shown it; whether the directory of the
    /// project was replaced.
    fn note(
        &mut self,
        project: &Project,
        written: &[PathBuf],
        (shown, stamps, agreed): (&Shown, &Stamps, &Agreements),
    ) -> io::Result<bool> {
        // What is changed while this looks is seen by the next one.
        let now = Moment::now();
        let host = open(&project.dir)?;
        let mut walk = Walk {
            project: &host,
            before: self,
            shown,
            stamps,
            agreed,
            still: BTreeSet::new(),
            drifted: Vec::new(),
            directories: BTreeMap::new(),
        };
        let is_replaced = walk.look_into(Path::new(""), &host, false)?;
        for layer in written {
            match open(layer) {
                Ok(layer) => walk.compare(&layer, Some(&host), Path::new(""), is_replaced)?,
                Err(error) if tree::is_absent(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let Walk { mut still, drifted, directories, .. } = walk;
        still.extend(drifted);
        *self = Self { shown: now, files: still, directories: directories.into_iter().collect() };
        Ok(is_replaced)
    }
}

/// What the user changed in a project, as it was noted right before the cell is shown it.
#[derive(Debug)]
pub(crate) struct Noted {
    drift: Drift,
    /// Whether the directory itself is not the one that the cell works on.
    pub(crate) is_replaced: bool,
}

impl Noted {
    /// Keeps the note once the cell was shown the project. If that failed, the note before it counts:
    /// the cell does not know yet what the user changed since.
    pub(crate) fn keep(&self, paths: &CellPaths) -> io::Result<()> {
        self.drift.save(paths)
    }
}

/// Notes what the user changed in the project of a cell.
pub(crate) fn note_host_changes(paths: &CellPaths, placed: &Placed) -> io::Result<Option<Noted>> {
    let (Some(project), Some(layer)) = (&placed.project, layer_of(placed)) else {
        return Ok(None);
    };
    let mut drift = Drift::load(paths, project)?;
    let shown = Shown::open(&paths.shown())?;
    let known = (&shown, &Stamps::load(paths)?, &Agreements::load(paths)?);
    let is_replaced = drift.note(project, &written(layer, project), known)?;
    Ok(Some(Noted { drift, is_replaced }))
}

/// Keeps what is known at a checkpoint, for when the cell goes back to it.
pub(crate) fn at_checkpoint(
    paths: &CellPaths,
    placed: &Placed,
    checkpoint: &CheckpointId,
) -> io::Result<Option<Drift>> {
    let Some(project) = &placed.project else { return Ok(None) };
    let kept = paths.shown_at(checkpoint);
    fs::create_dir_all(kept.parent().unwrap_or(paths.root()))?;
    match fs::hard_link(paths.shown(), &kept) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    Drift::load(paths, project).map(Some)
}

/// Takes up what was known at a checkpoint of `from`: the cell has its files again. Without a record
/// of the tree, every directory that changed since counts as replaced.
pub(crate) fn back_at_checkpoint(
    paths: &CellPaths,
    from: &CellPaths,
    checkpoint: &CheckpointId,
    kept: Option<&Drift>,
) -> io::Result<()> {
    agreed::forget(paths)?;
    let restored = paths.shown().with_extension("restored");
    match fs::copy(from.shown_at(checkpoint), &restored) {
        Ok(_) => fs::rename(&restored, paths.shown())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => remove_if_there(&paths.shown())?,
        Err(error) => return Err(error),
    }
    match kept {
        Some(drift) => drift.save(paths),
        None => remove_if_there(&paths.drift()),
    }
}

/// Opens a directory by its one true name.
pub(super) fn open(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, directory, flags, Mode::empty())?)
}

/// Opens a directory in another one; `None` if it has gone meanwhile.
fn open_in(directory: &OwnedFd, name: &OsStr) -> io::Result<Option<OwnedFd>> {
    match tree::directory(directory, Path::new(name)) {
        Err(error) if tree::is_absent(&error) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Compares what a cell wrote with what the user changed.
struct Walk<'a> {
    /// The directory of the host.
    project: &'a OwnedFd,
    /// What was known before.
    before: &'a Drift,
    shown: &'a Shown,
    stamps: &'a Stamps,
    agreed: &'a Agreements,
    /// The files that were noted before and of which the cell still has a version.
    still: BTreeSet<Bytes>,
    /// Files that the user changed since.
    drifted: Vec<Bytes>,
    /// The directories of the host that were looked into.
    directories: BTreeMap<Bytes, u64>,
}

impl Walk<'_> {
    /// Compares a directory that the cell wrote to with that of the host, if it has one. `replaced`
    /// tells whether the host's is not the one that the cell was shown.
    fn compare(
        &mut self,
        layer: &OwnedFd,
        host: Option<&OwnedFd>,
        below: &Path,
        replaced: bool,
    ) -> io::Result<()> {
        for name in names(layer)? {
            let path = below.join(&name);
            let Some(stat) = tree::look_in(layer, &name)? else { continue };
            let there = host.map(|host| tree::look_in(host, &name)).transpose()?.flatten();
            if is_staging_name(&name) {
                continue;
            }
            let is_inside = is_directory(&stat);
            if !is_inside || there.as_ref().is_some_and(|there| !is_directory(there)) {
                self.take(&path, there.as_ref(), !is_removal(&stat), replaced)?;
            }
            let inner = match (host, there.as_ref().is_some_and(is_directory)) {
                (Some(host), true) => open_in(host, &name)?,
                (_, _) => None,
            };
            let replaced = match &inner {
                Some(inner) => self.look_into(&path, inner, replaced)?,
                None => replaced,
            };
            let layer = if is_inside { open_in(layer, &name)? } else { None };
            if let Some(inner) = &inner
                && layer.as_ref().is_none_or(hides_the_hosts)
            {
                self.take_all(inner, &path, replaced)?;
            }
            if let Some(layer) = layer {
                self.compare(&layer, inner.as_ref(), &path, replaced)?;
            }
        }
        Ok(())
    }

    /// Takes all files of a directory that the cell removed.
    fn take_all(&mut self, host: &OwnedFd, below: &Path, replaced: bool) -> io::Result<()> {
        for name in names(host)? {
            let path = below.join(&name);
            let Some(stat) = tree::look_in(host, &name)? else { continue };
            self.take(&path, Some(&stat), false, replaced)?;
            if is_directory(&stat)
                && let Some(inside) = open_in(host, &name)?
            {
                let replaced = self.look_into(&path, &inside, replaced)?;
                self.take_all(&inside, &path, replaced)?;
            }
        }
        Ok(())
    }

    /// Whether a directory of the host, or one above it, is not the one that the cell was shown.
    fn look_into(&mut self, path: &Path, host: &OwnedFd, above: bool) -> io::Result<bool> {
        let stat = fstat(host)?;
        self.directories.insert(Bytes::of(path), stat.st_ino);
        Ok(above || self.before.is_replaced(path, &stat, self.shown, self.stamps)?)
    }

    /// Takes a path of which the cell has its own version; `has_file` tells whether that is a file.
    fn take(
        &mut self,
        path: &Path,
        host: Option<&Stat>,
        has_file: bool,
        replaced: bool,
    ) -> io::Result<()> {
        if self.before.is_noted(path) {
            self.still.insert(Bytes::of(path));
        }
        let has_drifted = match host {
            _ if self.agreed.holds(path, host) => false,
            Some(host) if self.stamps.holds(path, host) => false,
            Some(host) => {
                replaced
                    || (self.before.is_later(host) && !self.shown.has_index(self.project, path)?)
            }
            // The user removed what the cell had made its own version of.
            None => {
                has_file
                    && self.stamps.was_there(path) != Some(false)
                    && self.shown.has_file(path)?
            }
        };
        if has_drifted {
            self.drifted.push(Bytes::of(path));
        }
        Ok(())
    }
}

/// Whether something in a layer only says that the cell removed what is below.
fn is_removal(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

fn names(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
        if name != OsStr::new(".") && name != OsStr::new("..") {
            names.push(name);
        }
    }
    Ok(names)
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

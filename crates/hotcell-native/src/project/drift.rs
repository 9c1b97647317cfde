//! Which files the user changed after the cell had made its own version of them.
//!
//! The user and the cell work on the same files for weeks. A file that the user changed before the
//! cell first wrote to it is no conflict: the cell was shown the change and went on from there. So
//! each time the cell is about to be shown what the user changed, the changed files of which it has
//! its own version by then are noted. Changes that it was not shown yet count as conflicts.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use hotcell_place::{is_damage, read_json, write_json};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, Stat, openat};
use serde::{Deserialize, Serialize};

use super::changes::{layer_of, written};
use super::discard::hides_the_hosts;
use super::journal::{Bytes, is_staging_name};
use super::place::{Moment, Project};
use super::stamps::{Stamps, changed};
use crate::order::Placed;
use crate::paths::CellPaths;
use crate::tree;

/// What is known about changes of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Drift {
    /// Every change of the user before this was shown to the cell, or is in `files`.
    shown: Moment,
    /// Files that the user changed after the cell had made a version of its own.
    files: BTreeSet<Bytes>,
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
        Self { shown, files: BTreeSet::new() }
    }

    /// Survives no power cut: older notes only show more conflicts.
    pub(super) fn save(&self, paths: &CellPaths) -> io::Result<()> {
        write_json(&paths.drift(), self)
    }

    /// Whether the user changed a file of the host after the cell made a version of its own.
    pub(super) fn has(&self, path: &Path, stat: &Stat) -> bool {
        changed(stat) >= self.shown || self.files.contains(&Bytes::of(path))
    }

    /// The cell has no version of its own of these paths any more.
    pub(super) fn forget(&mut self, paths: &[PathBuf]) {
        self.files.retain(|file| {
            let file = file.path();
            !paths.iter().any(|path| file.starts_with(path))
        });
    }

    /// Notes what the user changed, right before the cell is shown it.
    fn note(&mut self, project: &Project, written: &[PathBuf], stamps: &Stamps) -> io::Result<()> {
        // What is changed while this looks is seen by the next one.
        let now = Moment::now();
        let host = open(&project.dir)?;
        let mut walk = Walk {
            shown: self.shown,
            stamps,
            known: &self.files,
            still: BTreeSet::new(),
            drifted: Vec::new(),
        };
        for layer in written {
            match open(layer) {
                Ok(layer) => walk.compare(&layer, &host, Path::new(""))?,
                Err(error) if tree::is_absent(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let Walk { mut still, drifted, .. } = walk;
        still.extend(drifted);
        self.files = still;
        self.shown = now;
        Ok(())
    }
}

/// Notes what the user changed in the project of a cell, right before the cell is shown it.
pub(crate) fn note_host_changes(paths: &CellPaths, placed: &Placed) -> io::Result<()> {
    let (Some(project), Some(layer)) = (&placed.project, layer_of(placed)) else { return Ok(()) };
    let mut drift = Drift::load(paths, project)?;
    drift.note(project, &written(layer, project), &Stamps::load(paths)?)?;
    drift.save(paths)
}

/// What is known at a checkpoint, for when the cell goes back to it.
pub(crate) fn at_checkpoint(paths: &CellPaths, placed: &Placed) -> io::Result<Option<Drift>> {
    placed.project.as_ref().map(|project| Drift::load(paths, project)).transpose()
}

/// What is known once a cell has the files of a checkpoint.
pub(crate) fn back_at_checkpoint(paths: &CellPaths, kept: Option<&Drift>) -> io::Result<()> {
    match kept {
        Some(drift) => drift.save(paths),
        None => hotcell_place::remove_if_there(&paths.drift()),
    }
}

fn open(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, directory, flags, Mode::empty())?)
}

/// Compares what a cell wrote with what the user changed.
struct Walk<'a> {
    shown: Moment,
    stamps: &'a Stamps,
    /// The files that were noted before.
    known: &'a BTreeSet<Bytes>,
    /// Those of them that the cell still has a version of.
    still: BTreeSet<Bytes>,
    /// Files that the user changed since.
    drifted: Vec<Bytes>,
}

impl Walk<'_> {
    /// Compares a directory that the cell wrote to with that of the host.
    fn compare(&mut self, layer: &OwnedFd, host: &OwnedFd, below: &Path) -> io::Result<()> {
        for name in names(layer)? {
            let path = below.join(&name);
            let Some(stat) = tree::look_in(layer, &name)? else { continue };
            let there = tree::look_in(host, &name)?;
            let (is_inside, is_host) =
                (is_directory(&stat), there.as_ref().is_some_and(is_directory));
            if !is_inside {
                self.take(&path, there.as_ref());
            }
            if !is_host || is_staging_name(&name) {
                // What the host does not have, it did not change.
                continue;
            }
            let host = match tree::directory(host, Path::new(&name)) {
                Err(error) if tree::is_absent(&error) => continue,
                host => host?,
            };
            if is_inside {
                let layer = match tree::directory(layer, Path::new(&name)) {
                    Err(error) if tree::is_absent(&error) => continue,
                    layer => layer?,
                };
                if hides_the_hosts(&layer) {
                    self.take_all(&host, &path)?;
                }
                self.compare(&layer, &host, &path)?;
            } else {
                self.take_all(&host, &path)?;
            }
        }
        Ok(())
    }

    /// Takes all files of a directory that the cell removed.
    fn take_all(&mut self, host: &OwnedFd, below: &Path) -> io::Result<()> {
        for name in names(host)? {
            let path = below.join(&name);
            let Some(stat) = tree::look_in(host, &name)? else { continue };
            self.take(&path, Some(&stat));
            if is_directory(&stat) {
                match tree::directory(host, Path::new(&name)) {
                    Err(error) if tree::is_absent(&error) => {}
                    inside => self.take_all(&inside?, &path)?,
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, path: &Path, host: Option<&Stat>) {
        if !self.known.is_empty() {
            let path = Bytes::of(path);
            if self.known.contains(&path) {
                self.still.insert(path);
            }
        }
        if let Some(host) = host
            && changed(host) >= self.shown
            && !self.stamps.holds(path, host)
        {
            self.drifted.push(Bytes::of(path));
        }
    }
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

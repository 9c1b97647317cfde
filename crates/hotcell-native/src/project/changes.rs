//! What a cell has changed in its project, and what there is to say of each change.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use hotcell_jail::mounts::{Layer, Lower, LowerIds};
use hotcell_jail::views::with_views;
use hotcell_model::{ChangeKind, ProjectChange};
use rustix::fs::{FileType, Stat, lgetxattr, readlinkat};

use super::agreed::{Agreements, is_at};
use super::drift::Drift;
use super::place::Project;
use super::shown::Shown;
use super::stamps::{Stamps, changed};
use super::{TARGET, guarded, journal};
use crate::compare::{Change, ModeBits, compare_views};
use crate::order::Placed;
use crate::paths::CellPaths;
use crate::tree;

/// What is known of the host's files since the cell began to work on them.
#[derive(Debug)]
pub(super) struct Baseline {
    pub(super) stamps: Stamps,
    pub(super) agreed: Agreements,
    pub(super) drift: Drift,
    shown: Shown,
}

impl Baseline {
    pub(super) fn load(paths: &CellPaths, project: &Project) -> io::Result<Self> {
        let shown = Shown::open(&paths.shown())?;
        let (stamps, agreed) = (Stamps::load(paths)?, Agreements::load(paths)?);
        Ok(Self { stamps, agreed, drift: Drift::load(paths, project)?, shown })
    }
}

/// A project beside what its cell makes of it.
pub(super) struct Sides<'a> {
    pub(super) project: &'a Project,
    baseline: &'a Baseline,
    /// The real files; can be written to.
    pub(super) host: &'a OwnedFd,
    /// As the cell sees them.
    pub(super) cell: &'a OwnedFd,
    /// The directories of what the cell wrote, the topmost first.
    written: &'a [PathBuf],
}

/// A change with all that decides about it.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) change: Change,
    /// What the host has.
    pub(super) host: Option<Stat>,
    /// What the cell has.
    pub(super) cell: Option<Stat>,
    pub(super) guarded: Option<&'static str>,
    pub(super) drifted: bool,
    /// The digest of the content that was approved, which must be what is applied.
    pub(super) approved: Option<String>,
}

impl Found {
    /// As callers see it.
    pub(super) fn shown(&self) -> ProjectChange {
        ProjectChange {
            path: self.change.path.to_string_lossy().into_owned(),
            change: self.change.kind,
            directory: self.change.directory,
            guarded: self.guarded.map(str::to_owned),
            drifted: self.drifted,
        }
    }

    /// Whether it is among these paths, or in one of them.
    pub(super) fn is_in(&self, paths: &[PathBuf]) -> bool {
        paths.is_empty() || paths.iter().any(|path| self.change.path.starts_with(path))
    }

    /// What kind of thing the cell has there, if it has any.
    pub(super) fn kind(&self) -> Option<FileType> {
        self.cell.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode))
    }
}

/// The part of a cell that its project is.
pub(super) fn layer_of(placed: &Placed) -> Option<&Layer> {
    placed.layers.iter().find(|layer| layer.target == Path::new(TARGET))
}

/// The directories of what the cell wrote to its project, the topmost first.
pub(super) fn written(layer: &Layer, project: &Project) -> Vec<PathBuf> {
    let upper = layer.upper.iter().map(|upper| upper.data.clone());
    let lowers = layer.lowers.iter().map(|lower| lower.path.clone());
    upper.chain(lowers.filter(|path| *path != project.dir)).collect()
}

/// Does some work on a project beside what its cell makes of it. What the work says is passed back.
pub(super) fn with_sides(
    placed: &Placed,
    project: &Project,
    baseline: &Baseline,
    work: impl FnOnce(&Sides<'_>) -> io::Result<Vec<u8>>,
) -> io::Result<Vec<u8>> {
    let layer = layer_of(placed).ok_or_else(|| io::Error::other("the cell has no project"))?;
    let written = written(layer, project);
    let own = |path: &PathBuf| Lower { path: path.clone(), ids: LowerIds::Own };
    let now: Vec<Lower> = written.iter().map(own).chain([project.lower()]).collect();
    let views = [vec![project.lower()], now];
    let done = with_views(&placed.ids, &views, |views| {
        work(&Sides { project, baseline, host: &views[0], cell: &views[1], written: &written })
    });
    done.map_err(io::Error::other)
}

impl Sides<'_> {
    /// What differs, at most one more than `limit`.
    pub(super) fn changes(&self, limit: usize) -> io::Result<Vec<Found>> {
        let may_differ = |path: &Path| self.written.iter().any(|layer| layer.join(path).is_dir());
        let changes = compare_views(self.host, self.cell, BITS, &may_differ, limit)?;
        let (mut found, mut agreed) = (Vec::with_capacity(changes.len()), Vec::new());
        for change in changes {
            // Ours, and nobody's change.
            let is_staging = change.path.iter().next().is_some_and(journal::is_staging_name);
            // What is mounted in the project is not seen in the cell, and no change of it.
            let is_unseen =
                change.kind != ChangeKind::Added && self.is_mounted_over(&change.path)?;
            if is_staging || is_unseen {
                continue;
            }
            if self.is_agreed(&change)? {
                agreed.push(change.path);
            } else {
                found.push(self.judge(change)?);
            }
        }
        // Nor is the removal of a directory that the user made again for such a file.
        found.retain(|found| {
            let Change { path, kind, directory } = &found.change;
            let is_removal = *kind == ChangeKind::Removed && *directory;
            !is_removal || !agreed.iter().any(|agreed| agreed.starts_with(path))
        });
        Ok(found)
    }

    /// Whether the cell has what was agreed on with the host, so that only the user changed it since.
    fn is_agreed(&self, change: &Change) -> io::Result<bool> {
        match self.baseline.agreed.get(&change.path) {
            Some(agreement) if !change.directory => {
                is_at(self.cell, &change.path, agreement.version.as_ref())
            }
            Some(_) | None => Ok(false),
        }
    }

    /// Whether the host has something else mounted at a path, or above it.
    fn is_mounted_over(&self, path: &Path) -> io::Result<bool> {
        let root = rustix::fs::fstat(self.host)?;
        for above in path.ancestors().filter(|above| !above.as_os_str().is_empty()) {
            if let Some(stat) = tree::look(self.host, above)? {
                return Ok(stat.st_dev != root.st_dev);
            }
        }
        Ok(false)
    }

    fn judge(&self, change: Change) -> io::Result<Found> {
        let host = match change.kind {
            ChangeKind::Added => None,
            ChangeKind::Changed | ChangeKind::Removed => tree::look(self.host, &change.path)?,
        };
        let cell = match change.kind {
            ChangeKind::Removed => None,
            ChangeKind::Changed | ChangeKind::Added => tree::look(self.cell, &change.path)?,
        };
        let mut found = Found { change, host, cell, guarded: None, drifted: false, approved: None };
        found.guarded = match found.change.kind {
            // What is gone makes nobody run anything.
            ChangeKind::Removed => None,
            ChangeKind::Added | ChangeKind::Changed => self.guard(&found)?,
        };
        found.drifted = self.has_drifted(&found)?;
        Ok(found)
    }

    fn guard(&self, found: &Found) -> io::Result<Option<&'static str>> {
        let path = &found.change.path;
        let is_there =
            |view: &OwnedFd, path: &Path| tree::look(view, path).ok().flatten().is_some();
        let has = |path: &Path| is_there(self.cell, path) || is_there(self.host, path);
        if self.is_mounted_over(path)? {
            return Ok(Some(MOUNTED));
        }
        if let Some(why) = guarded::by_name(path, found.change.directory, has) {
            return Ok(Some(why));
        }
        let Some(kind) = found.kind() else { return Ok(None) };
        match kind {
            FileType::RegularFile => {
                let runs = |stat: &Stat| stat.st_mode & 0o111 != 0;
                let ran = found.host.as_ref().is_some_and(|stat| {
                    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && runs(stat)
                });
                let is_new = found.cell.as_ref().is_some_and(runs) && !ran;
                Ok(is_new.then_some("a new program"))
            }
            FileType::Symlink => {
                let (above, name) = tree::parent(self.cell, path)?;
                let target = readlinkat(&above, name, Vec::new())?;
                let target = Path::new(std::ffi::OsStr::new(target.to_str().unwrap_or("/")));
                Ok(leads_out(path, target).then_some("a link that leads out of the project"))
            }
            FileType::Directory => Ok(None),
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Ok(Some(NO_FILE)),
        }
    }

    /// Whether the host changed it since the cell made its own version, or has it no more.
    fn has_drifted(&self, found: &Found) -> io::Result<bool> {
        let path = &found.change.path;
        if found.change.directory && found.change.kind != ChangeKind::Removed {
            // What is in it tells.
            return Ok(false);
        }
        if found.host.is_some() {
            return Ok(!self.is_sound(path)?);
        }
        // Where the host has something else, that is removed by a change of its own.
        Ok(tree::look(self.host, path)?.is_none() && self.was_removed(path)?)
    }

    /// Whether the user removed a file of the host that the cell has a version of.
    fn was_removed(&self, path: &Path) -> io::Result<bool> {
        let Baseline { stamps, drift, shown, agreed } = self.baseline;
        match stamps.was_there(path) {
            _ if agreed.holds(path, None) => Ok(false),
            Some(was_there) => Ok(was_there),
            None if drift.is_noted(path) || shown.has_file(path)? => Ok(true),
            None => Ok(self.began_with_the_hosts(path) && self.something_went_from(path)?),
        }
    }

    /// Whether what the cell has was made from a file of the host.
    fn began_with_the_hosts(&self, path: &Path) -> bool {
        let has_origin = |file: PathBuf| {
            ["trusted.overlay.origin", "user.overlay.origin"].iter().any(|name| {
                let mut value = [0; 512];
                lgetxattr(&file, *name, &mut value).is_ok()
            })
        };
        let file = self.written.iter().map(|layer| layer.join(path));
        let mut file = file.filter(|file| file.symlink_metadata().is_ok());
        file.next().is_some_and(has_origin)
    }

    /// Whether names came or went in the directory of a path since the cell began with it.
    fn something_went_from(&self, path: &Path) -> io::Result<bool> {
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            if tree::look(self.host, above)?.is_some() {
                return Ok(!self.is_sound_directory(above)?);
            }
        }
        Ok(!self.is_sound_directory(Path::new("."))?)
    }

    /// True if the user has not changed a real file since the cell made its own version.
    pub(super) fn is_sound(&self, path: &Path) -> io::Result<bool> {
        let Baseline { stamps, drift, shown, agreed } = self.baseline;
        let Some(stat) = journal::look_at(self.host, path)? else { return Ok(true) };
        if stamps.holds(path, &stat) || agreed.holds(path, Some(&stat)) {
            return Ok(true);
        }
        if drift.is_noted(path) || self.is_in_replaced(path)? {
            return Ok(false);
        }
        Ok(!drift.is_later(&stat) || shown.has_index(self.host, path)?)
    }

    /// Whether a directory above a path is not the one that the cell was shown.
    fn is_in_replaced(&self, path: &Path) -> io::Result<bool> {
        let Baseline { stamps, drift, shown, .. } = self.baseline;
        for above in path.ancestors().skip(1) {
            let top = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            if let Some(stat) = journal::look_at(self.host, top)?
                && drift.is_replaced(above, &stat, shown, stamps)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if the user has not changed a real directory since the cell was made.
    fn is_sound_directory(&self, path: &Path) -> io::Result<bool> {
        Ok(journal::look_at(self.host, path)?.is_none_or(|stat| {
            self.baseline.stamps.holds(path, &stat) || changed(&stat) < self.project.attached
        }))
    }
}

/// The others never leave a cell.
const BITS: ModeBits = ModeBits::Permissions;

/// Why something is never brought to the host.
pub(super) const NO_FILE: &str = "no file, link or directory, and stays with the cell";

/// The same for what the host does not see as the cell does.
pub(super) const MOUNTED: &str =
    "in something that is mounted on the host, and stays with the cell";

/// Whether a link at a path of the project may lead to something that is not in it. Where a name is
/// followed by `..` nobody can tell: the name may be a link itself.
pub(super) fn leads_out(link: &Path, target: &Path) -> bool {
    let mut above = link.parent().map_or(0, |parent| parent.components().count());
    let mut named = false;
    for part in target.components() {
        match part {
            Component::RootDir | Component::Prefix(_) => return true,
            Component::ParentDir if named || above == 0 => return true,
            Component::ParentDir => above -= 1,
            Component::Normal(_) => named = true,
            Component::CurDir => {}
        }
    }
    false
}

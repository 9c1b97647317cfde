//! Which directories can be projects, and what a project is in a cell.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hotcell_jail::ids::{Starter, starter};
use hotcell_jail::mounts::{Layer, Lower, LowerIds, Shared, Upper};
use hotcell_model::{Error, Result, Workspace, WorkspaceMode};
use rustix::fs::Stat;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::guarded;
use super::own::lies_in;

/// Where a project appears in its cell.
pub(crate) const TARGET: &str = "/workspace";

/// How the directories for changes of a project are called.
pub(super) const FILES: &str = "workspace";

/// A point in time by the clock that files have their times from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Moment {
    seconds: i64,
    nanoseconds: i64,
}

impl Moment {
    /// Now. Whatever is changed after this has a time that is not earlier.
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Self { seconds: now.tv_sec, nanoseconds: now.tv_nsec }
    }

    pub(crate) fn new(seconds: i64, nanoseconds: i64) -> Self {
        Self { seconds, nanoseconds }
    }
}

/// The project of a cell; kept with the cell, and with its forks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Project {
    /// The directory, by its one true name.
    pub(crate) dir: PathBuf,
    /// What becomes of what the cell writes.
    pub(crate) mode: WorkspaceMode,
    /// When the cell began with it.
    pub(crate) attached: Moment,
    uid: u32,
    gid: u32,
}

impl Project {
    /// The project that a new cell begins with.
    pub(crate) fn attach(workspace: &Workspace) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(&workspace.dir)?;
        if !metadata.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self {
            dir: workspace.dir.clone(),
            mode: workspace.mode,
            attached: Moment::now(),
            uid: metadata.uid(),
            gid: metadata.gid(),
        })
    }

    /// The same as if the cell began with it now.
    pub(super) fn attached_now(&self) -> Self {
        Self { attached: Moment::now(), ..self.clone() }
    }

    /// The part of the cell's root that it is, with writes going below `files`.
    pub(crate) fn layer(&self, files: &Path) -> Layer {
        let files = files.join(FILES);
        let upper = Upper { data: files.join("data"), work: files.join("work") };
        let (upper, shared) = match self.mode {
            WorkspaceMode::Cow => (Some(upper), None),
            WorkspaceMode::Ro => (None, None),
            WorkspaceMode::Rw => (None, Some(Shared { read_only: guarded::kept_in(&self.dir) })),
        };
        Layer { target: PathBuf::from(TARGET), lowers: vec![self.lower()], upper, shared }
    }

    /// Whether the directory is root's.
    pub(crate) fn is_roots(&self) -> bool {
        self.uid == 0
    }

    /// Whether a file belongs to the owner of the directory.
    pub(super) fn is_owner(&self, stat: &Stat) -> bool {
        stat.st_uid == self.uid
    }

    /// The directory as a part of the cell's root.
    pub(super) fn lower(&self) -> Lower {
        let ids = LowerIds::Host { uid: self.uid, gid: self.gid };
        Lower { path: self.dir.clone(), ids }
    }
}

/// Directories that belong to the whole machine.
const MACHINE: [&str; 20] = [
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/mnt",
    "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/usr", "/var",
];
/// Of these also everything in them.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Where root's own programs look for programs and settings: no cell writes to root's directories there.
const SYSTEM: [&str; 17] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/run",
    "/sbin",
    "/snap",
    "/sys",
    "/usr",
    "/var/cache",
    "/var/lib",
    "/var/spool",
];

/// The directory by its one true name, unless it cannot be a project.
pub(crate) fn check(
    workspace: &Workspace,
    state_dir: &Path,
    own_files: &[PathBuf],
) -> Result<Workspace> {
    let asked = workspace.dir.display();
    if !workspace.dir.is_absolute() {
        return Err(Error::invalid(format!("the workspace {asked} is no absolute path"))
            .hint("give the whole path of a directory"));
    }
    let dir = fs::canonicalize(&workspace.dir).map_err(|error| {
        Error::invalid(format!("the workspace {asked} cannot be used: {error}"))
            .hint("give the path of a directory that is there")
    })?;
    if dir.to_str().is_none() {
        return Err(Error::invalid(format!("the workspace {asked} has a name that is no text"))
            .hint("rename it"));
    }
    if !dir.is_dir() {
        return Err(Error::invalid(format!("the workspace {asked} is no directory"))
            .hint("give the path of a directory"));
    }
    let is_roots = |found: fs::Metadata| found.uid() == 0;
    if workspace.mode == WorkspaceMode::Rw
        && starter() == Starter::Root
        && fs::metadata(&dir).is_ok_and(is_roots)
        && let Some(part) = SYSTEM.iter().find(|part| dir.starts_with(part))
    {
        return Err(Error::denied(format!(
            "the workspace {} is in {part}, where programs that run as root look for files",
            dir.display()
        ))
        .hint("use the mode cow, or a directory elsewhere"));
    }
    let state_dir = fs::canonicalize(state_dir).unwrap_or_else(|_| state_dir.to_owned());
    if let Some(why) = unsuitable(&dir, &state_dir, &homes()) {
        return Err(Error::denied(format!("the workspace {} {why}", dir.display()))
            .hint("give the directory of a project"));
    }
    if let Some(file) = own_files.iter().find(|file| lies_in(&dir, file)) {
        return Err(Error::denied(format!(
            "the workspace {} has {} of hotcell in it, or a way to that, so that a cell could change it",
            dir.display(),
            file.display()
        ))
        .hint("keep that file where no cell has a directory of the host"));
    }
    Ok(Workspace { dir, mode: workspace.mode })
}

/// Why a directory may be nobody's workspace.
pub(super) fn unsuitable(dir: &Path, state_dir: &Path, homes: &[PathBuf]) -> Option<&'static str> {
    if MACHINE.iter().any(|machine| dir == Path::new(machine))
        || KERNEL.iter().any(|kernel| dir.starts_with(kernel))
    {
        return Some("belongs to the whole machine");
    }
    if homes.iter().any(|home| home.starts_with(dir)) {
        return Some("is a home directory, or has one in it");
    }
    if state_dir.starts_with(dir) || dir.starts_with(state_dir) {
        return Some("has to do with the state directory of hotcell");
    }
    None
}

/// The home directories of people.
fn homes() -> Vec<PathBuf> {
    // A static binary has no name service: the file is all there is.
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    people(&passwd).into_iter().map(|home| fs::canonicalize(&home).unwrap_or(home)).collect()
}

pub(super) fn people(passwd: &str) -> Vec<PathBuf> {
    const FIRST_PERSON: u32 = 1000;
    const NOBODY: u32 = 65_534;
    let home = |line: &str| {
        let mut fields = line.split(':');
        let uid: u32 = fields.nth(2)?.parse().ok()?;
        let home = fields.nth(2)?;
        let is_person = uid == 0 || (uid >= FIRST_PERSON && uid != NOBODY);
        (is_person && home.len() > 1).then(|| PathBuf::from(home))
    };
    passwd.lines().filter_map(home).collect()
}

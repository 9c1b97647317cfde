//! The files of `/tools` on disk: a directory for each tenant, which the tenant's cells have mounted.
//!
//! Files are replaced one by one, by rename, inside the directory that is mounted, so that cells that
//! run see what is new. Several processes do so, one at a time, and whichever is killed leaves every
//! file whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hotcell_model::Tenant;

/// What all files of a tree hold together; each server has the same share of it.
pub(crate) const MOST_BYTES: u64 = 64 << 20;
/// The longest name of a file or directory, with its ending.
const LONGEST_NAME: usize = 96;
/// The file that is written last.
pub(crate) const INDEX: &str = "INDEX.md";
/// What is not a tenant's directory begins with a dot, as no tenant's name does.
const LOCK: &str = ".lock";
const STAGING: &str = ".new";

/// What is to stand in a tree.
pub(crate) trait TreeSource {
    /// The paths of its files but the index: `SERVER/FILE`, those first that matter most.
    fn paths(&self) -> Vec<String>;
    /// What stands in one of them.
    fn read(&self, path: &str) -> Option<String>;
    /// What stands in the index, where so many files had no room.
    fn index(&self, left_out: usize) -> String;
}

/// All trees of a state directory.
#[derive(Debug, Clone)]
pub(crate) struct TreeFiles {
    root: PathBuf,
}

impl TreeFiles {
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// The directory that a tenant's cells have mounted.
    pub(crate) fn directory(&self, tenant: &Tenant) -> PathBuf {
        self.root.join(tenant.as_str())
    }

    /// Whether a tenant's tree was ever written to its end.
    pub(crate) fn is_there(&self, tenant: &Tenant) -> bool {
        self.directory(tenant).join(INDEX).exists()
    }

    /// The tenants that have a tree.
    pub(crate) fn tenants(&self) -> io::Result<Vec<Tenant>> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter_map(|name| name.parse().ok()).collect())
    }

    /// Writes what is different in a tenant's tree, and removes what is in it no more; how many
    /// files were written or removed.
    pub(crate) fn write(&self, tenant: &Tenant, source: &dyn TreeSource) -> io::Result<usize> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.root)?;
        let lock = File::create(self.root.join(LOCK))?;
        lock.lock()?;
        let staging = self.root.join(STAGING);
        // What a process left that was killed.
        remove(&staging)?;
        fs::create_dir(&staging)?;
        let mut writing = Writing { tree: self.directory(tenant), staging, changes: 0 };
        make_directory(&writing.tree)?;
        let written = writing.all(source);
        remove(&writing.staging)?;
        written.map(|()| writing.changes)
    }
}

/// One tree that is being written.
struct Writing {
    tree: PathBuf,
    staging: PathBuf,
    changes: usize,
}

impl Writing {
    fn all(&mut self, source: &dyn TreeSource) -> io::Result<()> {
        let paths = source.paths();
        let servers: BTreeSet<&str> = paths.iter().filter_map(|path| safe(path)).collect();
        let share = MOST_BYTES / servers.len().max(1) as u64;
        let mut used: BTreeMap<&str, u64> = BTreeMap::new();
        let mut kept: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut left_out = 0;
        for path in &paths {
            let (Some(server), Some(text)) = (safe(path), source.read(path)) else {
                left_out += 1;
                continue;
            };
            let used = used.entry(server).or_default();
            *used += text.len() as u64;
            if *used > share {
                left_out += 1;
                continue;
            }
            make_directory(&self.tree.join(server))?;
            self.put(path, &text)?;
            kept.entry(server).or_default().insert(&path[server.len() + 1..]);
        }
        self.put(INDEX, &source.index(left_out))?;
        self.remove_others(&kept)
    }

    /// Gives a file this content, in one step, unless it has it.
    fn put(&mut self, path: &str, text: &str) -> io::Result<()> {
        let place = self.tree.join(path);
        match fs::symlink_metadata(&place) {
            Ok(found) if !found.is_file() => remove(&place)?,
            Ok(found) => {
                let is_same = found.len() == text.len() as u64
                    && found.permissions().mode() & 0o777 == 0o644
                    && fs::read(&place)? == text.as_bytes();
                if is_same {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let new = self.staging.join("file");
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&new)?;
        file.write_all(text.as_bytes())?;
        // Whatever the umask says: in the cell it is somebody else's.
        file.set_permissions(Permissions::from_mode(0o644))?;
        fs::rename(&new, &place)?;
        self.changes += 1;
        Ok(())
    }

    fn remove_others(&mut self, kept: &BTreeMap<&str, BTreeSet<&str>>) -> io::Result<()> {
        for entry in fs::read_dir(&self.tree)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == INDEX {
                continue;
            }
            let Some(files) = name.to_str().and_then(|name| kept.get(name)) else {
                remove(&entry.path())?;
                self.changes += 1;
                continue;
            };
            for file in fs::read_dir(entry.path())? {
                let file = file?;
                if !file.file_name().to_str().is_some_and(|name| files.contains(name)) {
                    remove(&file.path())?;
                    self.changes += 1;
                }
            }
        }
        Ok(())
    }
}

/// The server of a path that leads to a file of one, and nowhere else.
fn safe(path: &str) -> Option<&str> {
    let (server, file) = path.split_once('/')?;
    let is_identifier = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let stem = file.strip_suffix(".pyi").or_else(|| file.strip_suffix(".d.ts"))?;
    let is_short = server.len() <= LONGEST_NAME && file.len() <= LONGEST_NAME;
    (is_short && is_identifier(server) && is_identifier(stem)).then_some(server)
}

/// Makes a directory that everybody may look into, whatever was in its place.
fn make_directory(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() && found.permissions().mode() & 0o777 == 0o755 => return Ok(()),
        Ok(found) if !found.is_dir() => remove(path)?,
        Ok(_) | Err(_) => {}
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

//! The file system that cells are written to.

use std::path::{Path, PathBuf};

use super::host_file::read;

/// What is mounted where the state directory lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileSystem {
    pub(super) kind: String,
    pub(super) point: PathBuf,
}

/// Finds the file system of a directory in the mount table of the machine whose root is `host`.
pub(super) fn find_file_system(host: &Path, directory: &Path) -> Option<FileSystem> {
    let table = read(host, "proc/self/mountinfo")?;
    let mounts = table.lines().filter_map(parse);
    // Of mounts on one place the last covers the others.
    mounts
        .filter(|mount| directory.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
}

/// Where something lies in its file system, by whatever mounts it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lying {
    device: String,
    pub(crate) place: PathBuf,
}

impl Lying {
    /// Whether it is `other`, or lies in it.
    pub(crate) fn is_in(&self, other: &Self) -> bool {
        self.device == other.device && self.place.starts_with(&other.place)
    }
}

/// Finds where the true name `path` leads to on the machine whose root is `host`.
pub(crate) fn find_lying(host: &Path, path: &Path) -> Option<Lying> {
    let table = read(host, "proc/self/mountinfo")?;
    let mounts = table.lines().filter_map(|line| Some((parse(line)?.point, line)));
    let (point, line) = mounts
        .filter(|(point, _)| path.starts_with(point))
        .max_by_key(|(point, _)| point.components().count())?;
    let mut fields = line.split(' ').skip(2);
    let (device, root) = (fields.next()?.to_owned(), unescape(fields.next()?));
    let below = path.strip_prefix(point).ok()?;
    Some(Lying { device, place: Path::new(&root).join(below) })
}

/// Whether the root of this process is a part of the tree and not its top, as in a chroot.
pub(super) fn is_chroot(host: &Path) -> bool {
    let at_root = |table: &str| table.lines().rfind(|line| is_at_root(line)).map(id);
    let own = read(host, "proc/self/mountinfo").unwrap_or_default();
    let Some(own_root) = at_root(&own) else { return !own.is_empty() };
    // The mount at our root has the same number for everybody, but not the same place.
    let of_init = read(host, "proc/1/mountinfo").unwrap_or_default();
    of_init.lines().any(|line| id(line) == own_root && !is_at_root(line))
}

fn is_at_root(line: &str) -> bool {
    parse(line).is_some_and(|mount| mount.point == Path::new("/"))
}

fn id(line: &str) -> Option<u64> {
    line.split(' ').next()?.parse().ok()
}

fn parse(line: &str) -> Option<FileSystem> {
    let (before, after) = line.split_once(" - ")?;
    let point = unescape(before.split(' ').nth(4)?);
    Some(FileSystem { kind: after.split(' ').next()?.to_owned(), point: point.into() })
}

/// Spaces and the like stand as `\040` in the table.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(&part[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    plain
}

impl FileSystem {
    /// What to do where no overlay can be written on it.
    pub(super) fn remedy(&self) -> String {
        let choose = "choose a state directory on ext4, xfs, btrfs or tmpfs with HOTCELL_STATE_DIR";
        match self.kind.as_str() {
            "overlay" => format!("overlayfs cannot be stacked on itself: {choose}"),
            "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "ecryptfs" | "vfat" | "exfat" => {
                format!("{} cannot carry the writable part of an overlay: {choose}", self.kind)
            }
            kind if kind.starts_with("fuse") => {
                format!("{kind} cannot carry the writable part of an overlay: {choose}")
            }
            _ => format!("`sudo modprobe overlay` if the module is not loaded; else {choose}"),
        }
    }
}

#[cfg(test)]
#[path = "file_system_tests.rs"]
mod file_system_tests;

//! How much a cell has written.
//!
//! What nobody writes to any more is measured once: beside each part of such a layer lies which
//! files it has and what each takes. A file that several layers have counts once.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hotcell_jail::mounts::{Lower, LowerIds};
use hotcell_place::{read_json, write_json};
use rustix::fs::{FileType, Stat};

use crate::checkpoint_file::CheckpointFile;
use crate::disk_walk::{Seen, walk};
use crate::order::Placed;
use crate::paths::CellPaths;

const UNMEASURED_BYTES: u64 = 1 << 60;
/// A number that no file has.
const NO_FILE: u64 = 0;

/// What counts as written by a cell: what it writes to now, and what it wrote and still names, in its
/// checkpoints too. What it has from another cell counts there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    live: Vec<PathBuf>,
    frozen: BTreeSet<PathBuf>,
}

impl Written {
    pub(crate) fn by(paths: &CellPaths, placed: &Placed) -> io::Result<Self> {
        let mut frozen = BTreeSet::new();
        frozen.extend(placed.layers.iter().flat_map(|layer| own(&layer.lowers)));
        for file in paths.checkpoint_files()? {
            if let Some(kept) = read_json::<CheckpointFile>(&file)? {
                frozen.extend(kept.lowers.iter().flat_map(|part| own(&part.lowers)));
            }
        }
        let uppers = placed.layers.iter().filter_map(|layer| layer.upper.as_ref());
        let live = uppers.map(|upper| upper.data.clone()).collect();
        Ok(Self { live, frozen })
    }

    /// What it writes to now.
    pub(crate) fn live_use(&self) -> io::Result<Used> {
        let mut used = Used::default();
        for path in &self.live {
            let mut linked = HashSet::new();
            let seen = walk(path, |file| {
                // A file with one name comes once.
                if file.st_nlink == 1 || is_directory(file) || linked.insert(file.st_ino) {
                    used += Used { bytes: bytes_of(file), files: 1 };
                }
            })?;
            used += hidden(seen);
        }
        Ok(used)
    }

    /// The rest.
    pub(crate) fn frozen_use(&self) -> io::Result<Used> {
        let mut all = HashMap::new();
        for part in &self.frozen {
            all.extend(measured(part)?);
        }
        Ok(Used { bytes: all.values().sum(), files: all.len() as u64 })
    }
}

/// What is taken on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Used {
    /// Bytes.
    pub(crate) bytes: u64,
    /// Files and directories.
    pub(crate) files: u64,
}

impl Used {
    /// What a whole file system holds; it need not count files.
    pub(crate) fn of_file_system(path: &Path) -> io::Result<Self> {
        let found = rustix::fs::statvfs(path)?;
        Ok(Self {
            bytes: found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize),
            files: found.f_files.saturating_sub(found.f_ffree),
        })
    }

    /// Whether there is more of it than was seen.
    pub(crate) fn is_unmeasured(self) -> bool {
        self.bytes >= UNMEASURED_BYTES
    }

    /// By how much it is more than another.
    pub(crate) fn beyond(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            files: self.files.saturating_sub(other.files),
        }
    }
}

/// As it is passed between processes.
impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.bytes, self.files)
    }
}

impl FromStr for Used {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        let numbers = text.split_once(' ').and_then(|(bytes, files)| {
            Some(Self { bytes: bytes.parse().ok()?, files: files.parse().ok()? })
        });
        numbers.ok_or_else(|| io::Error::other(format!("not two numbers: {text}")))
    }
}

impl std::ops::Add for Used {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, files: self.files + other.files }
    }
}

impl std::ops::AddAssign for Used {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// The parts that were written by the cell that names them.
pub(crate) fn own(lowers: &[Lower]) -> impl Iterator<Item = PathBuf> {
    lowers.iter().filter(|lower| lower.ids == LowerIds::Own).map(|lower| lower.path.clone())
}

/// What a file takes on disk, by its number.
pub(crate) type Sizes = BTreeMap<u64, u64>;

/// The sizes in a part that nobody writes to; `None` if it was not measured yet.
pub(crate) fn find_sizes(part: &Path) -> io::Result<Option<Sizes>> {
    let Some(file) = sizes_file(part) else { return Ok(None) };
    let sizes: Option<Vec<(u64, u64)>> = read_json(&file)?;
    Ok(sizes.map(|sizes| sizes.into_iter().collect()))
}

/// The same, measured if it was not yet.
fn measured(part: &Path) -> io::Result<Sizes> {
    if let Ok(Some(sizes)) = find_sizes(part) {
        return Ok(sizes);
    }
    let sizes = sizes_in(part)?;
    if let Some(file) = sizes_file(part) {
        // Where nothing can be written it is measured again.
        let _ = write_json(&file, &sizes.iter().collect::<Vec<_>>());
    }
    Ok(sizes)
}

fn sizes_file(part: &Path) -> Option<PathBuf> {
    Some(part.parent()?.join("sizes.json"))
}

fn sizes_in(root: &Path) -> io::Result<Sizes> {
    let mut sizes = Sizes::new();
    let seen = walk(root, |file| {
        sizes.insert(file.st_ino, bytes_of(file));
    })?;
    if seen == Seen::Part {
        sizes.insert(NO_FILE, UNMEASURED_BYTES);
    }
    Ok(sizes)
}

fn bytes_of(file: &Stat) -> u64 {
    file.st_blocks.cast_unsigned() * 512
}

fn is_directory(file: &Stat) -> bool {
    FileType::from_raw_mode(file.st_mode) == FileType::Directory
}

/// What cannot be seen counts as more than any disk has.
fn hidden(seen: Seen) -> Used {
    match seen {
        Seen::Whole => Used::default(),
        Seen::Part => Used { bytes: UNMEASURED_BYTES, files: 0 },
    }
}

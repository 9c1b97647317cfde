//! What is taken on disk.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

use rustix::fs::{FileType, Stat};

use crate::disk_walk::{Seen, walk};

/// What cannot be seen counts as more than any disk has.
pub const HIDDEN: u64 = 1 << 60;

/// What is taken on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// Bytes.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
}

/// What lies below some directories that are written to. A file with several names in one of them
/// counts once.
///
/// # Errors
/// One of them cannot be looked at.
pub fn used_below<'a>(directories: impl IntoIterator<Item = &'a Path>) -> io::Result<Used> {
    let mut used = Used::default();
    for directory in directories {
        let mut linked = HashSet::new();
        let seen = walk(directory, |file| {
            // A file with one name comes once.
            if file.st_nlink == 1 || is_directory(file) || linked.insert(file.st_ino) {
                used += Used { bytes: bytes_of(file), files: 1 };
            }
        })?;
        used += hidden(seen);
    }
    Ok(used)
}

/// What a file takes.
#[must_use]
pub fn bytes_of(file: &Stat) -> u64 {
    file.st_blocks.cast_unsigned() * 512
}

fn is_directory(file: &Stat) -> bool {
    FileType::from_raw_mode(file.st_mode) == FileType::Directory
}

fn hidden(seen: Seen) -> Used {
    match seen {
        Seen::Whole => Used::default(),
        Seen::Part => Used { bytes: HIDDEN, files: 0 },
    }
}

impl Used {
    /// What a whole file system holds; it need not count files.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn of_file_system(path: &Path) -> io::Result<Self> {
        let found = rustix::fs::statvfs(path)?;
        Ok(Self {
            bytes: found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize),
            files: found.f_files.saturating_sub(found.f_ffree),
        })
    }

    /// Whether there is more of it than was seen.
    #[must_use]
    pub fn is_unmeasured(self) -> bool {
        self.bytes >= HIDDEN
    }

    /// By how much it is more than another.
    #[must_use]
    pub fn beyond(self, other: Self) -> Self {
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

//! What `.gitignore` files tell to leave out.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, FileType, statat};

use crate::path::CellPath;
use crate::removal::open_file;
use crate::tree::Tree;

const NAME: &str = ".gitignore";
/// What is read of one such file.
const MOST_BYTES: u64 = 1 << 20;

/// The rules for what is in one directory: its own, then those of the directories above it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ignored(Option<Arc<Rules>>);

#[derive(Debug)]
struct Rules {
    own: Gitignore,
    above: Ignored,
}

impl Ignored {
    /// The rules that the directories above this one have, up to that of the repository.
    pub(crate) fn above(tree: &Tree, path: &CellPath) -> Self {
        let mut directories = Vec::new();
        let mut at = path.clone();
        while let Some((parent, _)) = at.split() {
            // A repository's rules end with it.
            if tree.is_there(&at.join(".git")) {
                break;
            }
            directories.push(parent.clone());
            at = parent;
        }
        let mut ignored = Self::default();
        for directory in directories.iter().rev() {
            if let Ok((file, _)) = tree.read(&directory.join(NAME)) {
                ignored = ignored.with(file, directory.as_path());
            }
        }
        ignored
    }

    /// The rules for what is in a directory that is open.
    pub(crate) fn within(&self, directory: &OwnedFd, path: &Path) -> Self {
        match open_file(directory, OsStr::new(NAME)) {
            Ok((file, _)) => self.with(file, path),
            Err(_) => self.clone(),
        }
    }

    fn with(&self, file: File, directory: &Path) -> Self {
        let mut text = Vec::new();
        // What cannot be read ignores nothing, as for git.
        let _ = file.take(MOST_BYTES).read_to_end(&mut text);
        let mut builder = GitignoreBuilder::new(directory);
        for line in text.split(|byte| *byte == b'\n') {
            if let Ok(line) = std::str::from_utf8(line) {
                let _ = builder.add_line(None, line.strip_suffix('\r').unwrap_or(line));
            }
        }
        match builder.build() {
            Ok(own) if !own.is_empty() => Self(Some(Arc::new(Rules { own, above: self.clone() }))),
            Ok(_) | Err(_) => self.clone(),
        }
    }

    /// Whether something is to be left out; the rule nearest to it decides.
    pub(crate) fn covers(&self, path: &Path, kind: FileType) -> bool {
        let mut at = self;
        while let Some(rules) = &at.0 {
            match rules.own.matched(path, kind == FileType::Directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => at = &rules.above,
            }
        }
        false
    }
}

/// The kind of something in a directory, where listing it did not tell.
pub(crate) fn kind_of(directory: &OwnedFd, name: &OsStr, listed: FileType) -> FileType {
    if listed != FileType::Unknown {
        return listed;
    }
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

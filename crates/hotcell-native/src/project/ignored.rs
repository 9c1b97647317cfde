//! New files that git ignores, such as the output of builds: they are left out of reviews.
//!
//! The `.gitignore` files are the cell's, so code in the cell controls them. That is safe: a file that
//! is left out is not applied, and a change to one of the user's files is never left out.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use hotcell_model::{ChangeKind, PlanFor};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::FileType;

use super::changes::{Found, Sides};
use crate::tree;

/// Longer files of rules are not followed.
const MOST_BYTES: u64 = 64 << 10;
/// How many files of rules are followed.
const MOST_FILES: usize = 1000;
/// How many paths are named where they are not what a person approves.
const MOST_NAMED: usize = 20;

/// Changes, and those that git ignores.
pub(super) struct Reviewed {
    pub(super) kept: Vec<Found>,
    pub(super) ignored: Vec<Found>,
}

impl Reviewed {
    /// Everything, whatever git ignores.
    pub(super) fn everything(kept: Vec<Found>) -> Self {
        Self { kept, ignored: Vec::new() }
    }

    /// Splits changes, which are in the order of their paths. What is ignored is kept if it is asked
    /// for by its own name, or by that of an ignored directory.
    pub(super) fn of(sides: &Sides<'_>, found: Vec<Found>, asked: &[PathBuf]) -> io::Result<Self> {
        let mut rules = IgnoreRules::read(sides.host, sides.cell);
        let mut named = Vec::new();
        for path in asked {
            let stat = tree::look(sides.cell, path)?;
            let is_directory = stat
                .is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
            if rules.ignore(path, is_directory) {
                named.push(path);
            }
        }
        let (mut kept, mut ignored) = (Vec::with_capacity(found.len()), Vec::new());
        for found in found {
            let path = &found.change.path;
            let is_ignored = found.change.kind == ChangeKind::Added
                && !named.iter().any(|named| path.starts_with(named))
                && rules.ignore(path, found.change.directory);
            if is_ignored { ignored.push(found) } else { kept.push(found) }
        }
        Ok(Self::without_hollow(kept, ignored))
    }

    /// A new directory with nothing but ignored files in it is ignored as well.
    fn without_hollow(found: Vec<Found>, mut ignored: Vec<Found>) -> Self {
        let above: BTreeSet<PathBuf> = ignored
            .iter()
            .flat_map(|found| found.change.path.ancestors().skip(1))
            .map(Path::to_owned)
            .collect();
        // From the last to the first: what is in a directory comes before it.
        let mut kept: Vec<Found> = Vec::with_capacity(found.len());
        for found in found.into_iter().rev() {
            let path = &found.change.path;
            let is_hollow = found.change.kind == ChangeKind::Added
                && found.change.directory
                && above.contains(path)
                && !kept.last().is_some_and(|kept| kept.change.path.starts_with(path));
            if is_hollow { ignored.push(found) } else { kept.push(found) }
        }
        kept.reverse();
        ignored.sort_by(|one, other| one.change.path.cmp(&other.change.path));
        Self { kept, ignored }
    }

    /// What is ignored; of a directory its name alone. A discard needs all of them, since a person
    /// approves it; otherwise these are the first.
    pub(super) fn ignored_names(&self, plan_for: Option<PlanFor>) -> Vec<String> {
        let most = match plan_for {
            Some(PlanFor::Discard) => usize::MAX,
            Some(PlanFor::Apply) | None => MOST_NAMED,
        };
        let mut topmost: Vec<&Found> = Vec::new();
        for found in &self.ignored {
            let is_below = |last: &&Found| found.change.path.starts_with(&last.change.path);
            if topmost.last().is_none_or(|last| !is_below(last)) {
                topmost.push(found);
            }
        }
        let name = |found: &&Found| {
            let end = if found.change.directory { "/" } else { "" };
            format!("{}{end}", found.change.path.to_string_lossy())
        };
        topmost.iter().take(most).map(name).collect()
    }
}

/// What a repository ignores, as the cell sees it.
struct IgnoreRules<'a> {
    cell: &'a OwnedFd,
    /// By the directory that they are in.
    rules: HashMap<PathBuf, Gitignore>,
    /// How many of those are not empty.
    files: usize,
    /// The user's own for this repository.
    excluded: Gitignore,
    /// Whether a directory is ignored, or in one that is.
    directories: HashMap<PathBuf, bool>,
}

impl<'a> IgnoreRules<'a> {
    fn read(host: &OwnedFd, cell: &'a OwnedFd) -> Self {
        let excluded = rules_in(host, Path::new(".git/info"), OsStr::new("exclude"));
        Self { cell, rules: HashMap::new(), files: 0, excluded, directories: HashMap::new() }
    }

    /// Whether git ignores a path that it does not know yet.
    fn ignore(&mut self, path: &Path, is_directory: bool) -> bool {
        if path.as_os_str().is_empty() || path.iter().any(|name| name == ".git") {
            return false;
        }
        if is_directory && let Some(known) = self.directories.get(path) {
            return *known;
        }
        // What is in an ignored directory cannot be wanted again.
        let is_above_ignored = path.parent().is_some_and(|above| self.ignore(above, true));
        let is_ignored = is_above_ignored || self.matches(path, is_directory);
        if is_directory {
            self.directories.insert(path.to_owned(), is_ignored);
        }
        is_ignored
    }

    /// Whether the rules that are nearest to a path, of those that match it, ignore it.
    fn matches(&mut self, path: &Path, is_directory: bool) -> bool {
        for above in path.ancestors().skip(1) {
            let below = path.strip_prefix(above).unwrap_or(path);
            match self.rules_of(above).matched(below, is_directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        self.excluded.matched(path, is_directory).is_ignore()
    }

    fn rules_of(&mut self, directory: &Path) -> &Gitignore {
        if !self.rules.contains_key(directory) {
            let rules = match self.files < MOST_FILES {
                true => rules_in(self.cell, directory, OsStr::new(".gitignore")),
                false => Gitignore::empty(),
            };
            self.files += usize::from(!rules.is_empty());
            self.rules.insert(directory.to_owned(), rules);
        }
        &self.rules[directory]
    }
}

/// The rules of a file; none if it cannot be read as git would.
fn rules_in(view: &OwnedFd, directory: &Path, name: &OsStr) -> Gitignore {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let mut bytes = Vec::new();
    let read = tree::directory(view, directory)
        .and_then(|directory| tree::open_file(directory, name))
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    if read.is_err() || bytes.len() as u64 > MOST_BYTES {
        return Gitignore::empty();
    }
    // Paths are relative to the file.
    let mut builder = GitignoreBuilder::new(".");
    for line in String::from_utf8_lossy(&bytes).lines() {
        // A line that is no pattern ignores nothing.
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> OwnedFd {
        std::fs::File::open(path).unwrap().into()
    }

    #[test]
    fn rules_count_as_git_has_them() {
        let place = tempfile::tempdir().unwrap();
        let (host, cell) = (place.path().join("host"), place.path().join("cell"));
        let write = |path: PathBuf, text: &str| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(host.join(".git/info/exclude"), "*.mine\n");
        write(host.join(".gitignore"), "everything-else\n");
        write(cell.join(".gitignore"), "/build/\n*.o\n!keep.o\n[\nlogs/*.txt\n");
        write(cell.join("lib/.gitignore"), "!*.o\n/only\n");
        std::fs::create_dir_all(cell.join("linked")).unwrap();
        std::os::unix::fs::symlink("../.gitignore", cell.join("linked/.gitignore")).unwrap();
        let views = [open(&host), open(&cell)];
        let mut rules = IgnoreRules::read(&views[0], &views[1]);
        for path in [
            "build/",
            "build/a",
            "build/keep.o",
            "a.o",
            "src/b.o",
            "a.mine",
            "lib/only",
            "logs/a.txt",
        ] {
            assert!(rules.ignore(Path::new(path), path.ends_with('/')), "{path}");
        }
        for path in [
            "build",
            "src/build/",
            "keep.o",
            "lib/a.o",
            "only",
            "linked/only",
            "logs/a/b.txt",
            "everything-else",
            ".git/a.o",
            ".git/",
        ] {
            assert!(!rules.ignore(Path::new(path), path.ends_with('/')), "{path}");
        }
    }

    #[test]
    fn what_is_no_file_of_rules_ignores_nothing() {
        let place = tempfile::tempdir().unwrap();
        let _socket =
            std::os::unix::net::UnixListener::bind(place.path().join(".gitignore")).unwrap();
        std::fs::create_dir_all(place.path().join("big")).unwrap();
        std::fs::write(place.path().join("big/.gitignore"), "*\n".repeat(40_000)).unwrap();
        let view = open(place.path());
        let mut rules = IgnoreRules::read(&view, &view);
        assert!(!rules.ignore(Path::new("a"), false) && !rules.ignore(Path::new("big/a"), false));
    }
}

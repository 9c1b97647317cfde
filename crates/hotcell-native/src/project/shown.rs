//! What a cell was last shown of its project: the names of the files, and which directories they are in.
//!
//! A layer of a cell does not show everything that the cell's version of a file replaces. A program
//! often edits a file by renaming a new one over it, so the layer does not tell whether the host had
//! a file of that name. And when the user renames a directory, the files in it keep their times. So
//! the tree is recorded before each time the cell is shown it. A file that is gone since then, or
//! whose directory is a different one, is reported as a conflict. What the indexes of git
//! repositories said is recorded too, because git rewrites them without changing what they say.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::git_index;
use crate::tree;

/// Names of files are recorded up to this many bytes; above it, only directories are.
const MOST_BYTES: u64 = 32 << 20;

/// What entries that are not names of files begin with; alone, it says that names are missing.
const SLASH: &[u8] = b"/";
/// What the rest of an entry begins with that is about an index of git.
const INDEX: &[u8] = b"index/";

/// Records the tree while the project is walked.
#[derive(Debug)]
pub(super) struct ShownWriter {
    file: BufWriter<File>,
    project: PathBuf,
    written: u64,
}

impl ShownWriter {
    /// What it writes replaces the record at `path` only by [`confirm`].
    pub(super) fn begin(project: &Path, path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create(unconfirmed(path))?);
        Ok(Self { file, project: project.to_owned(), written: 0 })
    }

    /// Adds a directory of the project, or the project itself.
    pub(super) fn add_directory(&mut self, directory: &Path, inode: u64) -> io::Result<()> {
        write!(self.file, "/{inode}/")?;
        let name = relative(directory, &self.project)?;
        self.file.write_all(name)?;
        self.file.write_all(b"\0")
    }

    /// Adds a file of the project.
    pub(super) fn add_file(&mut self, file: &Path) -> io::Result<()> {
        let name = relative(file, &self.project)?;
        self.written += name.len() as u64 + 1;
        if self.written <= MOST_BYTES {
            self.file.write_all(name)?;
            self.file.write_all(b"\0")?;
        }
        Ok(())
    }

    /// Adds what an index of git says.
    pub(super) fn add_index(&mut self, index: &Path, digest: &str) -> io::Result<()> {
        self.file.write_all(&[SLASH, INDEX].concat())?;
        write!(self.file, "{digest}/")?;
        self.file.write_all(relative(index, &self.project)?)?;
        self.file.write_all(b"\0")
    }

    /// Ends the record: the whole project was walked.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if self.written > MOST_BYTES {
            self.file.write_all(SLASH)?;
        }
        self.file.flush()
    }
}

fn relative<'a>(path: &'a Path, project: &Path) -> io::Result<&'a [u8]> {
    let name = path.strip_prefix(project).map_err(io::Error::other)?;
    Ok(name.as_os_str().as_bytes())
}

fn unconfirmed(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Puts a finished record in place of the one before: the cell has been shown the project.
pub(super) fn confirm(path: &Path) -> io::Result<()> {
    fs::rename(unconfirmed(path), path)
}

/// The last record, read when it is first needed.
#[derive(Debug, Default)]
pub(super) struct Shown {
    file: Option<File>,
    tree: OnceCell<Tree>,
}

/// `None` for what was not recorded.
#[derive(Debug, Default)]
struct Tree {
    files: Option<HashSet<Vec<u8>>>,
    directories: Option<HashMap<Vec<u8>, u64>>,
    indexes: HashMap<Vec<u8>, String>,
}

/// What is known of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShownDirectory {
    /// It had this inode.
    Inode(u64),
    /// The project did not have it.
    Absent,
    /// No directories were recorded.
    Unknown,
}

impl Shown {
    /// Opens the record; there may be none.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            file => Some(file?),
        };
        Ok(Self { file, tree: OnceCell::new() })
    }

    /// Whether the cell was shown a file of this name; false if that is not known.
    pub(super) fn has_file(&self, path: &Path) -> io::Result<bool> {
        let files = &self.tree()?.files;
        Ok(files.as_ref().is_some_and(|files| files.contains(path.as_os_str().as_bytes())))
    }

    /// Which directory the cell was shown at a path; the empty path is the project itself.
    pub(super) fn directory(&self, path: &Path) -> io::Result<ShownDirectory> {
        let Some(directories) = &self.tree()?.directories else {
            return Ok(ShownDirectory::Unknown);
        };
        let found = directories.get(path.as_os_str().as_bytes());
        Ok(found.map_or(ShownDirectory::Absent, |inode| ShownDirectory::Inode(*inode)))
    }

    /// Whether an index of git on the host says what it said when the cell was shown it.
    pub(super) fn has_index(&self, host: &OwnedFd, path: &Path) -> io::Result<bool> {
        if !git_index::is_index(path) {
            return Ok(false);
        }
        let Some(shown) = self.tree()?.indexes.get(path.as_os_str().as_bytes()) else {
            return Ok(false);
        };
        let (above, name) = tree::parent(host, path)?;
        Ok(git_index::digest_in(&above, name)?.as_ref() == Some(shown))
    }

    fn tree(&self) -> io::Result<&Tree> {
        if let Some(tree) = self.tree.get() {
            return Ok(tree);
        }
        let tree = self.read()?;
        Ok(self.tree.get_or_init(|| tree))
    }

    fn read(&self) -> io::Result<Tree> {
        let Some(mut file) = self.file.as_ref() else { return Ok(Tree::default()) };
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        let (mut tree, mut has_names) = (Tree::default(), true);
        let (mut files, mut directories) = (HashSet::new(), HashMap::new());
        for entry in bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
            let Some(about) = entry.strip_prefix(SLASH) else {
                files.insert(entry.to_vec());
                continue;
            };
            if about.is_empty() {
                has_names = false;
                continue;
            }
            let damaged = || {
                let shown = OsStr::from_bytes(entry).display();
                io::Error::other(format!("{shown:?} is no entry of a record of a project"))
            };
            if let Some(index) = about.strip_prefix(INDEX) {
                let (digest, path) = split(index).ok_or_else(damaged)?;
                tree.indexes.insert(path.to_vec(), digest.to_owned());
            } else {
                let (inode, path) = split(about).ok_or_else(damaged)?;
                directories.insert(path.to_vec(), inode.parse().map_err(|_| damaged())?);
            }
        }
        // Records of older versions have no directories; each of today has the project at least.
        tree.directories = (!directories.is_empty()).then_some(directories);
        tree.files = has_names.then_some(files);
        Ok(tree)
    }
}

/// What is known of a path, and the path.
fn split(entry: &[u8]) -> Option<(&str, &[u8])> {
    let end = entry.iter().position(|byte| *byte == b'/')?;
    Some((std::str::from_utf8(&entry[..end]).ok()?, &entry[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_once_it_is_confirmed() {
        let dir = tempfile::tempdir().unwrap();
        let (project, path) = (Path::new("/project"), dir.path().join("names"));
        let mut writer = ShownWriter::begin(project, &path).unwrap();
        writer.add_directory(Path::new("/project"), 7).unwrap();
        writer.add_directory(Path::new("/project/sub"), 8).unwrap();
        writer.add_file(Path::new("/project/sub/a\nb")).unwrap();
        writer.add_index(Path::new("/project/.git/index"), "sha256:1").unwrap();
        writer.finish().unwrap();
        let before = Shown::open(&path).unwrap();
        assert!(!before.has_file(Path::new("sub/a\nb")).unwrap());
        assert_eq!(before.directory(Path::new("sub")).unwrap(), ShownDirectory::Unknown);
        confirm(&path).unwrap();
        let shown = Shown::open(&path).unwrap();
        assert!(shown.has_file(Path::new("sub/a\nb")).unwrap());
        assert!(!shown.has_file(Path::new("sub")).unwrap());
        assert_eq!(shown.directory(Path::new("")).unwrap(), ShownDirectory::Inode(7));
        assert_eq!(shown.directory(Path::new("sub")).unwrap(), ShownDirectory::Inode(8));
        assert_eq!(shown.directory(Path::new("other")).unwrap(), ShownDirectory::Absent);
        assert_eq!(shown.tree().unwrap().indexes[b".git/index".as_slice()], "sha256:1");
    }

    #[test]
    fn with_too_many_names_only_directories_are_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("names");
        let mut writer = ShownWriter::begin(Path::new("/p"), &path).unwrap();
        writer.written = MOST_BYTES - 2;
        writer.add_file(Path::new("/p/a")).unwrap();
        writer.add_file(Path::new("/p/b")).unwrap();
        writer.add_directory(Path::new("/p"), 7).unwrap();
        writer.finish().unwrap();
        confirm(&path).unwrap();
        let shown = Shown::open(&path).unwrap();
        assert!(!shown.has_file(Path::new("a")).unwrap());
        assert_eq!(shown.directory(Path::new("")).unwrap(), ShownDirectory::Inode(7));
    }

    #[test]
    fn a_record_of_names_alone_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("names");
        fs::write(&path, b"a\0sub/b\0").unwrap();
        let shown = Shown::open(&path).unwrap();
        assert!(shown.has_file(Path::new("sub/b")).unwrap());
        assert_eq!(shown.directory(Path::new("sub")).unwrap(), ShownDirectory::Unknown);
    }
}

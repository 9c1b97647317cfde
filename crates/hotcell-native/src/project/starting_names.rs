//! The names of the files that a project had when a cell began to work on it.
//!
//! A program that edits a file often writes a new file and renames it over the old one. Nothing in
//! the cell's layer shows then that the host had a file of that name. So the names are kept, and a
//! file that the user removed meanwhile is reported as a conflict instead of as a new file.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes of names that are kept; of a project with more, none are.
const MOST_BYTES: u64 = 32 << 20;

/// Collects the names while the project is being walked.
#[derive(Debug)]
pub(super) struct NamesWriter {
    file: BufWriter<File>,
    project: PathBuf,
    path: PathBuf,
    written: u64,
}

impl NamesWriter {
    /// `None` if the names are kept already.
    pub(super) fn begin(project: &Path, path: &Path) -> io::Result<Option<Self>> {
        if path.exists() {
            return Ok(None);
        }
        let file = BufWriter::new(File::create(unfinished(path))?);
        Ok(Some(Self { file, project: project.to_owned(), path: path.to_owned(), written: 0 }))
    }

    /// Adds a file of the project.
    pub(super) fn add(&mut self, file: &Path) -> io::Result<()> {
        let name = file.strip_prefix(&self.project).map_err(io::Error::other)?;
        let name = name.as_os_str().as_bytes();
        self.written += name.len() as u64 + 1;
        if self.written > MOST_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.file.write_all(name)?;
        self.file.write_all(b"\0")
    }

    /// Keeps them: the whole project was walked.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        fs::rename(unfinished(&self.path), &self.path)
    }
}

fn unfinished(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// The names that were kept, read when they are first needed.
#[derive(Debug, Default)]
pub(super) struct StartingNames {
    file: Option<File>,
    names: OnceCell<HashSet<Vec<u8>>>,
}

impl StartingNames {
    /// Opens them; there may be none.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            file => Some(file?),
        };
        Ok(Self { file, names: OnceCell::new() })
    }

    /// Whether the project began with a file of this name.
    pub(super) fn has(&self, path: &Path) -> io::Result<bool> {
        if let Some(names) = self.names.get() {
            return Ok(names.contains(path.as_os_str().as_bytes()));
        }
        let names = self.read()?;
        let has = names.contains(path.as_os_str().as_bytes());
        let _ = self.names.set(names);
        Ok(has)
    }

    fn read(&self) -> io::Result<HashSet<Vec<u8>>> {
        let Some(mut file) = self.file.as_ref() else { return Ok(HashSet::new()) };
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_once_the_whole_project_was_walked() {
        let dir = tempfile::tempdir().unwrap();
        let (project, path) = (Path::new("/project"), dir.path().join("names"));
        let mut writer = NamesWriter::begin(project, &path).unwrap().unwrap();
        writer.add(Path::new("/project/sub/a\nb")).unwrap();
        assert!(!StartingNames::open(&path).unwrap().has(Path::new("sub/a\nb")).unwrap());
        writer.finish().unwrap();
        let names = StartingNames::open(&path).unwrap();
        assert!(names.has(Path::new("sub/a\nb")).unwrap());
        assert!(!names.has(Path::new("sub")).unwrap());
        assert!(NamesWriter::begin(project, &path).unwrap().is_none(), "they are kept already");
    }

    #[test]
    fn too_many_names_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("names");
        let mut writer = NamesWriter::begin(Path::new("/p"), &path).unwrap().unwrap();
        writer.written = MOST_BYTES - 2;
        writer.add(Path::new("/p/a")).unwrap();
        let error = writer.add(Path::new("/p/b")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}

//! A client's settings on disk: read whole, kept aside, replaced at once.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use hotcell_model::{Error, Result, Timestamp};
use rustix::fs::{Access, AtFlags};

use super::Scope;

/// Links that are followed before they are taken for a circle.
const MOST_LINKS: usize = 40;

/// A file as it was found.
#[derive(Debug)]
pub(crate) struct SettingsFile {
    /// Where the client looks for it.
    path: PathBuf,
    /// Where it lies, behind any links.
    real: PathBuf,
    before: Option<Before>,
}

/// What was there.
#[derive(Debug)]
struct Before {
    text: String,
    mode: u32,
    uid: u32,
    gid: u32,
}

impl SettingsFile {
    /// Reads the file, if there is one.
    ///
    /// # Errors
    /// `denied` when it may not be read or written, `invalid` when it is no file or no text.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let real = follow(path)?;
        let before = match std::fs::metadata(&real) {
            Ok(metadata) if metadata.is_file() => Some(read(path, &real)?),
            Ok(_) => {
                return Err(Error::invalid(format!("{} is not a file", path.display()))
                    .hint("move it away, or use --print"));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(refused("read", path, &error)),
        };
        Ok(Self { path: path.to_owned(), real, before })
    }

    /// Where the client looks for it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds; nothing when it is not there.
    pub(crate) fn text(&self) -> &str {
        self.before.as_ref().map_or("", |before| &before.text)
    }

    /// Puts this text in its place; the copy of what was there before, if there was something.
    /// Whoever reads it meanwhile finds either text, and a crash leaves either.
    ///
    /// # Errors
    /// `conflict` when it is no longer what was read, `denied` when it may not be written. The file
    /// is then as it was.
    pub(crate) fn replace(
        &self,
        text: &str,
        scope: Scope,
        now: Timestamp,
    ) -> Result<Option<PathBuf>> {
        if Self::read(&self.path)?.text() != self.text() {
            return Err(Error::conflict(format!("{} has changed meanwhile", self.path.display()))
                .hint("run it again"));
        }
        let directory = self.real.parent().unwrap_or(Path::new("/"));
        make_directory(directory, scope).map_err(|error| refused("make", directory, &error))?;
        let kept = match &self.before {
            None => None,
            Some(before) => Some(self.keep_aside(before, now)?),
        };
        self.write(directory, text, scope).map_err(|error| refused("write", &self.path, &error))?;
        Ok(kept)
    }

    /// A copy beside the file under a name that nobody has yet.
    fn keep_aside(&self, before: &Before, now: Timestamp) -> Result<PathBuf> {
        let stamp = now.to_string().replace(['-', ':'], "");
        let stamp = stamp.split(['.', 'Z']).next().unwrap_or_default();
        let (path, mut file) = self
            .create_beside("", &format!(".before-hotcell-{stamp}Z"), 0o600)
            .map_err(|error| refused("make a copy of", &self.path, &error))?;
        let written = before.dress(&file).and_then(|()| fill(&mut file, &before.text));
        if let Err(error) = written {
            let _ = std::fs::remove_file(&path);
            return Err(refused("write the copy", &path, &error));
        }
        Ok(path)
    }

    fn write(&self, directory: &Path, text: &str, scope: Scope) -> io::Result<()> {
        let mode = match (&self.before, scope) {
            (Some(_), _) | (None, Scope::User) => 0o600,
            (None, Scope::Project) => 0o666,
        };
        let (draft, mut file) = self.create_beside(".", ".hotcell-draft", mode)?;
        let dressed = self.before.as_ref().map_or(Ok(()), |before| before.dress(&file));
        let placed = dressed
            .and_then(|()| fill(&mut file, text))
            .and_then(|()| std::fs::rename(&draft, &self.real));
        if placed.is_err() {
            // It is ours alone, whatever kept it from its place.
            let _ = std::fs::remove_file(&draft);
        }
        placed?;
        File::open(directory)?.sync_all()
    }

    /// A new file beside this one, under its name with something before and behind; with a number
    /// too, where somebody else or a process that died has left such a name.
    fn create_beside(&self, before: &str, behind: &str, mode: u32) -> io::Result<(PathBuf, File)> {
        let mut number = 1_u32;
        loop {
            let mut name = OsString::from(before);
            name.push(self.real.file_name().unwrap_or_default());
            name.push(behind);
            if number > 1 {
                name.push(format!("-{number}"));
            }
            let path = self.real.with_file_name(name);
            match OpenOptions::new().write(true).create_new(true).mode(mode).open(&path) {
                Ok(file) => return Ok((path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Before {
    /// Gives another file the owner and the mode of this one.
    fn dress(&self, file: &File) -> io::Result<()> {
        let metadata = file.metadata()?;
        if (metadata.uid(), metadata.gid()) != (self.uid, self.gid) {
            fchown(file, Some(self.uid), Some(self.gid))?;
        }
        file.set_permissions(Permissions::from_mode(self.mode & 0o7777))
    }
}

fn read(path: &Path, real: &Path) -> Result<Before> {
    let failed = |error: io::Error| refused("read", path, &error);
    let mut file = File::open(real).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes().iter().take(valid).filter(|byte| **byte == b'\n').count() + 1;
        Error::invalid(format!("{} is not UTF-8 at line {line}", path.display()))
            .hint("mend it, or use --print")
    })?;
    // Root may write everything; what its owner made read-only is meant to stay.
    let is_writable = metadata.mode() & 0o222 != 0
        && rustix::fs::accessat(rustix::fs::CWD, real, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    if !is_writable {
        return Err(Error::denied(format!("{} is read-only", path.display()))
            .hint("make it writable, or use --print and change it where it is made"));
    }
    let (mode, uid, gid) = (metadata.mode(), metadata.uid(), metadata.gid());
    Ok(Before { text, mode, uid, gid })
}

/// Where a path leads, also when nothing is there yet.
fn follow(path: &Path) -> Result<PathBuf> {
    let mut real = path.to_owned();
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&real) {
            Ok(target) => real = real.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => return Ok(real),
        }
    }
    Err(Error::invalid(format!("{} is a link that leads in a circle", path.display()))
        .hint("mend the link, or use --print"))
}

/// What belongs to one user is for that user alone.
fn make_directory(directory: &Path, scope: Scope) -> io::Result<()> {
    let mode = match scope {
        Scope::User => 0o700,
        Scope::Project => 0o777,
    };
    DirBuilder::new().recursive(true).mode(mode).create(directory)
}

fn fill(file: &mut File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn refused(what: &str, path: &Path, error: &io::Error) -> Error {
    let message = format!("cannot {what} {}: {error}", path.display());
    let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let error = if full { Error::limit_exceeded(message) } else { Error::denied(message) };
    error.hint("--print shows what belongs there")
}

//! Files that are replaced whole: what runs now ([`write_json`]), and what must survive a power cut
//! ([`save_json`]).

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The end of the name of the version before the current one.
const PREVIOUS: &str = ".previous";

/// Replaces a file. It survives the death of any process, but not a power cut.
///
/// # Errors
/// It could not be written; the previous content is unchanged.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    write_whole(path, &serde_json::to_vec(value)?)
}

/// The same for any bytes.
///
/// # Errors
/// As for [`write_json`].
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (_, draft) = Draft::write(path, bytes)?;
    draft.replace(path)
}

/// Replaces a file that cannot be rebuilt from anything else. Once this returns, the new content
/// survives a power cut.
///
/// # Errors
/// It could not be written, or it is not known to be on disk.
pub fn save_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    save_whole(path, &serde_json::to_vec(value)?)
}

/// The same for any bytes.
///
/// # Errors
/// As for [`save_json`].
pub fn save_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (file, draft) = Draft::write(path, bytes)?;
    file.sync_all()?;
    draft.replace(path)?;
    sync_directory_of(path)
}

/// The same as [`save_json`]; the version before it stays beside it, for [`read_previous`].
///
/// # Errors
/// As for [`save_json`].
pub fn save_json_keeping_previous<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    keep_previous(path)?;
    save_json(path, value)
}

/// Makes the names in the directory of a file survive a power cut.
///
/// # Errors
/// The directory cannot be synced.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => File::open(directory)?.sync_all(),
        Some(_) | None => File::open(".")?.sync_all(),
    }
}

/// Removes a file, if it is there.
///
/// # Errors
/// It is there and stays.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Reads a file; `None` if it does not exist.
///
/// # Errors
/// It cannot be read, or its content is damaged ([`is_damage`]).
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the version before the current one, of a file that is damaged.
///
/// # Errors
/// As for [`read_json`].
pub fn read_previous<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    read_json(&previous_of(path))
}

/// Whether there is a version before the current one.
///
/// # Errors
/// It cannot be looked for.
pub fn has_previous(path: &Path) -> io::Result<bool> {
    previous_of(path).try_exists()
}

/// Removes the version before the current one, if it is there.
///
/// # Errors
/// It is there and stays.
pub fn remove_previous(path: &Path) -> io::Result<()> {
    remove_if_there(&previous_of(path))
}

/// Whether an error says that the content of a file is damaged, rather than that it cannot be read
/// at the moment.
#[must_use]
pub fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

fn previous_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(PREVIOUS);
    name.into()
}

/// Gives the current version a second name. A damaged one never takes the place of a good one.
fn keep_previous(path: &Path) -> io::Result<()> {
    match read_json::<serde::de::IgnoredAny>(path) {
        Ok(Some(_)) => {}
        Ok(None) => return Ok(()),
        Err(error) if is_damage(&error) => return Ok(()),
        Err(error) => return Err(error),
    }
    let link = Draft::make(path, |draft| fs::hard_link(path, draft))?.1;
    // If they are the same file already this does nothing, and the draft is removed.
    fs::rename(&link.path, previous_of(path))
}

/// A file that is to take the place of another one; it is removed unless it did.
struct Draft {
    path: PathBuf,
    is_there: bool,
}

impl Draft {
    /// Makes a draft at a path that no other process and no other thread uses.
    fn make<T>(path: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(T, Self)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let draft = path.with_extension(format!("new-{}-{count}", std::process::id()));
            match make(&draft) {
                Ok(made) => return Ok((made, Self { path: draft, is_there: true })),
                // Left by a process with the same number, or of one in another namespace.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn write(path: &Path, bytes: &[u8]) -> io::Result<(File, Self)> {
        let create = |draft: &Path| OpenOptions::new().write(true).create_new(true).open(draft);
        let (mut file, draft) = Self::make(path, create)?;
        file.write_all(bytes)?;
        Ok((file, draft))
    }

    fn replace(mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.is_there = false;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.is_there {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
#[path = "json_file_tests.rs"]
mod json_file_tests;

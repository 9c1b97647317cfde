//! Files that are there whole or not at all.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes a file whole or not at all.
///
/// # Errors
/// It could not be written; what was there is there still.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    write_whole(path, &serde_json::to_vec(value)?)
}

/// The same of any bytes.
///
/// # Errors
/// As for [`write_json`].
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("new-{}", std::process::id()));
    std::fs::write(&temporary, bytes)?;
    std::fs::rename(&temporary, path)
}

/// Removes a file, if it is there.
///
/// # Errors
/// It is there and stays.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Reads a file; `None` when it is not there.
///
/// # Errors
/// It cannot be read, or is not what it should be.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

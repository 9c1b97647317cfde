//! Sockets at paths of any length.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Listens at a socket in a directory; one of a dead process is replaced.
///
/// # Errors
/// It cannot be made.
pub fn listen_in(directory: &Path, name: &str) -> io::Result<UnixListener> {
    let opened = open(directory)?;
    match std::fs::remove_file(directory.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    UnixListener::bind(short_path(&opened, name))
}

/// Connects to a socket in a directory; `None` when nobody listens.
///
/// # Errors
/// Something else stands in the way.
pub fn connect_in(directory: &Path, name: &str) -> io::Result<Option<UnixStream>> {
    let directory = match open(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    match UnixStream::connect(short_path(&directory, name)) {
        Ok(stream) => Ok(Some(stream)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn open(directory: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(directory, flags, Mode::empty())?))
}

/// A socket's path has at most 107 bytes; through a descriptor any directory fits.
fn short_path(directory: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))
}

//! Where the server listens: at an address, or at a unix socket of which it is known who calls.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::{Path, PathBuf};

use hotcell_model::{Error, Result};
use rustix::fs::{FlockOperation, Mode, OFlags, fchmod, flock, open};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use tokio::net::{TcpListener, UnixListener};

use super::access::PeerUid;
use crate::client_stream::ClientStream;

/// Connections that wait to be taken.
const BACKLOG: i32 = 1024;

/// Where the server listens.
#[derive(Debug)]
pub enum Listener {
    /// At an address.
    Tcp(TcpListener),
    /// At a socket in the file system.
    Unix(SocketListener),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<SocketListener> for Listener {
    fn from(listener: SocketListener) -> Self {
        Self::Unix(listener)
    }
}

impl Listener {
    /// The address by which clients on this machine may call it.
    pub(super) fn ip(&self) -> io::Result<IpAddr> {
        match self {
            Self::Tcp(listener) => Ok(listener.local_addr()?.ip()),
            Self::Unix(_) => Ok(Ipv4Addr::LOCALHOST.into()),
        }
    }

    /// Takes the next connection, and who is at its other end where the kernel says so.
    pub(super) async fn accept(&self) -> io::Result<(ClientStream, Option<PeerUid>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((ClientStream::Tcp(stream), None))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.listener.accept().await?;
                let peer = PeerUid(stream.peer_cred()?.uid());
                Ok((ClientStream::Unix(stream), Some(peer)))
            }
        }
    }
}

/// A socket in the file system; its file is removed with it.
#[derive(Debug)]
pub struct SocketListener {
    listener: UnixListener,
    file: SocketFile,
}

/// Who may connect at all; who calls is asked of the kernel in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketMode {
    /// The owner of the socket, and root.
    Owner,
    /// Every user of this machine who reaches its directory.
    Everybody,
}

impl SocketListener {
    /// Listens at a path. A socket that somebody left there is replaced, one at which somebody
    /// listens is not.
    ///
    /// # Errors
    /// `conflict` when the path is taken, `unavailable` when nobody can listen there.
    pub fn bind(path: &Path, mode: SocketMode) -> Result<Self> {
        let failed = |error: io::Error| {
            Error::unavailable(format!("cannot listen at {}: {error}", path.display()))
                .hint("choose a path of at most 107 bytes in a directory that you can write to")
        };
        let directory = match path.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            Some(_) | None => Path::new("."),
        };
        // Of two servers that find the same file left behind only one may replace it.
        let lock =
            open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|error| failed(error.into()))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        clear(path)?;
        let socket = listen_at(path).map_err(failed)?;
        let file = SocketFile::of(path).map_err(failed)?;
        if mode == SocketMode::Everybody {
            fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(failed)?;
        }
        let socket = StdUnixListener::from(socket);
        let listener = UnixListener::from_std(socket).map_err(failed)?;
        Ok(Self { listener, file })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.file.path
    }
}

/// Private from the moment at which it is there.
fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Removes a socket at which nobody listens any more.
fn clear(path: &Path) -> Result<()> {
    let taken = |why: &str| {
        Error::conflict(format!("cannot listen at {}: {why}", path.display()))
            .hint("choose another path")
    };
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(taken(&error.to_string())),
    };
    if !found.file_type().is_socket() {
        return Err(taken("there is something that is no socket"));
    }
    match StdUnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| taken(&error.to_string()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(taken(&error.to_string())),
        Ok(_) => Err(taken("somebody else listens there")),
    }
}

/// The file of a socket, removed at the end unless it is another one by then.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    which: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        Ok(Self { path: std::path::absolute(path)?, which: (found.dev(), found.ino()) })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.which) {
            // Whoever comes next finds that nobody listens there.
            let _ = fs::remove_file(&self.path);
        }
    }
}

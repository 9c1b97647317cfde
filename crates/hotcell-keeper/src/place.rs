//! What of a keeper lies in the directory of its cell.

use std::fs::File;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use hotcell_model::Network;
use hotcell_place::{connect_in, listen_in, read_json};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

/// The socket at which the keeper of a cell is asked, in its directory.
pub const KEEPER_SOCKET: &str = "keeper.sock";
/// The socket at which its carrier is.
pub const CARRIER_SOCKET: &str = "carrier.sock";
/// The file that says what it may reach over the network now.
pub const NETWORK: &str = "network.json";
/// The file that says what it has on disk.
pub const DISK_USED: &str = "disk-used.json";
const SOCKETS_SOCKET: &str = "sockets.sock";

/// The directory of a cell, as its keeper knows it.
#[derive(Debug, Clone, Copy)]
pub struct KeptPlace<'a>(&'a Path);

impl<'a> KeptPlace<'a> {
    /// That of a cell.
    #[must_use]
    pub fn at(directory: &'a Path) -> Self {
        Self(directory)
    }

    /// The directory.
    #[must_use]
    pub fn directory(self) -> &'a Path {
        self.0
    }

    /// What the cell may reach over the network now; as it was spawned where there is none.
    #[must_use]
    pub fn network(self) -> PathBuf {
        self.0.join(NETWORK)
    }

    /// What a cell that was spawned with a network may reach now.
    ///
    /// # Errors
    /// It is written down and cannot be read.
    pub fn in_force(self, spawned: &Network) -> io::Result<Network> {
        Ok(read_json(&self.network())?.unwrap_or_else(|| spawned.clone()))
    }

    /// The certificate of its authority, if it has one.
    #[must_use]
    pub fn certificate(self) -> PathBuf {
        self.0.join("authority.pem")
    }

    /// The authority with its key.
    #[must_use]
    pub fn authority(self) -> PathBuf {
        self.0.join("authority.json")
    }

    /// What the cell has on disk, as last measured.
    #[must_use]
    pub fn disk_used(self) -> PathBuf {
        self.0.join(DISK_USED)
    }

    /// Which process its carrier is.
    pub(crate) fn carrier(self) -> PathBuf {
        self.0.join("carrier.json")
    }

    /// Lets a carrier of a former life of the cell be none of this one; it ends by itself.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn forget_carrier(self) -> io::Result<()> {
        match std::fs::remove_file(self.carrier()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Listens where the carrier is asked.
    pub(crate) fn listen_as_carrier(self) -> io::Result<UnixListener> {
        listen_in(self.0, CARRIER_SOCKET)
    }

    /// Connects to where the carrier is asked; `None` when nobody listens.
    ///
    /// # Errors
    /// Something else stands in the way.
    pub fn connect_carrier(self) -> io::Result<Option<UnixStream>> {
        connect_in(self.0, CARRIER_SOCKET)
    }

    /// Listens where the keeper is asked.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn listen_as_keeper(self) -> io::Result<UnixListener> {
        listen_in(self.0, KEEPER_SOCKET)
    }

    /// Connects to where the keeper is asked; `None` when nobody listens.
    pub(crate) fn connect_keeper(self) -> io::Result<Option<UnixStream>> {
        connect_in(self.0, KEEPER_SOCKET)
    }

    /// Listens where a supervisor is asked for sockets of its cell; to be handed to it.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn listen_for_sockets(self) -> io::Result<UnixListener> {
        listen_in(self.0, SOCKETS_SOCKET)
    }

    /// Connects to where the supervisor is asked for sockets of its cell; `None` when nobody listens.
    pub(crate) fn connect_for_sockets(self) -> io::Result<Option<UnixStream>> {
        connect_in(self.0, SOCKETS_SOCKET)
    }

    /// Takes the keeper's lock, waiting for it or not; `None` when a keeper has it.
    ///
    /// # Errors
    /// The directory is gone, or cannot be written to.
    pub fn lock_keeper(self, wait: LockWait) -> io::Result<Option<HeldLock>> {
        lock_in(self.0, "keeper.lock", wait)
    }
}

/// Takes a lock in a directory, waiting for it or not; `None` when somebody has it.
///
/// # Errors
/// The directory is gone, or cannot be written to.
pub fn lock_in(directory: &Path, name: &str, wait: LockWait) -> io::Result<Option<HeldLock>> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let file = rustix::fs::open(directory.join(name), flags, Mode::from_raw_mode(0o600))?;
    let operation = match wait {
        LockWait::Wait => FlockOperation::LockExclusive,
        LockWait::Try => FlockOperation::NonBlockingLockExclusive,
    };
    match flock(&file, operation) {
        Ok(()) => Ok(Some(HeldLock { _file: File::from(file) })),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether to wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockWait {
    /// Until whoever has it lets go.
    Wait,
    /// Not at all.
    Try,
}

/// Held until it is dropped, or with the process.
#[derive(Debug)]
pub struct HeldLock {
    _file: File,
}

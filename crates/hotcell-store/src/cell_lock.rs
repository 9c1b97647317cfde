//! Locks on cells: one file each, which the kernel unlocks when its holder dies.
//!
//! Only the holder of a lock removes its file, so a lock is held only by who also finds its file
//! still in place after locking it.

use std::collections::HashSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_model::{CellId, CellLock, Tenant};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::sync::oneshot;

use crate::StoreError;

/// The cells that this process forgot while it held their locks.
type Forgotten = Arc<Mutex<HashSet<CellId>>>;

/// The directory of the locks.
#[derive(Debug)]
pub(crate) struct LockDirectory {
    path: PathBuf,
    forgotten: Forgotten,
}

/// A held lock.
#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
    path: PathBuf,
    /// The cell it is of; none for the lock of the whole directory.
    cell: Option<CellId>,
    forgotten: Forgotten,
}

impl CellLock for FileLock {}

impl Drop for FileLock {
    fn drop(&mut self) {
        let is_forgotten =
            self.cell.as_ref().is_some_and(|cell| lock(&self.forgotten).remove(cell));
        if is_forgotten {
            // A file that stays is empty and costs nothing but its name.
            let _ = std::fs::remove_file(&self.path);
        }
        // Not left to the closing of the file: a child between fork and exec has it open too.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl LockDirectory {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, forgotten: Forgotten::default() }
    }

    /// Takes the lock if nobody has it.
    pub(crate) fn try_lock(&self, cell: &CellId) -> Result<Option<FileLock>, StoreError> {
        let path = self.file_of(cell);
        let taken = take(&path, Missing::Make, FlockOperation::NonBlockingLockExclusive);
        self.held(Some(cell), path, taken)
    }

    /// Waits for the lock. The wait is a thread of its own that sleeps in the kernel, and not one
    /// of the runtime's, for whose end a runtime that shuts down would wait. A wait that is
    /// cancelled gives the lock back the moment it arrives.
    pub(crate) async fn lock(&self, cell: &CellId) -> Result<FileLock, StoreError> {
        self.lock_file(Some(cell), self.file_of(cell)).await
    }

    /// Waits for the lock under which cells are admitted, in the same way.
    pub(crate) async fn lock_admission(&self) -> Result<FileLock, StoreError> {
        self.lock_file(None, self.path.join("admission.lock")).await
    }

    /// Waits for the lock under which execs of a tenant are admitted, in the same way.
    pub(crate) async fn lock_tenant(&self, tenant: &Tenant) -> Result<FileLock, StoreError> {
        self.lock_file(None, self.path.join(format!("tenant-{tenant}.lock"))).await
    }

    /// Waits for the lock under which execs of all tenants are admitted, in the same way.
    pub(crate) async fn lock_execs(&self) -> Result<FileLock, StoreError> {
        self.lock_file(None, self.path.join("execs.lock")).await
    }

    async fn lock_file(
        &self,
        cell: Option<&CellId>,
        path: PathBuf,
    ) -> Result<FileLock, StoreError> {
        let taken = take(&path, Missing::Make, FlockOperation::NonBlockingLockExclusive);
        if let Some(held) = self.held(cell, path.clone(), taken)? {
            return Ok(held);
        }
        const STACK_BYTES: usize = 64 * 1024;
        let (sender, receiver) = oneshot::channel();
        let directory = Self { path: self.path.clone(), forgotten: Arc::clone(&self.forgotten) };
        let (waited_for, waited_path) = (cell.cloned(), path.clone());
        std::thread::Builder::new()
            .name("cell-lock".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let taken = take(&waited_path, Missing::Make, FlockOperation::LockExclusive);
                // Nobody waits any more: what comes back is dropped, and thereby unlocked.
                let _ = sender.send(directory.held(waited_for.as_ref(), waited_path, taken));
            })
            .map_err(|source| StoreError::Lock { path: path.clone(), source })?;
        let arrived = receiver.await.ok().map_or(Ok(None), |arrived| arrived)?;
        arrived.ok_or_else(|| StoreError::Lock { path, source: io::ErrorKind::Interrupted.into() })
    }

    /// Removes the file of a cell that is no more: at once, or when this process unlocks it.
    pub(crate) fn forget(&self, cell: &CellId) {
        let path = self.file_of(cell);
        // Noted first: a holder in this process that unlocks meanwhile does it then.
        lock(&self.forgotten).insert(cell.clone());
        let taken = take(&path, Missing::Leave, FlockOperation::NonBlockingLockExclusive);
        drop(self.held(Some(cell), path.clone(), taken));
        if !path.exists() {
            lock(&self.forgotten).remove(cell);
        }
    }

    fn file_of(&self, cell: &CellId) -> PathBuf {
        self.path.join(format!("{cell}.lock"))
    }

    fn held(
        &self,
        cell: Option<&CellId>,
        path: PathBuf,
        taken: io::Result<Option<File>>,
    ) -> Result<Option<FileLock>, StoreError> {
        match taken {
            Ok(Some(file)) => Ok(Some(FileLock {
                file,
                path,
                cell: cell.cloned(),
                forgotten: Arc::clone(&self.forgotten),
            })),
            Ok(None) => Ok(None),
            Err(source) => Err(StoreError::Lock { path, source }),
        }
    }
}

/// What to do where there is no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Leave,
}

/// Locks the file that `path` stands for; `None` when another has it, or there is none to leave.
fn take(path: &Path, missing: Missing, how: FlockOperation) -> io::Result<Option<File>> {
    loop {
        let file = match (open(path, missing), missing) {
            (Err(error), Missing::Leave) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            (opened, _) => opened?,
        };
        match flock(&file, how) {
            Ok(()) if is_in_place(&file, path)? => return Ok(Some(file)),
            Ok(()) | Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

fn open(path: &Path, missing: Missing) -> io::Result<File> {
    let open = || {
        OpenOptions::new()
            .write(true)
            .create(missing == Missing::Make)
            .truncate(false)
            .mode(0o600)
            .open(path)
    };
    match (open(), path.parent()) {
        (Err(error), Some(directory))
            if error.kind() == io::ErrorKind::NotFound && missing == Missing::Make =>
        {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            open()
        }
        (opened, _) => opened,
    }
}

fn is_in_place(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(named) => Ok(named.ino() == held.ino() && named.dev() == held.dev()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn lock(forgotten: &Forgotten) -> std::sync::MutexGuard<'_, HashSet<CellId>> {
    // A panic while the lock is held leaves a set that is still a set.
    forgotten.lock().unwrap_or_else(PoisonError::into_inner)
}

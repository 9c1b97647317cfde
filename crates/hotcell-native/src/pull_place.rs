//! Where an image lies while it is pulled.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hotcell_model::{Error, ErrorCode, Result};
use rustix::fs::{FlockOperation, flock};

/// What has come of an image that nobody pulls any more is kept for so long.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A directory for what comes of an image. Only one pulls it at a time.
#[derive(Debug)]
pub(crate) struct PullPlace {
    pub(crate) path: PathBuf,
    /// Beside the directory, where it stays: who waits for it waits for the same as everybody else.
    _lock: File,
}

impl PullPlace {
    /// Waits until nobody else pulls the same image.
    pub(crate) fn hold(path: PathBuf) -> Result<Self> {
        let made = || -> io::Result<Self> {
            fs::create_dir_all(&path)?;
            let lock = lock_file(&path)?;
            flock(&lock, FlockOperation::LockExclusive)?;
            // Whoever had it may have removed the directory.
            fs::create_dir_all(&path)?;
            Ok(Self { path: path.clone(), _lock: lock })
        };
        let place = made().map_err(|error| {
            Error::unavailable(format!("cannot write to {}: {error}", path.display()))
        })?;
        place.remove_forgotten();
        Ok(place)
    }

    /// Whether all of an image has come.
    pub(crate) fn is_layout(&self) -> bool {
        self.path.join("index.json").exists()
    }

    /// What has come stays if another try may go on with it, and goes if not.
    pub(crate) fn leave<T>(self, pulled: &Result<T>) {
        let blobs = fs::read_dir(self.path.join("blobs/sha256"));
        let has_some = blobs.is_ok_and(|mut blobs| blobs.next().is_some());
        let may_go_on = match pulled {
            Ok(_) => false,
            Err(error) => error.code == ErrorCode::Unavailable && has_some,
        };
        if !may_go_on && let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "what was pulled stays");
        }
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes what has come.
    pub(crate) fn remove(self) -> io::Result<()> {
        fs::remove_dir_all(&self.path)
    }

    /// Removes what has come of images that nobody has pulled for long.
    fn remove_forgotten(&self) {
        for pull in self.path.parent().map(forgotten_pulls).unwrap_or_default() {
            // One that stays behind is tried again by the next pull.
            let _ = pull.remove();
        }
    }
}

/// What has come of images below a directory that nobody has pulled for long, and nobody pulls now.
pub(crate) fn forgotten_pulls(directory: &Path) -> Vec<PullPlace> {
    let is_old = |it: fs::Metadata| {
        let since = it.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        it.is_dir() && since.is_some_and(|since| since > KEPT)
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let old = entries.filter(|entry| entry.metadata().is_ok_and(is_old));
    old.filter_map(|entry| {
        let path = entry.path();
        let lock = lock_file(&path).ok()?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(PullPlace { path, _lock: lock })
    })
    .collect()
}

fn lock_file(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path.with_extension("lock"))
}

//! What can go wrong with the index, by the step that failed.

use std::io;
use std::path::{Path, PathBuf};

use hotcell_model::{Alias, CellId, Error};
use rusqlite::ErrorCode as SqliteCode;

/// Why the index could not be opened, read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The state directory cannot be made or looked at.
    #[error("cannot use the state directory {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The state directory is where neither locks nor shared memory can be relied on.
    #[error("the state directory {} is on a network file system ({kind})", path.display())]
    NetworkFileSystem {
        /// The directory.
        path: PathBuf,
        /// Which kind.
        kind: &'static str,
    },
    /// The database or its directory belongs to someone else, or the file system is read-only.
    #[error("the database {} cannot be written", path.display())]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// The database was made by a later version.
    #[error(
        "the database {} has version {found}, and this hotcell knows versions up to {known}",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The last version known here.
        known: i64,
    },
    /// The database cannot be opened.
    #[error("cannot open the database {}: {source}", path.display())]
    Open {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// A new database cannot be put in its place, or a damaged one moved aside.
    #[error("cannot {step} {}: {source}", path.display())]
    Replace {
        /// What was tried.
        step: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The database is replaced by others again and again.
    #[error("the database {} does not come to rest", path.display())]
    Unsettled {
        /// The database.
        path: PathBuf,
    },
    /// A statement failed.
    #[error("cannot {what}: {source}")]
    Query {
        /// What was tried.
        what: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// There is no room for what a statement adds.
    #[error("cannot {what}: the disk of the state directory {} is full", path.display())]
    Full {
        /// What was tried.
        what: &'static str,
        /// The state directory.
        path: PathBuf,
    },
    /// A stored record is not what it should be.
    #[error("the record of {id} in the database cannot be read: {source}")]
    Record {
        /// Of which cell or exec.
        id: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A lock cannot be taken.
    #[error("cannot lock {}: {source}", path.display())]
    Lock {
        /// The lock's file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A cell that has not ended has the alias.
    #[error("the name {alias} is taken by cell {owner}")]
    AliasTaken {
        /// The alias.
        alias: Alias,
        /// The cell that has it.
        owner: String,
    },
    /// There is a cell with this id already.
    #[error("there is a cell {0} already")]
    CellExists(CellId),
    /// There is no cell with this id.
    #[error("there is no cell {0}")]
    NoCell(CellId),
}

impl StoreError {
    /// Puts what was tried before what SQLite said about it.
    pub(crate) fn query(what: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Query { what, source }
    }

    /// The same, with the name of the disk where that is what is full.
    pub(crate) fn in_directory(self, directory: &Path) -> Self {
        match (self.sqlite_code(), self) {
            (Some(SqliteCode::DiskFull), Self::Query { what, .. }) => {
                Self::Full { what, path: directory.to_owned() }
            }
            (_, other) => other,
        }
    }

    /// Whether another process is writing, so that a later try can succeed.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.sqlite_code(), Some(SqliteCode::DatabaseBusy | SqliteCode::DatabaseLocked))
    }

    /// Whether SQLite found the file itself to be wrong.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self.sqlite_code(), Some(SqliteCode::DatabaseCorrupt | SqliteCode::NotADatabase))
    }

    fn sqlite_code(&self) -> Option<SqliteCode> {
        match self {
            Self::Open { source, .. } | Self::Query { source, .. } => source.sqlite_error_code(),
            Self::Directory { .. }
            | Self::NetworkFileSystem { .. }
            | Self::ReadOnly { .. }
            | Self::Newer { .. }
            | Self::Replace { .. }
            | Self::Unsettled { .. }
            | Self::Full { .. }
            | Self::Record { .. }
            | Self::Lock { .. }
            | Self::AliasTaken { .. }
            | Self::CellExists(_)
            | Self::NoCell(_) => None,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match &error {
            StoreError::Directory { .. }
            | StoreError::ReadOnly { .. }
            | StoreError::Replace { .. }
            | StoreError::Lock { .. } => Self::unavailable(message).hint(
                "make the state directory writable for this user and free some disk space, \
                 or choose another with HOTCELL_STATE_DIR",
            ),
            StoreError::Full { .. } => Self::unavailable(message).hint(FREE_SPACE),
            StoreError::NetworkFileSystem { .. } => Self::unsupported(message)
                .hint("choose a directory on a local disk with HOTCELL_STATE_DIR"),
            StoreError::Newer { .. } => Self::unavailable(message).hint(
                "use the newer hotcell that made it, or choose another directory with \
                 HOTCELL_STATE_DIR",
            ),
            StoreError::Open { .. } | StoreError::Query { .. } => sqlite_trouble(&error, message),
            StoreError::Unsettled { .. } => Self::unavailable(message)
                .hint("find out which other program moves or removes the file"),
            StoreError::Record { .. } => Self::internal(message)
                .hint("move hotcell.db aside; it is rebuilt from the cells and their journals"),
            StoreError::AliasTaken { .. } => {
                Self::conflict(message).hint("choose another name, or kill that cell first")
            }
            StoreError::CellExists(_) => Self::conflict(message).hint("try again with another id"),
            StoreError::NoCell(_) => {
                Self::not_found(message).hint("list the cells with `hotcell cells`")
            }
        }
    }
}

const FREE_SPACE: &str = "free some space there, end cells with `hotcell kill`, or choose another \
                          disk with HOTCELL_STATE_DIR";

fn sqlite_trouble(error: &StoreError, message: String) -> Error {
    match error.sqlite_code() {
        Some(SqliteCode::DatabaseBusy | SqliteCode::DatabaseLocked) => Error::unavailable(message)
            .hint("another process has been writing for too long; try again"),
        Some(SqliteCode::DiskFull) => Error::unavailable(message).hint(FREE_SPACE),
        Some(
            SqliteCode::ReadOnly
            | SqliteCode::CannotOpen
            | SqliteCode::PermissionDenied
            | SqliteCode::SystemIoFailure,
        ) => Error::unavailable(message)
            .hint("look at the disk and the permissions of the state directory"),
        _ => Error::internal(message),
    }
}

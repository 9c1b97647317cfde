//! The database file: opened, made, brought up to date, and replaced when it is damaged.
//!
//! Opening takes no lock. Whatever else is to be done to the file is done under the lock of
//! `hotcell.db.lock`, and a new database appears whole, by a rename. SQLite would remove the
//! write-ahead log by its path when the last connection to a file is closed; where that file was
//! replaced meanwhile, it would be the log of its successor. So no connection removes it
//! (`NO_CKPT_ON_CLOSE`), which also spares every short command a checkpoint.
#![expect(clippy::disallowed_methods, reason = "the one place where the database is opened")]

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_model::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FlockOperation, flock};

use crate::StoreError;
use crate::schema::{self, APPLICATION_ID, MIGRATIONS};

const FILE_NAME: &str = "hotcell.db";
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Each try fails only if another process replaced the file in the middle of it.
const TRIES: usize = 100;

/// An open database.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) connection: Connection,
    path: PathBuf,
    file: FileId,
}

/// A file whatever its name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

/// How far the file that was found can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Nothing speaks against it.
    AsFound,
    /// A statement found it to be damaged: look at all of it.
    AfterCheck,
}

/// A database, and where a damaged one was moved to on the way.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) database: Database,
    pub(crate) set_aside: Option<PathBuf>,
}

enum Found {
    Ready(Database),
    /// There is no file, or an empty one.
    Absent,
    /// It is from an earlier version.
    Outdated(Database),
    /// It is not a database, or not one of ours.
    Damaged,
    /// Its name came to stand for another file meanwhile.
    Replaced,
}

impl Database {
    /// Opens the database in `dir`, making it if there is none and replacing it if it is damaged.
    pub(crate) fn open(dir: &Path, trust: Trust) -> Result<Opened, StoreError> {
        refuse_network_file_system(dir)?;
        let path = dir.join(FILE_NAME);
        if trust == Trust::AsFound
            && let Found::Ready(database) = find(&path)?
        {
            return Ok(Opened { database, set_aside: None });
        }
        settle(&path, trust)
    }

    /// Whether the name of the database still stands for the file that is open.
    pub(crate) fn is_current(&self) -> bool {
        file_id(&self.path).is_ok_and(|found| found.is_some_and(|(id, _)| id == self.file))
    }

    /// Looks at all of the file; `false` when something is wrong with it.
    fn is_sound(&self) -> Result<bool, StoreError> {
        let checked =
            self.connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        match checked.map_err(StoreError::query("check the database")) {
            Ok(verdict) => Ok(verdict == "ok"),
            Err(error) if error.is_damage() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Makes the state directory, for its owner alone.
pub(crate) fn make_directory(dir: &Path) -> Result<(), StoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|source| StoreError::Directory { path: dir.to_owned(), source })
}

fn settle(path: &Path, trust: Trust) -> Result<Opened, StoreError> {
    let _exclusive = exclude_others(path)?;
    let mut set_aside = None;
    let mut trust = trust;
    for _ in 0..TRIES {
        match find(path)? {
            Found::Ready(database) => {
                if trust == Trust::AfterCheck && !database.is_sound()? {
                    drop(database);
                    set_aside = Some(move_aside(path)?);
                    trust = Trust::AsFound;
                    continue;
                }
                return Ok(Opened { database, set_aside });
            }
            Found::Absent => create(path)?,
            Found::Outdated(mut database) => {
                let brought = bring_up_to_date(&mut database.connection)
                    .map_err(StoreError::query("bring the database up to date"));
                match brought {
                    Err(error) if error.is_damage() => set_aside = Some(move_aside(path)?),
                    brought => brought?,
                }
            }
            Found::Damaged => set_aside = Some(move_aside(path)?),
            Found::Replaced => {}
        }
    }
    Err(StoreError::Unsettled { path: path.to_owned() })
}

fn find(path: &Path) -> Result<Found, StoreError> {
    let directory =
        |source| StoreError::Directory { path: path.parent().unwrap_or(path).to_owned(), source };
    let file = match file_id(path).map_err(directory)? {
        None | Some((_, 0)) => return Ok(Found::Absent),
        Some((file, _)) => file,
    };
    let looked = connect(path).and_then(|connection| {
        let verdict = look_at(&connection)?;
        Ok((connection, verdict))
    });
    // Only now is it sure which file the connection has.
    if file_id(path).map_err(directory)?.is_none_or(|(now, _)| now != file) {
        return Ok(Found::Replaced);
    }
    let (connection, verdict) = match looked {
        Ok(looked) => looked,
        Err(source) => {
            let error = StoreError::Open { path: path.to_owned(), source };
            return if error.is_damage() { Ok(Found::Damaged) } else { Err(error) };
        }
    };
    let database = Database { connection, path: path.to_owned(), file };
    match verdict {
        Verdict::Newer(found) => {
            Err(StoreError::Newer { path: path.to_owned(), found, known: schema::known_version() })
        }
        Verdict::ReadOnly => Err(StoreError::ReadOnly { path: path.to_owned() }),
        Verdict::Foreign => Ok(Found::Damaged),
        Verdict::Outdated => Ok(Found::Outdated(database)),
        Verdict::Ready => Ok(Found::Ready(database)),
    }
}

enum Verdict {
    Ready,
    Outdated,
    Newer(i64),
    Foreign,
    ReadOnly,
}

fn look_at(connection: &Connection) -> rusqlite::Result<Verdict> {
    let stamp = schema::read_stamp(connection)?;
    if stamp.application_id != APPLICATION_ID || stamp.version < 1 {
        return Ok(Verdict::Foreign);
    }
    if stamp.version > schema::known_version() {
        return Ok(Verdict::Newer(stamp.version));
    }
    if connection.is_readonly(rusqlite::MAIN_DB)? {
        return Ok(Verdict::ReadOnly);
    }
    let journal: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if stamp.version < schema::known_version() || journal != "wal" {
        return Ok(Verdict::Outdated);
    }
    Ok(if schema::has_tables(connection)? { Verdict::Ready } else { Verdict::Foreign })
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // The connection lives in a mutex of ours: SQLite needs none of its own.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

fn bring_up_to_date(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    schema::migrate(connection, MIGRATIONS)
}

fn create(path: &Path) -> Result<(), StoreError> {
    let unfinished = beside(path, ".new");
    remove(&unfinished)?;
    let make = |source| StoreError::Replace { step: "make", path: unfinished.clone(), source };
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished).map_err(make)?;
    fill(&unfinished).map_err(|source| StoreError::Open { path: unfinished.clone(), source })?;
    // One wait for the disk instead of one for each step, so that the name never stands for less
    // than the whole.
    File::open(&unfinished).and_then(|file| file.sync_all()).map_err(make)?;
    remove(&beside(path, "-wal"))?;
    remove(&beside(path, "-shm"))?;
    rename(&unfinished, path)
}

fn fill(path: &Path) -> rusqlite::Result<()> {
    let mut connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "journal_mode", "MEMORY")?;
    schema::migrate(&mut connection, MIGRATIONS)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.close().map_err(|(_, error)| error)
}

fn move_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let stamp = Timestamp::now().to_string().replace(':', "");
    let mut aside = beside(path, &format!(".corrupt-{stamp}"));
    let mut more = 1;
    while aside.exists() {
        more += 1;
        aside = beside(path, &format!(".corrupt-{stamp}-{more}"));
    }
    rename(path, &aside)?;
    let log = beside(path, "-wal");
    if log.exists() {
        rename(&log, &beside(&aside, "-wal"))?;
    }
    remove(&beside(path, "-shm"))?;
    Ok(aside)
}

fn exclude_others(path: &Path) -> Result<File, StoreError> {
    let path = beside(path, ".lock");
    let open =
        || OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let lock = || {
        let file = open()?;
        while let Err(error) = flock(&file, FlockOperation::LockExclusive) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        Ok(file)
    };
    lock().map_err(|source| StoreError::Lock { path: path.clone(), source })
}

fn refuse_network_file_system(dir: &Path) -> Result<(), StoreError> {
    let found = rustix::fs::statfs(dir)
        .map_err(|error| StoreError::Directory { path: dir.to_owned(), source: error.into() })?;
    match network_kind(found.f_type) {
        Some(kind) => Err(StoreError::NetworkFileSystem { path: dir.to_owned(), kind }),
        None => Ok(()),
    }
}

/// Which network file system has this magic of `statfs`, if one has.
pub(crate) fn network_kind(magic: i64) -> Option<&'static str> {
    const KINDS: &[(i64, &str)] = &[
        (0x6969, "NFS"),
        (0x517B, "SMB"),
        (0xFF53_4D42, "CIFS"),
        (0xFE53_4D42, "SMB2"),
        (0x5346_414F, "AFS"),
        (0x00C3_6400, "Ceph"),
    ];
    KINDS.iter().find(|(known, _)| *known == magic).map(|(_, kind)| *kind)
}

/// Which file a name stands for and how long it is.
fn file_id(path: &Path) -> io::Result<Option<(FileId, u64)>> {
    match std::fs::metadata(path) {
        Ok(found) => {
            let id = FileId { device: found.dev(), inode: found.ino() };
            Ok(Some((id, found.len())))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    std::fs::rename(from, to).map_err(|source| StoreError::Replace {
        step: "rename",
        path: from.to_owned(),
        source,
    })
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::Replace { step: "remove", path: path.to_owned(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

//! The store on one SQLite database and a directory of lock files.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hotcell_model::{
    Alias, ApprovalAnswer, Attachment, CellId, CellLock, Claim, Exec, ExecFilter, ExecId, HeldCall,
    HeldId, Holding, Isolation, KeyScope, Result, Store, StoredCell, Tenant, Tenants, Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::cell_lock::LockDirectory;
use crate::database::{Database, Trust, make_directory};
use crate::{StoreError, attachments, cells, execs, held_calls, keys};

/// How long a statement waits for other processes to finish writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const REBUILT: &str = "rebuilt";

/// The index in a state directory. Any number of processes and threads may have it open at once.
///
/// Statements run right where they are asked for, under a mutex: a commit takes 24 to 80 µs, less
/// than handing it to another thread and back. They never wait for another process while they
/// hold it; where SQLite says that one is writing, the wait is the runtime's.
#[derive(Debug)]
pub struct SqliteStore {
    directory: PathBuf,
    locks: LockDirectory,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    database: Database,
    recovered: Option<PathBuf>,
}

impl SqliteStore {
    /// Opens the index in this state directory; makes both if need be. A damaged database is moved
    /// aside and a new one begun, see [`SqliteStore::recovered`].
    ///
    /// # Errors
    /// The directory cannot be used, or the database is from a later version.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        make_directory(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            locks: LockDirectory::new(directory.join("locks")),
            state: Mutex::new(State::open(directory, Trust::AsFound)?),
        })
    }

    /// Where this store moved a damaged database to, if it found one.
    #[must_use]
    pub fn recovered(&self) -> Option<PathBuf> {
        self.lock_state().recovered.clone()
    }

    async fn run<T: Send>(
        &self,
        mut operation: impl FnMut(&mut Connection) -> Result<T, StoreError> + Send,
    ) -> Result<T> {
        let mut waited = Duration::ZERO;
        let mut pause = Duration::from_millis(1);
        loop {
            match self.attempt(&mut operation) {
                Err(error) if error.is_busy() && waited < BUSY_TIMEOUT => {
                    tokio::time::sleep(pause).await;
                    waited += pause;
                    pause = (pause * 2).min(Duration::from_millis(50));
                }
                attempted => {
                    return attempted.map_err(|error| error.in_directory(&self.directory).into());
                }
            }
        }
    }

    /// Runs an operation on the file that the database's name stands for now, and once more on a
    /// sound one if it comes upon damage.
    fn attempt<T>(
        &self,
        operation: &mut impl FnMut(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut state = self.lock_state();
        if !state.database.is_current() {
            state.reopen(&self.directory, Trust::AsFound)?;
        }
        match operation(&mut state.database.connection) {
            Err(error) if error.is_damage() => {
                state.reopen(&self.directory, Trust::AfterCheck)?;
                operation(&mut state.database.connection)
            }
            done => done,
        }
    }

    fn lock_state(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic while the lock is held rolls the transaction back as it unwinds.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn open(directory: &Path, trust: Trust) -> Result<Self, StoreError> {
        let opened = Database::open(directory, trust)?;
        opened
            .database
            .connection
            .busy_timeout(Duration::ZERO)
            .map_err(StoreError::query("leave waiting to the runtime"))?;
        Ok(Self { database: opened.database, recovered: opened.set_aside })
    }

    fn reopen(&mut self, directory: &Path, trust: Trust) -> Result<(), StoreError> {
        make_directory(directory)?;
        let opened = Self::open(directory, trust)?;
        self.database = opened.database;
        self.recovered = opened.recovered.or(self.recovered.take());
        Ok(())
    }
}

/// Begins a transaction that excludes other writers from its start, so that what it reads stays
/// true until it commits.
pub(crate) fn begin(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

#[async_trait]
impl Store for SqliteStore {
    async fn needs_rebuild(&self) -> Result<bool> {
        self.run(|connection| {
            connection
                .prepare_cached("SELECT value FROM setting WHERE name = ?1")
                .and_then(|mut read| read.query_row([REBUILT], |_| Ok(())).optional())
                .map(|found| found.is_none())
                .map_err(StoreError::query("read whether the index is complete"))
        })
        .await
    }

    async fn mark_rebuilt(&self) -> Result<()> {
        self.run(|connection| {
            connection
                .execute("INSERT OR IGNORE INTO setting (name, value) VALUES (?1, '1')", [REBUILT])
                .map(|_| ())
                .map_err(StoreError::query("record that the index is complete"))
        })
        .await
    }

    async fn lock_cell(&self, cell: &CellId) -> Result<Box<dyn CellLock>> {
        Ok(Box::new(self.locks.lock(cell).await?))
    }

    async fn try_lock_cell(&self, cell: &CellId) -> Result<Option<Box<dyn CellLock>>> {
        let held = self.locks.try_lock(cell)?;
        Ok(held.map(|lock| Box::new(lock) as Box<dyn CellLock>))
    }

    async fn lock_admission(&self) -> Result<Box<dyn CellLock>> {
        Ok(Box::new(self.locks.lock_admission().await?))
    }

    async fn lock_tenant(&self, tenant: &Tenant) -> Result<Box<dyn CellLock>> {
        Ok(Box::new(self.locks.lock_tenant(tenant).await?))
    }

    async fn lock_execs(&self) -> Result<Box<dyn CellLock>> {
        Ok(Box::new(self.locks.lock_execs().await?))
    }

    async fn insert_cell(&self, cell: &StoredCell) -> Result<()> {
        self.run(|connection| cells::insert(connection, cell)).await
    }

    async fn set_isolation(&self, cell: &CellId, isolation: &Isolation) -> Result<()> {
        self.run(|connection| cells::set_isolation(connection, cell, isolation)).await
    }

    async fn end_cell(&self, cell: &CellId, at: Timestamp) -> Result<()> {
        self.run(|connection| cells::end(connection, cell, at)).await
    }

    async fn keep_cell(&self, cell: &CellId, at: Timestamp) -> Result<()> {
        self.run(|connection| cells::keep(connection, cell, at)).await
    }

    async fn restore_cell(&self, cell: &CellId) -> Result<()> {
        self.run(|connection| cells::restore(connection, cell)).await
    }

    async fn assign_cell(&self, cell: &StoredCell) -> Result<()> {
        self.run(|connection| cells::assign(connection, cell)).await
    }

    async fn list_pooled(&self, tenant: &Tenant, shape: &str) -> Result<Vec<StoredCell>> {
        self.run(|connection| cells::list_pooled(connection, tenant, shape)).await
    }

    async fn attach(&self, cell: &CellId, attachment: &Attachment) -> Result<()> {
        self.run(|connection| attachments::put(connection, cell, attachment)).await
    }

    async fn list_attachments(&self, cell: &CellId) -> Result<Vec<Attachment>> {
        self.run(|connection| attachments::list(connection, cell)).await
    }

    async fn forget_attachments(&self, before: Timestamp, dry_run: bool) -> Result<u64> {
        self.run(|connection| attachments::forget(connection, before, dry_run)).await
    }

    async fn delete_cell(&self, cell: &CellId) -> Result<()> {
        self.run(|connection| cells::delete(connection, cell)).await?;
        self.locks.forget(cell);
        Ok(())
    }

    async fn find_cell(&self, cell: &CellId) -> Result<Option<StoredCell>> {
        self.run(|connection| cells::find(connection, cell)).await
    }

    async fn find_cell_among(
        &self,
        tenants: &Tenants,
        cell: &CellId,
    ) -> Result<Option<StoredCell>> {
        self.run(|connection| cells::find_among(connection, tenants, cell)).await
    }

    async fn find_alias(&self, tenant: &Tenant, alias: &Alias) -> Result<Option<StoredCell>> {
        self.run(|connection| cells::find_alias(connection, tenant, alias)).await
    }

    async fn count_cells(&self, tenants: &Tenants) -> Result<u64> {
        self.run(|connection| cells::count(connection, tenants)).await
    }

    async fn list_cells(&self, tenants: &Tenants) -> Result<Vec<StoredCell>> {
        self.run(|connection| cells::list(connection, tenants)).await
    }

    async fn claim_key(
        &self,
        scope: &KeyScope,
        key: &str,
        value: &str,
        fingerprint: u64,
        expires: Timestamp,
    ) -> Result<Claim> {
        self.run(|connection| keys::claim(connection, scope, key, value, fingerprint, expires))
            .await
    }

    async fn release_key(&self, scope: &KeyScope, key: &str, value: &str) -> Result<()> {
        self.run(|connection| keys::release(connection, scope, key, value)).await
    }

    async fn indexed_bytes(&self, cell: &CellId) -> Result<u64> {
        self.run(|connection| execs::indexed_bytes(connection, cell)).await
    }

    async fn put_execs(&self, cell: &CellId, execs: &[Exec], indexed_bytes: u64) -> Result<()> {
        self.run(|connection| execs::put(connection, cell, execs, indexed_bytes)).await
    }

    async fn find_exec(&self, exec: &ExecId) -> Result<Option<Exec>> {
        self.run(|connection| execs::find(connection, exec)).await
    }

    async fn find_exec_among(&self, tenants: &Tenants, exec: &ExecId) -> Result<Option<Exec>> {
        self.run(|connection| execs::find_among(connection, tenants, exec)).await
    }

    async fn list_execs(&self, filter: &ExecFilter) -> Result<Vec<Exec>> {
        self.run(|connection| execs::list(connection, filter)).await
    }

    async fn hold_call(&self, call: &HeldCall, now: Timestamp, most: u64) -> Result<Holding> {
        self.run(|connection| held_calls::hold(connection, call, now, most)).await
    }

    async fn find_held(&self, tenants: &Tenants, held: &HeldId) -> Result<Option<HeldCall>> {
        self.run(|connection| held_calls::find(connection, tenants, held)).await
    }

    async fn list_held(&self, tenants: &Tenants, now: Timestamp) -> Result<Vec<HeldCall>> {
        self.run(|connection| held_calls::list(connection, tenants, now)).await
    }

    async fn answer_held(&self, held: &HeldId, answer: &ApprovalAnswer) -> Result<bool> {
        self.run(|connection| held_calls::answer(connection, held, answer)).await
    }

    async fn use_held(&self, held: &HeldId, at: Timestamp) -> Result<bool> {
        self.run(|connection| held_calls::use_up(connection, held, at)).await
    }

    async fn expire_held(&self, now: Timestamp) -> Result<Vec<HeldCall>> {
        self.run(|connection| held_calls::expire(connection, now)).await
    }
}

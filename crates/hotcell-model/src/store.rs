//! The port to the index of cells, keys, execs and held calls.

use async_trait::async_trait;

use crate::{
    Alias, ApprovalAnswer, Attachment, CellId, CellSpec, Exec, ExecId, ExecStatusFilter, HeldCall,
    HeldId, Holding, Isolation, Result, Tenant, Tenants, Timestamp,
};

/// What an idempotency key was given for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyScope {
    /// Spawning a cell of this tenant.
    Spawn(Tenant),
    /// Running an exec in this cell.
    Run(CellId),
}

/// How claiming an idempotency key came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The key was free and now stands for the offered value.
    New,
    /// The key stands for this value, from a request with this fingerprint.
    Taken {
        /// The id it stands for.
        value: String,
        /// What was asked for when it was claimed.
        fingerprint: u64,
    },
}

/// A cell as the index knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCell {
    /// As it was spawned.
    pub spec: CellSpec,
    /// What separates it from the host, once it was started.
    pub isolation: Option<Isolation>,
    /// When the cell ended; its logs are kept for a while after.
    pub ended_at: Option<Timestamp>,
    /// Whether its files are kept although it has ended.
    pub kept: bool,
}

/// Which execs to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecFilter {
    /// Only those of these tenants. Where the page before ended counts only if it is theirs.
    pub tenants: Tenants,
    /// Only those of this cell.
    pub cell: Option<CellId>,
    /// Only those in this status.
    pub status: Option<ExecStatusFilter>,
    /// How many at most.
    pub limit: u32,
    /// Only those older than this one.
    pub before: Option<(Timestamp, ExecId)>,
}

/// Excludes every other process from changing a cell; dropped, it is free. A process that dies
/// drops it.
pub trait CellLock: Send + Sync + std::fmt::Debug {}

/// How many clients of a cell are remembered.
pub const ATTACHMENTS: usize = 100;

/// The index. Everything in it but the keys, the held calls and the clients can be rebuilt from the drivers and
/// the journals.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug {
    /// Whether the index may lack what drivers and journals know: it is new, or its predecessor
    /// was lost. Stays so, for every process, until [`Store::mark_rebuilt`].
    async fn needs_rebuild(&self) -> Result<bool> {
        Ok(false)
    }

    /// Records that the index was rebuilt. Idempotent.
    async fn mark_rebuilt(&self) -> Result<()> {
        Ok(())
    }

    /// Waits for the lock on a cell. Cancelling the wait leaves nothing behind.
    async fn lock_cell(&self, cell: &CellId) -> Result<Box<dyn CellLock>>;

    /// Takes the lock on a cell if nobody has it.
    async fn try_lock_cell(&self, cell: &CellId) -> Result<Option<Box<dyn CellLock>>>;

    /// Waits for the one lock under which cells are admitted. Cancelling the wait leaves nothing
    /// behind.
    async fn lock_admission(&self) -> Result<Box<dyn CellLock>>;

    /// Waits for the one lock under which execs of a tenant are admitted, in the same way.
    async fn lock_tenant(&self, tenant: &Tenant) -> Result<Box<dyn CellLock>>;

    /// Waits for the one lock under which execs of all tenants are admitted, in the same way.
    async fn lock_execs(&self) -> Result<Box<dyn CellLock>>;

    /// Adds a cell. `conflict` when a cell of its tenant that has not ended has its alias, or its id
    /// exists.
    async fn insert_cell(&self, cell: &StoredCell) -> Result<()>;

    /// Records the isolation a cell was started with. `not_found` when there is no such cell.
    async fn set_isolation(&self, cell: &CellId, isolation: &Isolation) -> Result<()>;

    /// Marks a cell as ended, with nothing kept of it, and frees its alias. Idempotent.
    async fn end_cell(&self, cell: &CellId, at: Timestamp) -> Result<()>;

    /// The same, with its files kept. Idempotent.
    async fn keep_cell(&self, cell: &CellId, at: Timestamp) -> Result<()>;

    /// Makes a cell whose files are kept one that has not ended. `conflict` when its alias is taken,
    /// `not_found` when there is no such cell or nothing of it is kept.
    async fn restore_cell(&self, cell: &CellId) -> Result<()>;

    /// Gives a cell that was made ahead of need out as this one, of the same id, tenant and shape.
    /// `conflict` when the alias is taken, `not_found` when there is no such cell or it was given out
    /// or has ended.
    async fn assign_cell(&self, cell: &StoredCell) -> Result<()>;

    /// The cells of a tenant that were made ahead of need and can be given out as this shape, oldest
    /// first.
    async fn list_pooled(&self, tenant: &Tenant, shape: &str) -> Result<Vec<StoredCell>>;

    /// Notes that a client works in a cell. Of a cell as many are kept as [`ATTACHMENTS`]. `not_found`
    /// when there is no such cell.
    async fn attach(&self, cell: &CellId, attachment: &Attachment) -> Result<()>;

    /// Clients that work in a cell, the latest first.
    async fn list_attachments(&self, cell: &CellId) -> Result<Vec<Attachment>>;

    /// Forgets clients that were last seen before a time, or only counts them.
    async fn forget_attachments(&self, before: Timestamp, dry_run: bool) -> Result<u64>;

    /// Forgets a cell and its execs. Idempotent.
    async fn delete_cell(&self, cell: &CellId) -> Result<()>;

    /// The cell with this id, ended or not.
    async fn find_cell(&self, cell: &CellId) -> Result<Option<StoredCell>>;

    /// The same, if it belongs to one of these tenants. One that belongs to another takes no other
    /// time than one that does not exist.
    async fn find_cell_among(&self, tenants: &Tenants, cell: &CellId)
    -> Result<Option<StoredCell>>;

    /// The cell of this tenant that has this alias and has not ended.
    async fn find_alias(&self, tenant: &Tenant, alias: &Alias) -> Result<Option<StoredCell>>;

    /// Every cell of these tenants, newest first, those that have ended included.
    async fn list_cells(&self, tenants: &Tenants) -> Result<Vec<StoredCell>>;

    /// How many cells of these tenants have not ended.
    async fn count_cells(&self, tenants: &Tenants) -> Result<u64>;

    /// Claims a key for `value` until `expires`, or tells what it stands for. Atomic among all
    /// processes. Keys past their time are free.
    async fn claim_key(
        &self,
        scope: &KeyScope,
        key: &str,
        value: &str,
        fingerprint: u64,
        expires: Timestamp,
    ) -> Result<Claim>;

    /// Frees a key that stands for `value`, after what it was claimed for could not be done.
    async fn release_key(&self, scope: &KeyScope, key: &str, value: &str) -> Result<()>;

    /// How much of a cell's journal is in the index, in bytes.
    async fn indexed_bytes(&self, cell: &CellId) -> Result<u64>;

    /// Adds or replaces execs of a cell that were read from its journal up to `indexed_bytes`.
    /// What was read from less of it than is indexed changes nothing, and an exec that has ended
    /// stays so: of several readers the one that is late does no harm. Zero sets the position
    /// back, for a journal that was begun anew. `not_found` when there is no such cell.
    async fn put_execs(&self, cell: &CellId, execs: &[Exec], indexed_bytes: u64) -> Result<()>;

    /// The exec with this id.
    async fn find_exec(&self, exec: &ExecId) -> Result<Option<Exec>>;

    /// The same, if it belongs to one of these tenants. One that belongs to another takes no other
    /// time than one that does not exist.
    async fn find_exec_among(&self, tenants: &Tenants, exec: &ExecId) -> Result<Option<Exec>>;

    /// Execs, newest first.
    async fn list_execs(&self, filter: &ExecFilter) -> Result<Vec<Exec>>;

    /// Holds a call until a person has answered, unless the same call of the same caller is held:
    /// one of the same tenant, caller and digest whose deadline is yet to come and which was not
    /// done. No more than `most` of a tenant wait at once. Atomic among all processes.
    async fn hold_call(&self, call: &HeldCall, now: Timestamp, most: u64) -> Result<Holding>;

    /// The held call with this id, if it is one of these tenants', answered or not.
    async fn find_held(&self, tenants: &Tenants, held: &HeldId) -> Result<Option<HeldCall>>;

    /// The held calls of these tenants that wait for an answer, the oldest first.
    async fn list_held(&self, tenants: &Tenants, now: Timestamp) -> Result<Vec<HeldCall>>;

    /// Answers for a held call; `false` when it was answered before or its deadline is over. Atomic
    /// among all processes.
    async fn answer_held(&self, held: &HeldId, answer: &ApprovalAnswer) -> Result<bool>;

    /// Uses the approval of a held call up; `false` when it has none, when it was used, or when its
    /// deadline is over. Atomic among all processes: of many that try one succeeds.
    async fn use_held(&self, held: &HeldId, at: Timestamp) -> Result<bool>;

    /// Answers with [`ApprovalVerdict::Expired`](crate::ApprovalVerdict::Expired) for every held
    /// call whose deadline is over: those that nobody had told so before.
    async fn expire_held(&self, now: Timestamp) -> Result<Vec<HeldCall>>;
}

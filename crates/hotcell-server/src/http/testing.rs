//! A store that cannot be reached.

use async_trait::async_trait;
use hotcell_model::{
    Alias, ApprovalAnswer, Attachment, CellId, CellLock, Claim, Error, Exec, ExecFilter, ExecId,
    HeldCall, HeldId, Holding, Isolation, KeyScope, Result, Store, StoredCell, Tenant, Tenants,
    Timestamp,
};

/// It is not there.
#[derive(Debug)]
pub(super) struct AbsentStore;

fn absent<T>() -> Result<T> {
    Err(Error::unavailable("the store is absent"))
}

#[async_trait]
impl Store for AbsentStore {
    async fn needs_rebuild(&self) -> Result<bool> {
        absent()
    }

    async fn lock_cell(&self, _: &CellId) -> Result<Box<dyn CellLock>> {
        absent()
    }

    async fn try_lock_cell(&self, _: &CellId) -> Result<Option<Box<dyn CellLock>>> {
        absent()
    }

    async fn lock_admission(&self) -> Result<Box<dyn CellLock>> {
        absent()
    }

    async fn lock_tenant(&self, _: &Tenant) -> Result<Box<dyn CellLock>> {
        absent()
    }

    async fn lock_execs(&self) -> Result<Box<dyn CellLock>> {
        absent()
    }

    async fn insert_cell(&self, _: &StoredCell) -> Result<()> {
        absent()
    }

    async fn set_isolation(&self, _: &CellId, _: &Isolation) -> Result<()> {
        absent()
    }

    async fn end_cell(&self, _: &CellId, _: Timestamp) -> Result<()> {
        absent()
    }

    async fn keep_cell(&self, _: &CellId, _: Timestamp) -> Result<()> {
        absent()
    }

    async fn restore_cell(&self, _: &CellId) -> Result<()> {
        absent()
    }

    async fn assign_cell(&self, _: &StoredCell) -> Result<()> {
        absent()
    }

    async fn list_pooled(&self, _: &Tenant, _: &str) -> Result<Vec<StoredCell>> {
        absent()
    }

    async fn attach(&self, _: &CellId, _: &Attachment) -> Result<()> {
        absent()
    }

    async fn list_attachments(&self, _: &CellId) -> Result<Vec<Attachment>> {
        absent()
    }

    async fn forget_attachments(&self, _: Timestamp, _: bool) -> Result<u64> {
        absent()
    }

    async fn delete_cell(&self, _: &CellId) -> Result<()> {
        absent()
    }

    async fn find_cell(&self, _: &CellId) -> Result<Option<StoredCell>> {
        absent()
    }

    async fn find_cell_among(&self, _: &Tenants, _: &CellId) -> Result<Option<StoredCell>> {
        absent()
    }

    async fn find_alias(&self, _: &Tenant, _: &Alias) -> Result<Option<StoredCell>> {
        absent()
    }

    async fn list_cells(&self, _: &Tenants) -> Result<Vec<StoredCell>> {
        absent()
    }

    async fn count_cells(&self, _: &Tenants) -> Result<u64> {
        absent()
    }

    async fn claim_key(
        &self,
        _: &KeyScope,
        _: &str,
        _: &str,
        _: u64,
        _: Timestamp,
    ) -> Result<Claim> {
        absent()
    }

    async fn release_key(&self, _: &KeyScope, _: &str, _: &str) -> Result<()> {
        absent()
    }

    async fn indexed_bytes(&self, _: &CellId) -> Result<u64> {
        absent()
    }

    async fn put_execs(&self, _: &CellId, _: &[Exec], _: u64) -> Result<()> {
        absent()
    }

    async fn find_exec(&self, _: &ExecId) -> Result<Option<Exec>> {
        absent()
    }

    async fn find_exec_among(&self, _: &Tenants, _: &ExecId) -> Result<Option<Exec>> {
        absent()
    }

    async fn list_execs(&self, _: &ExecFilter) -> Result<Vec<Exec>> {
        absent()
    }

    async fn hold_call(&self, _: &HeldCall, _: Timestamp, _: u64) -> Result<Holding> {
        absent()
    }

    async fn find_held(&self, _: &Tenants, _: &HeldId) -> Result<Option<HeldCall>> {
        absent()
    }

    async fn list_held(&self, _: &Tenants, _: Timestamp) -> Result<Vec<HeldCall>> {
        absent()
    }

    async fn answer_held(&self, _: &HeldId, _: &ApprovalAnswer) -> Result<bool> {
        absent()
    }

    async fn use_held(&self, _: &HeldId, _: Timestamp) -> Result<bool> {
        absent()
    }

    async fn expire_held(&self, _: Timestamp) -> Result<Vec<HeldCall>> {
        absent()
    }
}

//! Keeps a caller to what belongs to its tenant.
//!
//! Every cell and exec that a request names is looked for here, before anything is done, among those
//! of the caller's tenant alone; from then on the request names cells by their ids. What belongs to
//! another tenant is not found, by the same steps and with the same words as what never was. A new
//! kind of request has to say here what it names.

use hotcell_model::{
    Alias, ApprovalId, Caller, CancelStatus, CellId, CellRef, ErrorCode, ExecCancelled, ExecId,
    Reply, Request, Result, StoredCell, Tenant, Tenants,
};

use crate::cell_find::no_cell;
use crate::exec_find::unknown;
use crate::site::Site;

/// What is left to do of a request.
pub(crate) enum Confined {
    /// All of it: whatever it names is the caller's tenant's.
    ToBeDone,
    /// Nothing.
    Answered(Box<Reply>),
}

/// Finds what a request names, among what exists for its caller.
pub(crate) async fn confine(
    site: &Site,
    caller: &Caller,
    request: &mut Request,
) -> Result<Confined> {
    match request {
        Request::CellInfo(request) => cell(site, caller, &mut request.cell).await,
        Request::CellKill(request) => cell(site, caller, &mut request.cell).await,
        Request::CellAttach(request) => cell(site, caller, &mut request.cell).await,
        Request::VolumeRestore(request) => cell(site, caller, &mut request.cell).await,
        Request::VolumeRemove(request) => cell(site, caller, &mut request.cell).await,
        // A checkpoint is looked for in its cell.
        Request::CheckpointCreate(request) => cell(site, caller, &mut request.cell).await,
        Request::CheckpointList(request) => cell(site, caller, &mut request.cell).await,
        Request::CheckpointCompare(request) => cell(site, caller, &mut request.cell).await,
        Request::CheckpointRestore(request) => cell(site, caller, &mut request.cell).await,
        Request::CheckpointDelete(request) => cell(site, caller, &mut request.cell).await,
        Request::CellFork(request) => cell(site, caller, &mut request.cell).await,
        Request::NetShow(request) => cell(site, caller, &mut request.cell).await,
        Request::NetChange(request) => cell(site, caller, &mut request.cell).await,
        Request::NetLog(request) => cell(site, caller, &mut request.cell).await,
        Request::ProjectDiff(request) => cell(site, caller, &mut request.cell).await,
        Request::ProjectApply(request) => cell(site, caller, &mut request.cell).await,
        Request::ProjectDiscard(request) => cell(site, caller, &mut request.cell).await,
        // The id that a run brings along is for an exec that is not there yet.
        Request::ExecRun(request) => cell(site, caller, &mut request.cell).await,
        Request::FileCall(request) => cell(site, caller, &mut request.cell).await,
        Request::FileStream(request) => cell(site, caller, &mut request.cell).await,
        Request::PortDial(request) => cell(site, caller, &mut request.cell).await,
        // Where the page before ended is looked for among the caller's own, too.
        Request::ExecList(request) => match &mut request.cell {
            Some(named) => cell(site, caller, named).await,
            None => Ok(Confined::ToBeDone),
        },
        // Code that runs calls for whoever had it run.
        Request::ToolRun(request) => match &request.exec {
            Some(named) => exec(site, caller, named).await,
            None => Ok(Confined::ToBeDone),
        },
        Request::ExecWait(request) => exec(site, caller, &request.exec).await,
        Request::ExecGet(request) => exec(site, caller, &request.exec).await,
        Request::ExecPoll(request) => exec(site, caller, &request.exec).await,
        Request::ExecInput(request) => exec(site, caller, &request.exec).await,
        Request::ExecFollow(request) => exec(site, caller, &request.exec).await,
        // A held call is looked for among those of the caller's tenant by whoever answers for it.
        Request::ApprovalGive(request) => asked(site, caller, Some(&request.id)).await,
        Request::ApprovalList(request) => asked(site, caller, request.id.as_ref()).await,
        Request::ExecCancel(request) => match exec(site, caller, &request.exec).await {
            // What is not there needs no end.
            Err(error) if error.code == ErrorCode::NotFound => {
                let (exec, status) = (request.exec.clone(), CancelStatus::NotFound);
                let cancelled = ExecCancelled { exec, status };
                Ok(Confined::Answered(Box::new(Reply::ExecCancelled(cancelled))))
            }
            found => found,
        },
        // These name nothing that is there: what they make or list is the caller's tenant's.
        Request::CellSpawn(_)
        | Request::CellList(_)
        | Request::CellAdopt(_)
        | Request::VolumesList(_)
        | Request::Reconcile(_)
        | Request::Collect(_)
        | Request::PolicyCheck(_)
        | Request::ToolSearch(_)
        | Request::ToolNames(_)
        | Request::ToolList(_)
        | Request::AuditQuery(_)
        | Request::AuditSummary(_)
        | Request::CodeStats(_)
        | Request::TokenCreate(_)
        | Request::TokensList(_)
        | Request::TokenRevoke(_)
        | Request::SecretSet(_)
        | Request::SecretsList(_)
        | Request::SecretRemove(_)
        | Request::ImageImport(_)
        | Request::ImagePull(_)
        | Request::ImagesList(_)
        | Request::ImageRemove(_)
        | Request::Diagnose(_)
        | Request::Probe(_) => Ok(Confined::ToBeDone),
    }
}

/// Puts the id of a cell where it is named. One that has ended is found by its id: who needs one
/// that has not says so.
async fn cell(site: &Site, caller: &Caller, named: &mut CellRef) -> Result<Confined> {
    let tenants = caller.tenants();
    match named {
        CellRef::Id(id) => {
            // Whose a cell is never changes.
            if !site.links.know(&tenants, id)
                && site.find_stored_among(&tenants, id).await?.is_none()
            {
                return Err(no_cell(named));
            }
        }
        CellRef::Alias(alias) => match site.find_named(&caller.tenant, alias).await? {
            Some(id) => *named = CellRef::Id(id),
            None => return Err(no_cell(named)),
        },
        // The door has put a name in its place.
        CellRef::Default => return Err(no_cell(named)),
    }
    Ok(Confined::ToBeDone)
}

async fn asked(site: &Site, caller: &Caller, id: Option<&ApprovalId>) -> Result<Confined> {
    match id {
        Some(ApprovalId::Exec(id)) => exec(site, caller, id).await,
        Some(ApprovalId::Held(_)) | None => Ok(Confined::ToBeDone),
    }
}

async fn exec(site: &Site, caller: &Caller, exec: &ExecId) -> Result<Confined> {
    let tenants = caller.tenants();
    let is_known = site.recent.find_cell(exec).is_some_and(|cell| site.links.know(&tenants, &cell));
    if is_known {
        return Ok(Confined::ToBeDone);
    }
    let found = match site.store.find_exec_among(&tenants, exec).await? {
        Some(found) => Some(found),
        None => {
            site.rebuild_once().await;
            site.sync_all(&tenants).await?;
            site.store.find_exec_among(&tenants, exec).await?
        }
    };
    let found = found.ok_or_else(|| unknown(exec))?;
    site.recent.insert(exec, &found.cell);
    Ok(Confined::ToBeDone)
}

impl Site {
    /// The cell with this id, ended or not, if it belongs to one of these tenants; also if the
    /// index has lost it.
    async fn find_stored_among(
        &self,
        tenants: &Tenants,
        cell: &CellId,
    ) -> Result<Option<StoredCell>> {
        match self.store.find_cell_among(tenants, cell).await? {
            Some(found) => Ok(Some(found)),
            None => {
                self.rebuild_once().await;
                self.store.find_cell_among(tenants, cell).await
            }
        }
    }

    /// The id of the cell of this tenant that is called so and has not ended.
    pub(crate) async fn find_named(
        &self,
        tenant: &Tenant,
        alias: &Alias,
    ) -> Result<Option<CellId>> {
        match self.links.find_named(tenant, alias) {
            Some(id) => Ok(Some(id)),
            None => Ok(self.find_alias(tenant, alias).await?.map(|found| found.spec.id)),
        }
    }
}

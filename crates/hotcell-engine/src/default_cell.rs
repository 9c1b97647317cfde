//! The cell that a caller means without naming it.

use hotcell_model::{Caller, CellRef, CellSpawn, Error, Keep, Request, Result, Workspace};

use crate::cell_spawn::cell_spawn;
use crate::site::Site;

/// Puts the caller's default cell where a request means it. What uses a cell makes it; what only
/// looks at one, or changes it, does not.
pub(crate) async fn put(site: &Site, caller: &Caller, request: &mut Request) -> Result<()> {
    match request {
        Request::CellInfo(request) => name(caller, &mut request.cell),
        Request::CellKill(request) => name(caller, &mut request.cell),
        Request::CheckpointCreate(request) => name(caller, &mut request.cell),
        Request::CheckpointList(request) => name(caller, &mut request.cell),
        Request::CheckpointCompare(request) => name(caller, &mut request.cell),
        Request::CheckpointRestore(request) => name(caller, &mut request.cell),
        Request::CheckpointDelete(request) => name(caller, &mut request.cell),
        Request::CellFork(request) => name(caller, &mut request.cell),
        Request::NetShow(request) => name(caller, &mut request.cell),
        Request::NetChange(request) => name(caller, &mut request.cell),
        Request::NetLog(request) => name(caller, &mut request.cell),
        Request::ProjectDiff(request) => name(caller, &mut request.cell),
        Request::ProjectApply(request) => name(caller, &mut request.cell),
        Request::ProjectDiscard(request) => name(caller, &mut request.cell),
        Request::ExecList(request) => match &mut request.cell {
            Some(cell) => name(caller, cell),
            None => Ok(()),
        },
        Request::AuditQuery(request) => match &mut request.cell {
            Some(cell) => name(caller, cell),
            None => Ok(()),
        },
        Request::ExecRun(request) => make(site, caller, &mut request.cell).await,
        Request::FileCall(request) => make(site, caller, &mut request.cell).await,
        Request::FileStream(request) => make(site, caller, &mut request.cell).await,
        Request::PortDial(request) => name(caller, &mut request.cell),
        Request::CellSpawn(_)
        | Request::CellList(_)
        | Request::CellAdopt(_)
        | Request::ExecWait(_)
        | Request::ExecGet(_)
        | Request::ExecPoll(_)
        | Request::ExecInput(_)
        | Request::ExecCancel(_)
        | Request::ExecFollow(_)
        | Request::ApprovalList(_)
        | Request::PolicyCheck(_)
        | Request::ApprovalGive(_)
        | Request::SecretSet(_)
        | Request::SecretsList(_)
        | Request::SecretRemove(_)
        | Request::TokenCreate(_)
        | Request::TokensList(_)
        | Request::TokenRevoke(_)
        | Request::AuditVerify(_)
        | Request::AuditSummary(_)
        | Request::Diagnose(_)
        | Request::Probe(_) => Ok(()),
    }
}

/// Puts the name of the caller's default cell where it is meant.
fn name(caller: &Caller, cell: &mut CellRef) -> Result<()> {
    match (&*cell, &caller.default_cell) {
        (CellRef::Default, Some(alias)) => {
            *cell = CellRef::Alias(alias.clone());
            Ok(())
        }
        (CellRef::Default, None) => Err(Error::invalid("there is no default cell here")
            .hint("name a cell, or make one with `hotcell spawn`")),
        (CellRef::Id(_) | CellRef::Alias(_), _) => Ok(()),
    }
}

/// The same, and makes the cell at its first use. It is persistent.
async fn make(site: &Site, caller: &Caller, cell: &mut CellRef) -> Result<()> {
    if *cell != CellRef::Default {
        return Ok(());
    }
    name(caller, cell)?;
    let CellRef::Alias(alias) = &*cell else { return Ok(()) };
    let workspace = match site.links.find_named(&caller.tenant, alias) {
        Some(id) => Some(site.links.workspace_of(&id)),
        None => {
            let found = site.find_alias(&caller.tenant, alias).await?;
            found.map(|found| found.spec.workspace)
        }
    };
    if let Some(workspace) = workspace {
        return check_workspace(cell, workspace.as_ref(), caller.default_workspace.as_ref());
    }
    let request = CellSpawn {
        alias: caller.default_cell.clone(),
        reuse_alias: true,
        keep: Keep::Always,
        workspace: caller.default_workspace.clone(),
        network: caller.default_network.clone(),
        ..CellSpawn::default()
    };
    cell_spawn(site, &caller.tenant, request).await.map(drop)
}

/// Refuses a cell that works on something else than is asked for.
pub(crate) fn check_workspace(
    cell: &CellRef,
    has: Option<&Workspace>,
    asked: Option<&Workspace>,
) -> Result<()> {
    if asked.is_none() || asked == has {
        return Ok(());
    }
    let has = match has {
        Some(workspace) => {
            format!("works on {} ({})", workspace.dir.display(), workspace.mode.as_str())
        }
        None => "has a workspace of its own".to_owned(),
    };
    Err(Error::conflict(format!("the cell {cell} exists and {has}")).hint(
        "a workspace is fixed when a cell is made: use another name, or end that cell with `hotcell kill`",
    ))
}

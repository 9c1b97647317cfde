//! The cell that a caller means without naming it.

use hotcell_model::{Caller, CellRef, CellSpawn, Error, Keep, Request, Result, Scope, Workspace};

use crate::cell_spawn::cell_spawn;
use crate::site::Site;

/// Whether the cell that a request means is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is, or has to be.
    Settled,
    /// It is the caller's default cell, and is made once it is sure that the request is done.
    ToBeMade,
}

/// Puts the caller's default cell where a request means it. Whatever a served caller asks of it makes
/// it, except removing it, and what only the operator does.
pub(crate) async fn put(site: &Site, caller: &Caller, request: &mut Request) -> Result<Standing> {
    let named = match request {
        Request::ExecRun(request) => return look(site, caller, &mut request.cell).await,
        Request::FileCall(request) => return look(site, caller, &mut request.cell).await,
        Request::FileStream(request) => return look(site, caller, &mut request.cell).await,
        Request::CellInfo(request) => return served(site, caller, &mut request.cell).await,
        Request::CellKill(request) => name(caller, &mut request.cell),
        Request::CellAttach(request) => return served(site, caller, &mut request.cell).await,
        Request::VolumeRestore(request) => name(caller, &mut request.cell),
        Request::VolumeRemove(request) => name(caller, &mut request.cell),
        Request::CheckpointCreate(request) => return served(site, caller, &mut request.cell).await,
        Request::CheckpointList(request) => return served(site, caller, &mut request.cell).await,
        Request::CheckpointCompare(request) => {
            return served(site, caller, &mut request.cell).await;
        }
        Request::CheckpointRestore(request) => {
            return served(site, caller, &mut request.cell).await;
        }
        Request::CheckpointDelete(request) => return served(site, caller, &mut request.cell).await,
        Request::CellFork(request) => return served(site, caller, &mut request.cell).await,
        Request::NetShow(request) => name(caller, &mut request.cell),
        Request::NetChange(request) => name(caller, &mut request.cell),
        Request::NetLog(request) => name(caller, &mut request.cell),
        Request::ProjectDiff(request) => return served(site, caller, &mut request.cell).await,
        Request::ProjectApply(request) => return at_once(site, caller, &mut request.cell).await,
        Request::ProjectDiscard(request) => return at_once(site, caller, &mut request.cell).await,
        Request::ExecList(request) => match &mut request.cell {
            Some(cell) => return served(site, caller, cell).await,
            None => Ok(()),
        },
        Request::AuditQuery(request) => match &mut request.cell {
            Some(cell) => name(caller, cell),
            None => Ok(()),
        },
        Request::PortDial(request) => name(caller, &mut request.cell),
        Request::CellSpawn(_)
        | Request::CellList(_)
        | Request::CellAdopt(_)
        | Request::VolumesList(_)
        | Request::Reconcile(_)
        | Request::Collect(_)
        | Request::ExecWait(_)
        | Request::ToolRun(_)
        | Request::ToolSearch(_)
        | Request::ToolNames(_)
        | Request::ToolList(_)
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
        | Request::ImageImport(_)
        | Request::ImagePull(_)
        | Request::ImagesList(_)
        | Request::ImageRemove(_)
        | Request::TokenCreate(_)
        | Request::TokensList(_)
        | Request::TokenRevoke(_)
        | Request::AuditSummary(_)
        | Request::CodeStats(_)
        | Request::Diagnose(_)
        | Request::Probe(_) => Ok(()),
    };
    named.map(|()| Standing::Settled)
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

/// The same, and tells whether the cell is there.
async fn look(site: &Site, caller: &Caller, cell: &mut CellRef) -> Result<Standing> {
    if *cell != CellRef::Default {
        return Ok(Standing::Settled);
    }
    name(caller, cell)?;
    let CellRef::Alias(alias) = &*cell else { return Ok(Standing::Settled) };
    let workspace = match site.links.find_named(&caller.tenant, alias) {
        Some(id) => Some(site.links.workspace_of(&id)),
        None => {
            let found = site.find_alias(&caller.tenant, alias).await?;
            found.map(|found| found.spec.workspace)
        }
    };
    match workspace {
        Some(workspace) => {
            check_workspace(cell, workspace.as_ref(), caller.default_workspace.as_ref())?;
            Ok(Standing::Settled)
        }
        // Who may only look finds nothing to look at.
        None if !caller.may(Scope::Run) => Ok(Standing::Settled),
        None => Ok(Standing::ToBeMade),
    }
}

/// The same for requests that only look at a cell, or change what a person knows to be there: at the
/// command line they make no cell.
async fn served(site: &Site, caller: &Caller, cell: &mut CellRef) -> Result<Standing> {
    match caller.is_local_operator() {
        true => name(caller, cell).map(|()| Standing::Settled),
        false => look(site, caller, cell).await,
    }
}

/// The same for requests whose question to a person needs the cell.
async fn at_once(site: &Site, caller: &Caller, cell: &mut CellRef) -> Result<Standing> {
    if served(site, caller, cell).await? == Standing::ToBeMade {
        make(site, caller).await?;
    }
    Ok(Standing::Settled)
}

/// Makes the caller's default cell, unless somebody has meanwhile. It is persistent.
pub(crate) async fn make(site: &Site, caller: &Caller) -> Result<()> {
    cell_spawn(site, &caller.tenant, spawn_of(caller)).await.map(drop)
}

/// How the caller's default cell is made.
pub(crate) fn spawn_of(caller: &Caller) -> CellSpawn {
    CellSpawn {
        alias: caller.default_cell.clone(),
        reuse_alias: true,
        keep: Keep::Always,
        workspace: caller.default_workspace.clone(),
        network: caller.default_network.clone(),
        ..CellSpawn::default()
    }
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

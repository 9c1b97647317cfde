//! What cells have changed in directories of the host that are their workspaces.

use hotcell_model::{
    CellId, CellSpawn, Driver, Error, ErrorCode, Occupancy, ProjectApplied, ProjectApply,
    ProjectChanges, ProjectDiff, ProjectDiscard, ProjectDiscarded, Projects, Result, StoredCell,
    Workspace, WorkspaceMode,
};

use crate::checkpoint::Running;
use crate::settings::AllowedWorkspaces;
use crate::site::Site;
use crate::view::View;

/// Tells what a cell has changed.
pub(crate) async fn project_diff(
    site: &Site,
    request: ProjectDiff,
    view: &View,
) -> Result<ProjectChanges> {
    let cell = site.get_cell(&request.cell).await?;
    let mut changes = site.projects_of(&cell)?.diff(&cell.spec.id, &request).await?;
    view.cover_changes(site, &cell.spec.id, &mut changes.patch).await?;
    Ok(changes)
}

/// Brings it to the real files. What runs in the cell is held still meanwhile.
pub(crate) async fn project_apply(site: &Site, request: ProjectApply) -> Result<ProjectApplied> {
    let cell = site.get_cell(&request.cell).await?;
    let projects = site.projects_of(&cell)?;
    let (held, occupancy) = match site.hold_still(&request.cell, Running::Spared).await {
        Err(error) if error.code == ErrorCode::Conflict => {
            (site.hold_still(&request.cell, Running::Frozen).await?, Occupancy::Frozen)
        }
        held => (held?, Occupancy::Empty),
    };
    let applied = projects.apply(held.id(), &request, occupancy).await;
    held.release().await;
    applied
}

/// Forgets it. What runs in the cell makes it a conflict.
pub(crate) async fn project_discard(
    site: &Site,
    request: ProjectDiscard,
) -> Result<ProjectDiscarded> {
    let cell = site.get_cell(&request.cell).await?;
    let projects = site.projects_of(&cell)?;
    let held = site.hold_still(&request.cell, Running::Conflict).await?;
    let discarded = projects.discard(held.id(), &request).await;
    held.release().await;
    discarded
}

impl Site {
    /// The workspace that a new cell is to have, if one of the host's directories is asked for and
    /// the operator allows it.
    pub(crate) async fn allowed_workspace(
        &self,
        request: &CellSpawn,
        driver: &dyn Driver,
    ) -> Result<Option<Workspace>> {
        let Some(asked) = &request.workspace else { return Ok(None) };
        let found = projects(driver)?.check(asked).await?;
        self.check_allowed(&found)?;
        Ok(Some(found))
    }

    /// Refuses a directory of the host that the operator did not name, in a new cell or in one that
    /// is there.
    pub(crate) fn check_allowed(&self, workspace: &Workspace) -> Result<()> {
        match &self.settings.workspaces {
            AllowedWorkspaces::Any => Ok(()),
            AllowedWorkspaces::Only(allowed) => {
                if allowed.iter().any(|allowed| covers(allowed, workspace)) {
                    Ok(())
                } else {
                    Err(not_allowed(allowed, workspace))
                }
            }
        }
    }

    /// The directories that the operator names, by their true names.
    pub(crate) async fn check_workspaces(&self, asked: &[Workspace]) -> Result<Vec<Workspace>> {
        let driver = self.driver(&self.settings.default_driver)?;
        let mut found = Vec::with_capacity(asked.len());
        for workspace in asked {
            found.push(projects(&**driver)?.check(workspace).await?);
        }
        Ok(found)
    }

    /// Makes what the host changed visible in a cell that begins something. It is no reason against
    /// that something.
    pub(crate) async fn refresh(&self, cell: &CellId, driver: &str) {
        let refreshed = match self.driver(driver).and_then(|driver| projects(&**driver)) {
            Ok(projects) => projects.refresh(cell).await,
            Err(error) => Err(error),
        };
        if let Err(error) = refreshed {
            tracing::warn!(%cell, %error, "what the host changed may not be visible in a cell yet");
        }
    }

    /// The port to the projects of a cell's driver.
    ///
    /// # Errors
    /// `invalid` if the cell keeps no changes apart; `denied` if its directory is not allowed here.
    pub(crate) fn projects_of(&self, cell: &StoredCell) -> Result<&dyn Projects> {
        if let Some(workspace) = &cell.spec.workspace {
            self.check_allowed(workspace)?;
        }
        match &cell.spec.workspace {
            Some(Workspace { mode: WorkspaceMode::Cow, .. }) => {
                projects(&**self.driver(&cell.spec.driver)?)
            }
            Some(Workspace { mode: WorkspaceMode::Rw | WorkspaceMode::Ro, dir }) => {
                Err(Error::invalid(format!(
                    "cell {} works on {} itself: there is nothing to compare or apply",
                    cell.spec.id,
                    dir.display()
                ))
                .hint("only a workspace of mode cow keeps its changes apart"))
            }
            None => Err(Error::invalid(format!(
                "the workspace of cell {} is no directory of the host",
                cell.spec.id
            ))
            .hint("make a cell on one with `hotcell run --workspace DIR`")),
        }
    }
}

fn projects(driver: &dyn Driver) -> Result<&dyn Projects> {
    driver.projects().ok_or_else(|| {
        Error::unsupported(format!(
            "the driver {} cannot make a directory of the host a workspace",
            driver.name()
        ))
        .hint("use a cell of the native driver, or copy files in with `hotcell cp`")
    })
}

/// Whether a directory is one that was allowed, and no more is asked for. What is in it is another:
/// it may belong to somebody else, or be what the whole is guarded against.
fn covers(allowed: &Workspace, asked: &Workspace) -> bool {
    asked.dir == allowed.dir && asked.mode <= allowed.mode
}

fn not_allowed(allowed: &[Workspace], asked: &Workspace) -> Error {
    let mode = asked.mode.as_str();
    let refused =
        Error::denied(format!("{} may not be a workspace of mode {mode}", asked.dir.display()));
    let names: Vec<String> = allowed
        .iter()
        .map(|allowed| format!("{} ({})", allowed.dir.display(), allowed.mode.as_str()))
        .collect();
    match names.as_slice() {
        [] => refused.hint("the operator allows directories with `hotcell serve --workspace DIR`"),
        names => refused.hint(format!("the operator allows {}", names.join(", "))),
    }
}

//! Projects, as the engine asks for them.

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use hotcell_keeper::WhichProcess;
use hotcell_model::{
    CellId, Error, Occupancy, ProjectApplied, ProjectApply, ProjectChanges, ProjectDiff,
    ProjectDiscard, ProjectDiscarded, Projects, Result, Workspace,
};

use super::changes::layer_of;
use super::drift::Drift;
use super::place::{self, Moment, Project};
use super::task::{Chosen, Look, ProjectOutcome, ProjectTask};
use crate::base::make_uppers;
use crate::checkpointer::{lock_layers, put_in_force};
use crate::driver::{Native, NativeDriver, at};
use crate::keeper_socket::{KeeperAsk, ask_keeper};
use crate::order::{Outcome, Placed, Task};
use crate::paths::CellPaths;

#[async_trait]
impl Projects for NativeDriver {
    async fn check(&self, workspace: &Workspace) -> Result<Workspace> {
        let workspace = workspace.clone();
        self.blocking(move |native| {
            let settings = &native.settings;
            place::check(&workspace, &settings.state_dir, &settings.own_files)
        })
        .await
    }

    async fn refresh(&self, cell: &CellId) -> Result<()> {
        let cell = cell.clone();
        self.blocking(move |native| ask(&native.paths.cell(&cell), KeeperAsk::Refresh)).await
    }

    async fn diff(&self, cell: &CellId, asked: &ProjectDiff) -> Result<ProjectChanges> {
        let (cell, asked) = (cell.clone(), asked.clone());
        self.blocking(move |native| native.diff_project(&cell, asked)).await
    }

    async fn apply(
        &self,
        cell: &CellId,
        asked: &ProjectApply,
        occupancy: Occupancy,
    ) -> Result<ProjectApplied> {
        let (cell, asked) = (cell.clone(), asked.clone());
        self.blocking(move |native| native.apply_project(&cell, asked, occupancy)).await
    }

    async fn discard(&self, cell: &CellId, asked: &ProjectDiscard) -> Result<ProjectDiscarded> {
        let (cell, asked) = (cell.clone(), asked.clone());
        self.blocking(move |native| native.discard_project(&cell, asked)).await
    }
}

impl Native {
    fn diff_project(&self, cell: &CellId, asked: ProjectDiff) -> Result<ProjectChanges> {
        let paths = self.paths.cell(cell);
        let _lock = lock_layers(&paths)?;
        let project = self.project(&paths)?.1;
        let ProjectDiff { limit, skip, patch_bytes, plan, leave_out_ignored, .. } = asked;
        let range = skip..skip.saturating_add(limit);
        let look = Look { paths: asked.paths, range, patch_bytes, plan, leave_out_ignored };
        let task = ProjectTask::Diff(look);
        match self.project_task(&paths, task)? {
            ProjectOutcome::Changes { changes, truncated, patch, plan, ignored } => {
                Ok(ProjectChanges {
                    dir: project.dir,
                    changes,
                    truncated,
                    patch: patch.text,
                    patch_truncated: patch.truncated,
                    left_out: patch.left_out,
                    plan,
                    ignored,
                })
            }
            ProjectOutcome::Applied { .. } | ProjectOutcome::Discarded { .. } => Err(mismatch()),
        }
    }

    fn apply_project(
        &self,
        cell: &CellId,
        asked: ProjectApply,
        occupancy: Occupancy,
    ) -> Result<ProjectApplied> {
        let paths = self.paths.cell(cell);
        let _lock = lock_layers(&paths)?;
        let project = self.project(&paths)?.1;
        let ProjectApply { paths: chosen, drifted, expected, leave_out_ignored, .. } = asked;
        let chosen = Chosen { paths: chosen, expected, leave_out_ignored };
        let task = ProjectTask::Apply { chosen, drifted, occupancy };
        let done = self.project_task(&paths, task);
        // Also after a failure: something may have been taken from what the cell writes to.
        if occupancy == Occupancy::Empty {
            self.show_anew(cell, &paths)?;
        }
        match done? {
            ProjectOutcome::Applied { applied, held_back, conflicts } => {
                Ok(ProjectApplied { dir: project.dir, applied, held_back, conflicts })
            }
            ProjectOutcome::Changes { .. } | ProjectOutcome::Discarded { .. } => Err(mismatch()),
        }
    }

    fn discard_project(&self, cell: &CellId, asked: ProjectDiscard) -> Result<ProjectDiscarded> {
        let paths = self.paths.cell(cell);
        let _lock = lock_layers(&paths)?;
        let (placed, project) = self.project(&paths)?;
        let everything = asked.paths.is_empty();
        let chosen =
            Chosen { paths: asked.paths, expected: asked.expected, leave_out_ignored: false };
        let done = self.project_task(&paths, ProjectTask::Discard { chosen });
        if everything && done.is_ok() {
            self.begin_anew(&paths, &placed, &project)?;
        } else {
            self.show_anew(cell, &paths)?;
        }
        match done? {
            ProjectOutcome::Discarded { discarded } => {
                Ok(ProjectDiscarded { dir: project.dir, discarded })
            }
            ProjectOutcome::Changes { .. } | ProjectOutcome::Applied { .. } => Err(mismatch()),
        }
    }

    /// Lets a cell have nothing of its own in its project any more.
    fn begin_anew(&self, paths: &CellPaths, placed: &Placed, project: &Project) -> Result<()> {
        let failed = |error: io::Error| at("discard the changes in", paths, &error);
        let (files, now) = (placed.files(paths), Moment::now());
        let fresh = unused(&files).map_err(failed)?;
        let mut next = placed.clone();
        for layer in &mut next.layers {
            if layer.target == Path::new(place::TARGET)
                && let Some(upper) = &mut layer.upper
            {
                upper.data = fresh.join("data");
                upper.work = fresh.join("work");
                layer.lowers.retain(|lower| lower.path == project.dir);
            }
        }
        if paths.checkpoint_files().map_err(failed)?.is_empty() {
            // No state of the cell remembers what the host had before.
            next.project = Some(project.attached_now());
        }
        make_uppers(&next.layers, &next.ids)
            .and_then(|()| paths.save_placed(&next))
            .and_then(|()| Drift::since(now).save(paths))
            .map_err(failed)?;
        put_in_force(paths)?;
        match self.order(paths, Task::Project(ProjectTask::Clear))? {
            Outcome::Failed(error) => Err(error),
            Outcome::Ready(_)
            | Outcome::Done
            | Outcome::Probed(_)
            | Outcome::Unpacked(_)
            | Outcome::Compared { .. }
            | Outcome::Project(_) => Ok(()),
        }
    }

    /// Lets a cell that runs see what changed below it, or ends it, so that it does when it wakes.
    fn show_anew(&self, cell: &CellId, paths: &CellPaths) -> Result<()> {
        let alive = WhichProcess::find_in(&paths.supervisor())
            .map_err(|error| at("look at", paths, &error))?;
        match alive.map(|_| ask(paths, KeeperAsk::ShowAnew)) {
            None | Some(Ok(())) => Ok(()),
            Some(Err(error)) => {
                tracing::info!(%cell, %error, "a cell is ended to see its project anew");
                self.stop(cell)
            }
        }
    }

    fn project(&self, paths: &CellPaths) -> Result<(Placed, Project)> {
        let placed = self.placed(paths)?;
        let project = placed.project.clone().filter(|_| layer_of(&placed).is_some());
        let project = project.ok_or_else(|| Error::invalid("the cell has no project"))?;
        Ok((placed, project))
    }

    fn project_task(&self, paths: &CellPaths, task: ProjectTask) -> Result<ProjectOutcome> {
        match self.order(paths, Task::Project(task))? {
            Outcome::Project(outcome) => Ok(*outcome),
            Outcome::Failed(error) => Err(error),
            Outcome::Ready(_)
            | Outcome::Done
            | Outcome::Probed(_)
            | Outcome::Unpacked(_)
            | Outcome::Compared { .. } => Err(mismatch()),
        }
    }
}

fn ask(paths: &CellPaths, question: KeeperAsk) -> Result<()> {
    match ask_keeper(paths, &question) {
        Ok(Outcome::Failed(error)) => Err(error),
        Ok(_) => Ok(()),
        Err(error) => Err(Error::unavailable(format!("the keeper did not answer: {error}"))),
    }
}

fn mismatch() -> Error {
    Error::internal("the keeper did something else with the project")
}

/// A directory beside what a cell writes to that is not there yet.
fn unused(files: &Path) -> io::Result<PathBuf> {
    let mut numbers = 2_u32..;
    let found = numbers.find_map(|number| {
        let path = files.join(format!("{}-{number}", place::FILES));
        (!path.exists()).then_some(path)
    });
    found.ok_or_else(|| io::Error::other("there is no free name"))
}

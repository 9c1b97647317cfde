//! What is done with a project, by a process that has nothing else to do.

use std::io;
use std::path::{Path, PathBuf};

use hotcell_model::{Error, Occupancy, Patch, ProjectChange};
use serde::{Deserialize, Serialize};

use super::apply::{Applied, apply};
use super::changes::{Found, layer_of, with_sides, written};
use super::discard::Written;
use super::journal::{self, Bytes};
use super::place::{FILES, Project};
use super::stamps::Stamps;
use crate::order::{Outcome, Placed};
use crate::patch::patch;
use crate::paths::CellPaths;
use crate::removal::remove_files;

/// What to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProjectTask {
    /// Tell what the cell has changed.
    Diff { paths: Vec<PathBuf>, limit: u32, patch_bytes: u64 },
    /// Bring it to the real files.
    Apply { paths: Vec<PathBuf>, force: bool, occupancy: Occupancy },
    /// Take these paths out of what the cell wrote.
    Discard { paths: Vec<PathBuf> },
    /// Remove what the cell wrote before all of it was discarded.
    Clear,
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProjectOutcome {
    /// What the cell has changed.
    Changes { changes: Vec<ProjectChange>, truncated: bool, patch: Patch },
    /// What the real files have now.
    Applied { applied: Vec<ProjectChange>, held_back: Vec<ProjectChange> },
    /// What was discarded.
    Discarded { discarded: Vec<ProjectChange> },
}

/// Does it.
pub(crate) fn carry_out(paths: &CellPaths, placed: &Placed, task: &ProjectTask) -> Outcome {
    let Some(project) = &placed.project else {
        return Outcome::Failed(Error::internal("the cell has no project"));
    };
    let done = match task {
        ProjectTask::Diff { paths: asked, limit, patch_bytes } => {
            tell(paths, placed, project, asked, (*limit, *patch_bytes))
        }
        ProjectTask::Apply { paths: asked, force, occupancy } => {
            bring(paths, placed, project, asked, *force, *occupancy)
        }
        ProjectTask::Discard { paths: asked } => discard(paths, placed, project, asked),
        ProjectTask::Clear => {
            return match clear(&placed.files(paths), placed) {
                Ok(()) => Outcome::Done,
                Err(error) => Outcome::Failed(failed(project, &error)),
            };
        }
    };
    match done {
        Ok(outcome) => Outcome::Project(Box::new(outcome)),
        Err(error) => Outcome::Failed(error),
    }
}

fn failed(project: &Project, error: &io::Error) -> Error {
    Error::unavailable(format!("cannot work on {}: {error}", project.dir.display()))
        .hint("the directory must be where it was when the cell was made")
}

/// Ends what a process that died left half done in the project of a cell.
pub(crate) fn recover(paths: &CellPaths, placed: &Placed) -> io::Result<()> {
    match &placed.project {
        Some(project) => journal::recover(paths, &placed.spec.id, &project.dir),
        None => Ok(()),
    }
}

/// That comes first.
fn prepare(paths: &CellPaths, placed: &Placed, project: &Project) -> Result<Stamps, Error> {
    recover(paths, placed)
        .and_then(|()| Stamps::load(paths))
        .map_err(|error| failed(project, &error))
}

fn tell(
    paths: &CellPaths,
    placed: &Placed,
    project: &Project,
    asked: &[PathBuf],
    (limit, patch_bytes): (u32, u64),
) -> Result<ProjectOutcome, Error> {
    let stamps = prepare(paths, placed, project)?;
    let told = with_sides(placed, project, &stamps, |sides| {
        // Paths are chosen afterwards, so there can be no bound before.
        let mut found = sides.changes(usize::MAX - 1)?;
        found.retain(|found| found.is_in(asked));
        let truncated = found.len() > limit as usize;
        found.truncate(limit as usize);
        let most = usize::try_from(patch_bytes).unwrap_or(usize::MAX);
        let changes: Vec<_> = found.iter().map(|found| found.change.clone()).collect();
        let patch = match most {
            0 => Patch { text: String::new(), truncated: false },
            most => patch(sides.host, sides.cell, &changes, Path::new(""), most)?,
        };
        let changes = found.iter().map(Found::shown).collect();
        Ok(serde_json::to_vec(&ProjectOutcome::Changes { changes, truncated, patch })?)
    });
    told.and_then(|told| Ok(serde_json::from_slice(&told)?))
        .map_err(|error| failed(project, &error))
}

fn bring(
    paths: &CellPaths,
    placed: &Placed,
    project: &Project,
    asked: &[PathBuf],
    force: bool,
    occupancy: Occupancy,
) -> Result<ProjectOutcome, Error> {
    let mut stamps = prepare(paths, placed, project)?;
    let failed = |error: io::Error| failed(project, &error);
    let done = with_sides(placed, project, &stamps, |sides| {
        let done = apply(sides, paths, &placed.spec.id, asked, force)?;
        let differing = match &done {
            Applied::Done { .. } => sides.changes(usize::MAX - 1)?,
            Applied::Refused(_) => Vec::new(),
        };
        let differing: Vec<Bytes> =
            differing.iter().map(|found| Bytes::of(&found.change.path)).collect();
        Ok(serde_json::to_vec(&(done, differing))?)
    });
    let (done, differing): (Applied, Vec<Bytes>) =
        done.and_then(|done| Ok(serde_json::from_slice(&done)?)).map_err(failed)?;
    let (applied, held_back, touched) = match done {
        Applied::Refused(error) => return Err(error),
        Applied::Done { applied, held_back, stamps } => (applied, held_back, stamps),
    };
    for (path, stamp) in &touched {
        if let Some(stamp) = stamp {
            stamps.set(&path.path(), *stamp);
        }
    }
    stamps.save(paths).map_err(failed)?;
    if let (Occupancy::Empty, Some(layer)) = (occupancy, layer_of(placed)) {
        let written = written(layer, project);
        if let Some((upper, frozen)) = written.split_first() {
            let written = Written { upper, frozen, ids: &placed.ids };
            let paths = |bytes: &[Bytes]| bytes.iter().map(Bytes::path).collect::<Vec<_>>();
            let touched: Vec<Bytes> = touched.into_iter().map(|(path, _)| path).collect();
            written.let_go_of_applied(&paths(&touched), &paths(&differing)).map_err(failed)?;
        }
    }
    Ok(ProjectOutcome::Applied { applied, held_back })
}

fn discard(
    paths: &CellPaths,
    placed: &Placed,
    project: &Project,
    asked: &[PathBuf],
) -> Result<ProjectOutcome, Error> {
    let stamps = prepare(paths, placed, project)?;
    let found = with_sides(placed, project, &stamps, |sides| {
        let mut found = sides.changes(usize::MAX - 1)?;
        found.retain(|found| found.is_in(asked));
        let shown: Vec<ProjectChange> = found.iter().map(Found::shown).collect();
        Ok(serde_json::to_vec(&shown)?)
    });
    let discarded: Vec<ProjectChange> = found
        .and_then(|found| Ok(serde_json::from_slice(&found)?))
        .map_err(|error| failed(project, &error))?;
    // With no paths at all everything goes at once, by other layers.
    if let (false, Some(layer)) = (asked.is_empty(), layer_of(placed)) {
        let written = written(layer, project);
        if let Some((upper, frozen)) = written.split_first() {
            Written { upper, frozen, ids: &placed.ids }.discard(asked)?;
        }
    }
    Ok(ProjectOutcome::Discarded { discarded })
}

/// Removes every directory for a project's changes but the one in use.
fn clear(files: &Path, placed: &Placed) -> io::Result<()> {
    let used = layer_of(placed).and_then(|layer| layer.upper.as_ref());
    let used = used.and_then(|upper| upper.data.parent());
    for entry in std::fs::read_dir(files)? {
        let path = entry?.path();
        let is_for_project = path
            .file_name()
            .is_some_and(|name| name.to_str().is_some_and(|name| name.starts_with(FILES)));
        if is_for_project && Some(path.as_path()) != used {
            remove_files(&path, &placed.ids).map_err(io::Error::other)?;
        }
    }
    Ok(())
}

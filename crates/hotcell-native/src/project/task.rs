//! What is done with a project, by a process that has nothing else to do.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use hotcell_jail::Step;
use hotcell_jail::ids::IdLayout;
use hotcell_jail::namespace_work::child_with_ids;
use hotcell_model::{
    ChangeKind, DriftedFiles, Error, Occupancy, Patch, PlanFor, ProjectChange, ProjectPlan,
};
use serde::{Deserialize, Serialize};

use super::agreed::{self, Agreement, Agreements};
use super::apply::{Applied, Split, among, apply};
use super::change_digest::{digest_of_changes, is_expected, not_expected};
use super::changes::{Baseline, Found, layer_of, with_sides, written};
use super::discard::Written;
use super::ignored::Reviewed;
use super::journal::{self, Bytes};
use super::place::{FILES, Project};
use super::staging::Versions;
use super::stamps::Stamps;
use crate::driver::at;
use crate::order::{Outcome, Placed};
use crate::patch::patch;
use crate::paths::CellPaths;
use crate::removal::remove_files;

/// What to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProjectTask {
    /// Tell what the cell has changed.
    Diff(Look),
    /// Bring it to the real files.
    Apply { chosen: Chosen, drifted: DriftedFiles, occupancy: Occupancy },
    /// Take these paths out of what the cell wrote.
    Discard { chosen: Chosen },
    /// Remove what the cell wrote before all of it was discarded.
    Clear,
}

/// What to tell of the changes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Look {
    /// Relative to the project; everything when empty.
    pub(crate) paths: Vec<PathBuf>,
    /// Of all changes.
    pub(crate) range: Range<u32>,
    pub(crate) patch_bytes: u64,
    pub(crate) plan: Option<PlanFor>,
    /// Whether only to name new files that git ignores.
    #[serde(default)]
    pub(crate) leave_out_ignored: bool,
}

/// The changes that a task is about.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Chosen {
    /// Relative to the project; everything when empty.
    pub(crate) paths: Vec<PathBuf>,
    /// The digest that the changes must have.
    pub(crate) expected: Option<String>,
    /// Whether new files that git ignores stay with the cell.
    #[serde(default)]
    pub(crate) leave_out_ignored: bool,
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProjectOutcome {
    /// What the cell has changed.
    Changes {
        changes: Vec<ProjectChange>,
        truncated: bool,
        patch: Patch,
        plan: Option<ProjectPlan>,
        #[serde(default)]
        ignored: Vec<String>,
    },
    /// What the real files have now.
    Applied {
        applied: Vec<ProjectChange>,
        held_back: Vec<ProjectChange>,
        conflicts: Vec<ProjectChange>,
    },
    /// What was discarded.
    Discarded { discarded: Vec<ProjectChange> },
}

/// Does it.
pub(crate) fn carry_out(paths: &CellPaths, task: &ProjectTask) -> Outcome {
    // Whoever ordered it may be gone, and somebody else order the next thing.
    let locked = paths.lock_project().and_then(|lock| Ok((lock, paths.read_placed()?)));
    let (_lock, placed): (_, Option<Placed>) = match locked {
        Ok(locked) => locked,
        Err(error) => return Outcome::Failed(at("work on the project of", paths, &error)),
    };
    let Some((placed, project)) =
        placed.as_ref().and_then(|placed| Some((placed, placed.project.as_ref()?)))
    else {
        return Outcome::Failed(Error::invalid("the cell has no project"));
    };
    let done = match task {
        ProjectTask::Diff(look) => tell(paths, placed, project, look),
        ProjectTask::Apply { chosen, drifted, occupancy } => {
            bring(paths, placed, project, chosen, *drifted, *occupancy)
        }
        ProjectTask::Discard { chosen } => discard(paths, placed, project, chosen),
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

/// Ends what a process that died left half done in the project of a cell that is to go. If that
/// cannot be done, what was taken from the project stays in its staging directory.
pub(crate) fn leave(paths: &CellPaths, placed: &Placed) {
    let Some(project) = &placed.project else { return };
    let _ = paths
        .lock_project()
        .and_then(|_lock| journal::recover(paths, &placed.spec.id, &project.dir));
}

/// The same comes before anything else that is done with a project.
fn prepare(paths: &CellPaths, placed: &Placed, project: &Project) -> Result<Baseline, Error> {
    journal::recover(paths, &placed.spec.id, &project.dir)
        .and_then(|()| Baseline::load(paths, project))
        .map_err(|error| failed(project, &error))
}

fn tell(
    paths: &CellPaths,
    placed: &Placed,
    project: &Project,
    look: &Look,
) -> Result<ProjectOutcome, Error> {
    let Look { paths: asked, range, patch_bytes, plan: plan_for, leave_out_ignored } = look;
    let baseline = prepare(paths, placed, project)?;
    let told = with_sides(placed, project, &baseline, |sides| {
        // Paths are chosen afterwards, so there can be no bound before.
        let mut found = sides.changes(usize::MAX - 1)?;
        found = match plan_for {
            Some(PlanFor::Apply) => among(found, asked),
            Some(PlanFor::Discard) | None => {
                found.into_iter().filter(|found| found.is_in(asked)).collect()
            }
        };
        // A discard also throws away what git ignores, so all of it is bound.
        let discarded = match plan_for {
            Some(PlanFor::Discard) => Some(digest_of_changes(sides, &mut found)?),
            Some(PlanFor::Apply) | None => None,
        };
        let reviewed = match leave_out_ignored {
            true => Reviewed::of(sides, found, asked)?,
            false => Reviewed::everything(found),
        };
        let ignored = reviewed.ignored_names(*plan_for);
        let mut found = reviewed.kept;
        let plan = match plan_for {
            None => None,
            Some(PlanFor::Discard) => discarded.map(|digest| ProjectPlan {
                digest,
                held_back: Vec::new(),
                conflicts: Vec::new(),
            }),
            Some(PlanFor::Apply) => {
                let digest = digest_of_changes(sides, &mut found)?;
                let split = Split::of(found, asked, DriftedFiles::Skip);
                found = split.chosen;
                let shown = |found: &[Found]| found.iter().map(Found::shown).collect();
                let (held_back, conflicts) = (shown(&split.held_back), shown(&split.conflicts));
                Some(ProjectPlan { digest, held_back, conflicts })
            }
        };
        let truncated = found.len() > range.end as usize;
        found.truncate(range.end as usize);
        found.drain(..found.len().min(range.start as usize));
        let most = usize::try_from(*patch_bytes).unwrap_or(usize::MAX);
        let changes: Vec<_> = found.iter().map(|found| found.change.clone()).collect();
        let patch = match most {
            0 => Patch { text: String::new(), truncated: false, left_out: Vec::new() },
            most => patch(sides.host, sides.cell, &changes, Path::new(""), most)?,
        };
        let changes = found.iter().map(Found::shown).collect();
        Ok(serde_json::to_vec(&ProjectOutcome::Changes {
            changes,
            truncated,
            patch,
            plan,
            ignored,
        })?)
    });
    told.and_then(|told| Ok(serde_json::from_slice(&told)?))
        .map_err(|error| failed(project, &error))
}

fn bring(
    paths: &CellPaths,
    placed: &Placed,
    project: &Project,
    chosen: &Chosen,
    drifted: DriftedFiles,
    occupancy: Occupancy,
) -> Result<ProjectOutcome, Error> {
    let mut baseline = prepare(paths, placed, project)?;
    let failed = |error: io::Error| failed(project, &error);
    let done = with_sides(placed, project, &baseline, |sides| {
        let done = apply(sides, paths, &placed.spec.id, chosen, drifted)?;
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
    let (outcome, touched, versions) = match done {
        Applied::Refused(error) => return Err(error),
        Applied::Done { applied, held_back, conflicts, touched, versions } => {
            // The host has the cell's version now. Without this, the next one is a conflict again.
            let made: Vec<PathBuf> = touched.iter().map(Bytes::path).collect();
            if drifted == DriftedFiles::Replace {
                baseline.drift.agree_on(&made);
                baseline.drift.save(paths).map_err(failed)?;
            }
            (ProjectOutcome::Applied { applied, held_back, conflicts }, touched, versions)
        }
    };
    let mut agreed = std::mem::take(&mut baseline.agreed);
    agree(paths, &mut agreed, &touched, versions).map_err(failed)?;
    if let (Occupancy::Empty, Some(layer)) = (occupancy, layer_of(placed)) {
        // What leaves the cell is the host's alone, and nothing is agreed on about it.
        agreed::forget(paths).map_err(failed)?;
        let (layers, ids) = (written(layer, project), &placed.ids);
        let paths = |bytes: &[Bytes]| bytes.iter().map(Bytes::path).collect::<BTreeSet<_>>();
        let (mut touched, differing) = (paths(&touched), paths(&differing));
        // Also what could not leave when it was applied, because something ran.
        touched.extend(baseline.stamps.paths());
        // It is done: what does not leave the cell now is equal, and no harm.
        let left =
            as_the_cell(ids, || Written::open(&layers)?.let_go_of_applied(&touched, &differing));
        match left {
            Ok(left) => agreed.end_in(&left),
            Err(_) => agreed = Agreements::default(),
        }
    }
    agreed.save(paths).map_err(failed)?;
    Ok(outcome)
}

/// Takes note of what both sides have now.
fn agree(
    paths: &CellPaths,
    agreed: &mut Agreements,
    touched: &[Bytes],
    versions: Versions,
) -> io::Result<()> {
    for path in touched {
        agreed.end(&path.path());
    }
    let stamps = Stamps::load(paths)?;
    for (path, version) in versions {
        let path = path.path();
        // The user may have changed it again; then this is not what the host has.
        if let Some(host) = stamps.get(&path) {
            agreed.set(&path, Agreement::new(host, version));
        }
    }
    Ok(())
}

fn discard(
    paths: &CellPaths,
    placed: &Placed,
    project: &Project,
    chosen: &Chosen,
) -> Result<ProjectOutcome, Error> {
    let asked = chosen.paths.as_slice();
    let mut baseline = prepare(paths, placed, project)?;
    let found = with_sides(placed, project, &baseline, |sides| {
        let mut found = sides.changes(usize::MAX - 1)?;
        found.retain(|found| found.is_in(asked));
        let is_expected = is_expected(sides, &mut found, chosen.expected.as_deref())?;
        let shown: Vec<ProjectChange> = found.iter().map(Found::shown).collect();
        Ok(serde_json::to_vec(&is_expected.then_some(shown))?)
    });
    let discarded: Option<Vec<ProjectChange>> = found
        .and_then(|found| Ok(serde_json::from_slice(&found)?))
        .map_err(|error| failed(project, &error))?;
    let discarded = discarded.ok_or_else(not_expected)?;
    let everything = [PathBuf::new()];
    baseline.agreed.end_in(if asked.is_empty() { &everything } else { asked });
    baseline.agreed.save(paths).map_err(|error| failed(project, &error))?;
    // With no paths at all everything goes at once, by other layers.
    if let (false, Some(layer)) = (asked.is_empty(), layer_of(placed)) {
        let layers = written(layer, project);
        let done = child_with_ids(&placed.ids, || {
            let done = Written::open(&layers)
                .map_err(|error| failed(project, &error))
                .and_then(|written| written.discard(asked));
            Ok(serde_json::to_vec(&done.err()).unwrap_or_default())
        });
        let refused =
            done.map_err(io::Error::other).and_then(|said| Ok(serde_json::from_slice(&said)?));
        if let Some(refused) = refused.map_err(|error| failed(project, &error))? {
            return Err(refused);
        }
    }
    if !asked.is_empty() {
        baseline.drift.forget(asked);
        baseline.drift.save(paths).map_err(|error| failed(project, &error))?;
    }
    // From here on the cell knows that the user removed these.
    for change in
        discarded.iter().filter(|found| found.drifted && found.change == ChangeKind::Added)
    {
        baseline.stamps.set(Path::new(&change.path), None);
    }
    baseline.stamps.save(paths).map_err(|error| failed(project, &error))?;
    Ok(ProjectOutcome::Discarded { discarded })
}

/// Does some work on what the cell wrote, with the cell's own rights to it, and
/// returns the paths it yields.
fn as_the_cell(
    ids: &IdLayout,
    work: impl FnOnce() -> io::Result<Vec<PathBuf>>,
) -> io::Result<Vec<PathBuf>> {
    let said = || -> io::Result<Vec<u8>> {
        let paths: Vec<Bytes> = work()?.iter().map(|path| Bytes::of(path)).collect();
        Ok(serde_json::to_vec(&paths)?)
    };
    let said = child_with_ids(ids, || said().step(|| "work on what the cell wrote".to_owned()));
    let paths: Vec<Bytes> = serde_json::from_slice(&said.map_err(io::Error::other)?)?;
    Ok(paths.iter().map(Bytes::path).collect())
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

//! Brings what a cell has changed to the real files of its project: all of it, or nothing.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use hotcell_model::{CellId, ChangeKind, DriftedFiles, Error, ProjectChange};
use rustix::fs::{Stat, fstat, syncfs};
use serde::{Deserialize, Serialize};

use super::change_digest::{is_expected, not_expected};
use super::changes::{Found, MOUNTED, NO_FILE, Sides};
use super::ignored::Reviewed;
use super::journal::{Bytes, Journal, Kept, Site, slot_name};
use super::staging::{Staging, Versions, check_awaited, stage};
use super::task::Chosen;
use crate::paths::CellPaths;
use crate::tree;

/// How many paths an error names.
const MOST_NAMED: usize = 20;

/// What came of applying.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Applied {
    /// It was done.
    Done {
        applied: Vec<ProjectChange>,
        held_back: Vec<ProjectChange>,
        conflicts: Vec<ProjectChange>,
        /// What was applied, by its bytes, and the directories it is in.
        touched: Vec<Bytes>,
        /// The files among it with the version that both sides have; `None` for what was removed.
        versions: Versions,
    },
    /// Nothing was.
    Refused(Error),
}

/// Applies the chosen changes.
pub(super) fn apply(
    sides: &Sides<'_>,
    paths: &CellPaths,
    cell: &CellId,
    chosen: &Chosen,
    drifted: DriftedFiles,
) -> io::Result<Applied> {
    let asked = chosen.paths.as_slice();
    let mut found = among(sides.changes(usize::MAX - 1)?, asked);
    if chosen.leave_out_ignored {
        found = Reviewed::of(sides, found, asked)?.kept;
    }
    if !is_expected(sides, &mut found, chosen.expected.as_deref())? {
        return Ok(Applied::Refused(not_expected()));
    }
    let Split { chosen, held_back, conflicts } = Split::of(found, asked, drifted);
    let in_the_way: Vec<&Found> = chosen.iter().filter(|found| found.drifted).collect();
    if drifted == DriftedFiles::Refuse && !in_the_way.is_empty() {
        return Ok(Applied::Refused(drifted_error(&in_the_way, &sides.project.dir)));
    }
    let shown = |found: &[Found]| found.iter().map(Found::shown).collect::<Vec<_>>();
    let (held_back, conflicts) = (shown(&held_back), shown(&conflicts));
    let touched = touched(&chosen);
    let versions = match make_all(sides, paths, cell, &chosen, &touched) {
        Ok(versions) => versions,
        Err(error) => return Ok(Applied::Refused(error)),
    };
    let touched = touched.iter().map(|path| Bytes::of(path)).collect();
    Ok(Applied::Done { applied: shown(&chosen), held_back, conflicts, touched, versions })
}

/// The changes at these paths or below, and those without which they cannot be made: what is in a
/// directory needs the removal of a file that is in the place of the directory.
pub(super) fn among(found: Vec<Found>, asked: &[PathBuf]) -> Vec<Found> {
    let gives_way =
        |found: &Found| found.change.kind == ChangeKind::Removed && !found.change.directory;
    let needed: BTreeSet<PathBuf> = {
        let replaced: BTreeSet<&Path> = found
            .iter()
            .filter(|found| gives_way(found))
            .map(|found| found.change.path.as_path())
            .collect();
        let chosen = found.iter().filter(|found| found.is_in(asked));
        let above = chosen.flat_map(|found| found.change.path.ancestors().skip(1));
        above.filter(|above| replaced.contains(above)).map(Path::to_owned).collect()
    };
    let is_chosen = |found: &Found| found.is_in(asked) || needed.contains(&found.change.path);
    found.into_iter().filter(is_chosen).collect()
}

/// Changes, by what an apply does with them.
pub(super) struct Split {
    pub(super) chosen: Vec<Found>,
    pub(super) held_back: Vec<Found>,
    pub(super) conflicts: Vec<Found>,
}

impl Split {
    /// Splits the changes among the paths that were asked for.
    pub(super) fn of(found: Vec<Found>, asked: &[PathBuf], drifted: DriftedFiles) -> Self {
        let (held_back, chosen): (Vec<Found>, Vec<Found>) =
            found.into_iter().partition(|found| is_held_back(found, asked));
        let (conflicts, chosen) = match drifted {
            DriftedFiles::Skip => without_conflicts(chosen),
            DriftedFiles::Replace | DriftedFiles::Refuse => (Vec::new(), chosen),
        };
        Self { chosen, held_back, conflicts }
    }
}

/// Everything that changes, also directories: what comes and goes in them does so by the cell.
fn touched(chosen: &[Found]) -> BTreeSet<PathBuf> {
    let mut touched = BTreeSet::new();
    for found in chosen {
        touched.insert(found.change.path.clone());
        let above = found.change.path.parent().filter(|above| !above.as_os_str().is_empty());
        touched.insert(above.unwrap_or(Path::new(".")).to_owned());
    }
    touched
}

/// Splits off the changes of drifted files, and those that cannot be made without them: a directory
/// that still has such a file in it cannot be removed, and nothing can be put where one stays.
fn without_conflicts(chosen: Vec<Found>) -> (Vec<Found>, Vec<Found>) {
    let drifted: Vec<(PathBuf, bool)> = chosen
        .iter()
        .filter(|found| found.drifted)
        .map(|found| (found.change.path.clone(), found.change.directory))
        .collect();
    let depends = |found: &Found| {
        let path = &found.change.path;
        let keeps_directory = found.change.directory && found.change.kind != ChangeKind::Removed;
        drifted.iter().any(|(other, is_directory)| {
            let is_above = other.starts_with(path) && !keeps_directory;
            // Applying half of a repository's files would corrupt its state.
            let is_in_repository = git_directory(path).is_some_and(|git| other.starts_with(git));
            is_above || is_in_repository || (path.starts_with(other) && !is_directory)
        })
    };
    let (mut conflicts, rest): (Vec<Found>, Vec<Found>) =
        chosen.into_iter().partition(|found| found.drifted || depends(found));
    for found in &mut conflicts {
        found.drifted = true;
    }
    (conflicts, rest)
}

/// The `.git` directory that a path is in.
pub(super) fn git_directory(path: &Path) -> Option<&Path> {
    path.ancestors().skip(1).find(|above| above.file_name().is_some_and(|name| name == ".git"))
}

/// What makes the host run something is applied only when it is named.
fn is_held_back(found: &Found, asked: &[PathBuf]) -> bool {
    match found.guarded {
        None => false,
        Some(NO_FILE | MOUNTED) => true,
        // A name that is given for more than this does not mean this.
        Some(_) => !asked.iter().any(|asked| {
            found.change.path == *asked
                || (found.change.path.starts_with(asked)
                    && super::guarded::by_name(asked, true, |_| false).is_some())
        }),
    }
}

fn drifted_error(drifted: &[&Found], dir: &Path) -> Error {
    let names = drifted.iter().map(|found| found.change.path.to_string_lossy());
    // Whatever the cell named them, it is text for a person.
    let mut names: Vec<String> = names.map(|name| name.escape_debug().to_string()).collect();
    let more = names.len().saturating_sub(MOST_NAMED);
    names.truncate(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Error::conflict(format!(
        "changed or removed in {} since the cell began with it: {}{more}; nothing was applied",
        dir.display(),
        names.join(", ")
    ))
    .hint(
        "look at them with `hotcell diff`; keep yours with `hotcell discard PATH`, take the cell's \
         with `hotcell apply --force PATH`, or name other paths",
    )
}

/// Makes all changes, or none.
fn make_all(
    sides: &Sides<'_>,
    paths: &CellPaths,
    cell: &CellId,
    chosen: &[Found],
    touched: &BTreeSet<PathBuf>,
) -> Result<Versions, Error> {
    if chosen.is_empty() {
        return Ok(Versions::new());
    }
    let sound = |path: &&PathBuf| sides.is_sound(path).unwrap_or(false);
    let sound = touched.iter().filter(sound).map(|path| Bytes::of(path)).collect();
    let touched = touched.iter().map(|path| Bytes::of(path)).collect();
    let site = Site::make(sides.host, cell).map_err(|error| nothing_done(sides, &error))?;
    let root = fstat(sides.host).ok().map(|stat| stat.st_ino);
    let mut journal = Journal { moves: Vec::new(), done: false, touched, sound, root };
    let mut perform = || -> io::Result<Versions> {
        let Staging { moves, checks, versions } = stage(sides, &site, chosen)?;
        journal.moves = moves;
        check_awaited()?;
        journal.save(paths)?;
        site.mark()?;
        for step in &journal.moves {
            site.perform(step)?;
        }
        // What was taken away must be what was looked at.
        for (slot, was) in &checks {
            let taken = tree::look_in(&site.staging, slot_name(*slot).as_ref())?;
            if !taken.is_some_and(|taken| is_same(&taken, was)) {
                return Err(io::Error::other("a file was changed at the same moment"));
            }
        }
        syncfs(sides.host)?;
        Ok(versions)
    };
    let performed = perform();
    journal.done = performed.is_ok();
    let finished = if journal.done { journal.save(paths) } else { Ok(()) }
        .and_then(|()| site.finish(&journal, paths));
    match (performed, finished) {
        // What is left once all is done is cleared away by the next one that looks.
        (Ok(versions), _) => Ok(versions),
        (Err(error), Ok(kept)) => Err(with_kept(nothing_done(sides, &error), &kept)),
        // The journal is still there: the next one that looks goes on.
        (Err(error), Err(second)) => Err(Error::unavailable(format!(
            "cannot apply to {}: {error}; and undoing it failed: {second}",
            sides.project.dir.display()
        ))
        .hint("mend that, then use `hotcell diff`, which undoes the rest")),
    }
}

fn nothing_done(sides: &Sides<'_>, error: &io::Error) -> Error {
    let dir = sides.project.dir.display();
    let failed = Error::unavailable(format!("cannot apply to {dir}: {error}; nothing was applied"));
    failed.hint(if error.kind() == io::ErrorKind::StorageFull {
        "free some space there, then try again"
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        "apply as a user who may write there"
    } else {
        "look at `hotcell diff`, then try again"
    })
}

/// The error, with the files that the user has written to during the apply.
fn with_kept(error: Error, kept: &[Kept]) -> Error {
    if kept.is_empty() {
        return error;
    }
    let told = kept.iter().map(|kept| match kept {
        Kept::Changed(path) => {
            format!("{path:?} has the cell's version with what was written to it")
        }
        Kept::Beside { path, before } => {
            format!("{path:?} was created again, and its previous version is in {before:?}")
        }
    });
    error.hint(format!(
        "files were written to during the apply and left as they are: {}; look at `hotcell diff`, \
         then try again",
        told.collect::<Vec<_>>().join("; ")
    ))
}

fn is_same(taken: &Stat, was: &Stat) -> bool {
    let look = |stat: &Stat| (stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    look(taken) == look(was)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Change;

    #[test]
    fn a_repository_is_applied_whole_or_not_at_all() {
        let found = |path: &str, drifted| Found {
            change: Change {
                path: PathBuf::from(path),
                kind: ChangeKind::Changed,
                directory: false,
            },
            host: None,
            cell: None,
            guarded: None,
            drifted,
            approved: None,
        };
        let all = ["src/a", ".git/index", ".git/refs/heads/main", "sub/.git/index"];
        let found = all.iter().map(|path| found(path, *path == ".git/index")).collect();
        let (conflicts, rest) = without_conflicts(found);
        let paths = |found: &[Found]| -> Vec<String> {
            found.iter().map(|found| found.change.path.display().to_string()).collect()
        };
        assert_eq!(paths(&conflicts), [".git/index", ".git/refs/heads/main"]);
        assert_eq!(paths(&rest), ["src/a", "sub/.git/index"]);
    }
}

//! Brings what a cell has changed to the real files of its project: all of it, or nothing.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use hotcell_images::Digesting;
use hotcell_model::{CellId, ChangeKind, DriftedFiles, Error, ProjectChange};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, symlinkat, syncfs};
use serde::{Deserialize, Serialize};

use super::change_digest::{is_expected, not_expected, of_file, of_link};
use super::changes::{Found, MOUNTED, NO_FILE, Sides};
use super::journal::{Bytes, Content, Journal, Move, Site, give, slot_name};
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
    if let Err(error) = make_all(sides, paths, cell, &chosen, &touched) {
        return Ok(Applied::Refused(error));
    }
    let touched = touched.iter().map(|path| Bytes::of(path)).collect();
    Ok(Applied::Done { applied: shown(&chosen), held_back, conflicts, touched })
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

    /// All of them as chosen.
    pub(super) fn everything(chosen: Vec<Found>) -> Self {
        Self { chosen, held_back: Vec::new(), conflicts: Vec::new() }
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
fn git_directory(path: &Path) -> Option<&Path> {
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
    .hint("look at them with `hotcell diff`; then name other paths, merge by hand, or use --force")
}

/// Makes all changes, or none.
fn make_all(
    sides: &Sides<'_>,
    paths: &CellPaths,
    cell: &CellId,
    chosen: &[Found],
    touched: &BTreeSet<PathBuf>,
) -> Result<(), Error> {
    if chosen.is_empty() {
        return Ok(());
    }
    let sound = |path: &&PathBuf| sides.is_sound(path).unwrap_or(false);
    let sound = touched.iter().filter(sound).map(|path| Bytes::of(path)).collect();
    let touched = touched.iter().map(|path| Bytes::of(path)).collect();
    let site = Site::make(sides.host, cell).map_err(|error| nothing_done(sides, &error))?;
    let root = fstat(sides.host).ok().map(|stat| stat.st_ino);
    let mut journal = Journal { moves: Vec::new(), done: false, touched, sound, root };
    let mut perform = || -> io::Result<()> {
        let (moves, checks) = stage(sides, &site, chosen)?;
        journal.moves = moves;
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
        Ok(syncfs(sides.host)?)
    };
    let performed = perform();
    journal.done = performed.is_ok();
    let finished = if journal.done { journal.save(paths) } else { Ok(()) }
        .and_then(|()| site.finish(&journal, paths));
    match (performed, finished) {
        // What is left once all is done is cleared away by the next one that looks.
        (Ok(()), _) => Ok(()),
        (Err(error), Ok(written_to)) => Err(with_kept(nothing_done(sides, &error), &written_to)),
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

/// The error, if the user has written to files in the moment that they had the cell's content.
fn with_kept(error: Error, written_to: &[PathBuf]) -> Error {
    if written_to.is_empty() {
        return error;
    }
    let names: Vec<String> = written_to.iter().map(|path| format!("{path:?}")).collect();
    error.hint(format!(
        "{} was written to during the apply, and was left as it is: it has the cell's version with \
         that change; look at `hotcell diff`, then try again",
        names.join(", ")
    ))
}

fn is_same(taken: &Stat, was: &Stat) -> bool {
    let look = |stat: &Stat| (stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    look(taken) == look(was)
}

type Staged = (Vec<Move>, Vec<(usize, Stat)>);

/// Puts everything new into the staging directory, and says what is to be done with it, and what
/// comes there in its place.
fn stage(sides: &Sides<'_>, site: &Site<'_>, chosen: &[Found]) -> io::Result<Staged> {
    let mut removed_directories = Vec::new();
    let (mut takes, mut makes, mut puts) = (Vec::new(), Vec::new(), Vec::new());
    let mut checks = Vec::new();
    let mut made: BTreeSet<&Path> = BTreeSet::new();
    for (slot, found) in chosen.iter().enumerate() {
        let path = Bytes::of(&found.change.path);
        match (found.change.kind, found.change.directory, &found.host, &found.cell) {
            (ChangeKind::Removed, true, Some(host), _) => removed_directories.push(Move::Remove {
                path,
                mode: host.st_mode & 0o7777,
                uid: host.st_uid,
                gid: host.st_gid,
            }),
            (ChangeKind::Removed, false, Some(host), _) => {
                takes.push(Move::Take { path, slot, was: Some(Content::of(host)) });
                checks.push((slot, *host));
            }
            (ChangeKind::Changed, true, Some(host), Some(cell)) => {
                let from = host.st_mode & 0o7777;
                let to = from & 0o7000 | cell.st_mode & 0o777;
                makes.push(Move::Mode { path, from, to });
            }
            (ChangeKind::Added, true, _, Some(_)) => {
                make_directories(sides, &found.change.path, &mut made, &mut makes)?;
            }
            (ChangeKind::Added | ChangeKind::Changed, false, host, Some(_)) => {
                let above = found.change.path.parent().unwrap_or(Path::new(""));
                make_directories(sides, above, &mut made, &mut makes)?;
                let staged = stage_one(sides, site, slot, found)?;
                let (inode, new) = (staged.st_ino, Some(Content::of(&staged)));
                puts.push(match host {
                    Some(host) => {
                        checks.push((slot, *host));
                        Move::Swap { slot, inode, path, new, was: Some(Content::of(host)) }
                    }
                    None => Move::Put { slot, inode, path, new },
                });
            }
            // It changed again meanwhile.
            (_, _, _, _) => return Err(changed_meanwhile(found)),
        }
    }
    // What is in a directory goes before it.
    removed_directories.reverse();
    let moves = takes.into_iter().chain(removed_directories).chain(makes).chain(puts).collect();
    Ok((moves, checks))
}

/// Directories that the host lacks, from the top; their files were chosen even if they were not.
fn make_directories<'a>(
    sides: &Sides<'_>,
    path: &'a Path,
    made: &mut BTreeSet<&'a Path>,
    moves: &mut Vec<Move>,
) -> io::Result<()> {
    let mut missing: Vec<&Path> = Vec::new();
    for above in path.ancestors().filter(|above| !above.as_os_str().is_empty()) {
        let is_there = tree::look(sides.host, above)?
            .is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        if is_there || made.contains(above) {
            break;
        }
        missing.push(above);
    }
    for directory in missing.into_iter().rev() {
        let like = tree::look(sides.cell, directory)?;
        // The question did not show its mode: other users get no write access.
        let mode = like.map_or(0o755, |stat| stat.st_mode & 0o755);
        let (uid, gid) = owner_above(sides, directory)?;
        moves.push(Move::Make { path: Bytes::of(directory), mode, uid, gid });
        made.insert(directory);
    }
    Ok(())
}

/// Whose something new is: its directory's, or that of the nearest one that is there.
fn owner_above(sides: &Sides<'_>, path: &Path) -> io::Result<(u32, u32)> {
    for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        if let Some(stat) = tree::look(sides.host, above)? {
            return Ok((stat.st_uid, stat.st_gid));
        }
    }
    let stat = fstat(sides.host)?;
    Ok((stat.st_uid, stat.st_gid))
}

fn changed_meanwhile(found: &Found) -> io::Error {
    let path = found.change.path.display();
    io::Error::other(format!("{path} changed at the same moment"))
}

/// What is staged must be what was approved, if anything was: whoever is in the cell may write again
/// after the digest was compared.
fn check_approved(found: &Found, staged: &str) -> io::Result<()> {
    match &found.approved {
        Some(approved) if approved != staged => Err(changed_meanwhile(found)),
        Some(_) | None => Ok(()),
    }
}

/// Puts what the cell has into a slot.
fn stage_one(sides: &Sides<'_>, site: &Site<'_>, slot: usize, found: &Found) -> io::Result<Stat> {
    let (above, name) = tree::parent(sides.cell, &found.change.path)?;
    let place = slot_name(slot);
    let (uid, gid) = match &found.host {
        Some(host) => (host.st_uid, host.st_gid),
        None => owner_above(sides, &found.change.path)?,
    };
    match found.kind() {
        Some(FileType::Symlink) => {
            let target = readlinkat(&above, name, Vec::new())?;
            check_approved(found, &of_link(target.as_bytes()))?;
            symlinkat(target.as_c_str(), &site.staging, &place)?;
            give(&site.staging, &place, uid, gid)?;
        }
        Some(FileType::RegularFile) => {
            let from = tree::open_file(above.as_fd(), name)?;
            let mode = from.metadata().map(|it| std::os::unix::fs::MetadataExt::mode(&it))?;
            let mut from = Digesting::new(from);
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let to = openat(&site.staging, &place, flags, Mode::from_raw_mode(0o600))?;
            let mut to = std::fs::File::from(to);
            io::copy(&mut from, &mut to)?;
            check_approved(found, &of_file(from)?)?;
            give(&site.staging, &place, uid, gid)?;
            // Of what was approved, the permissions are part.
            let approved = found.cell.as_ref().filter(|_| found.approved.is_some());
            let mode = approved.map_or(mode, |stat| stat.st_mode);
            rustix::fs::fchmod(&to, Mode::from_raw_mode(mode & 0o777))?;
        }
        Some(_) | None => return Err(changed_meanwhile(found)),
    }
    tree::look_in(&site.staging, place.as_ref())?
        .ok_or_else(|| io::Error::other("a staged file vanished"))
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

    #[test]
    fn what_was_written_after_the_approval_is_not_staged() {
        let change =
            Change { path: PathBuf::from("a"), kind: ChangeKind::Changed, directory: false };
        let found = |approved: Option<&str>| Found {
            change: change.clone(),
            host: None,
            cell: None,
            guarded: None,
            drifted: false,
            approved: approved.map(str::to_owned),
        };
        let staged = of_link(b"target");
        assert!(check_approved(&found(Some(&staged)), &staged).is_ok());
        assert!(check_approved(&found(None), &staged).is_ok(), "nothing was to be approved");
        let error = check_approved(&found(Some(&of_link(b"other"))), &staged).unwrap_err();
        assert!(error.to_string().contains("a changed at the same moment"), "{error}");
    }
}

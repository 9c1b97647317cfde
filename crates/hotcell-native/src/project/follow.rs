//! Copies the user's later changes of applied files into the cell.
//!
//! The layers of the cell hide the host's version of such a file, so it is written over the cell's.
//! That is done through the cell's own mount and as an ordinary user of the cell: whatever a program
//! there has made of its files, nothing else is reached.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use hotcell_images::Digesting;
use hotcell_jail::swap::{CellNamespaces, work_in_layer};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, fchmod, fstat,
    futimens, mkdirat, openat, readlinkat, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::agreed::{Agreement, Agreements, MOST_BYTES, Version, is_at};
use super::apply::git_directory;
use super::change_digest::of_file;
use super::drift::{Drift, open};
use super::place::{Project, TARGET};
use super::shown::Shown;
use super::stamps::{Stamp, Stamps};
use crate::order::Placed;
use crate::paths::CellPaths;
use crate::tree;

/// Files that are written at a time; each is open.
const AT_A_TIME: usize = 64;

/// Where a file of the cell is made, or goes before it is removed. Like everything of this kind of
/// name at the top of a project, it is no change of the cell.
const TEMPORARY: &str = ".hotcell-apply-follow";

/// A file that the host changed since it was agreed on.
struct Changed {
    path: PathBuf,
    agreed: Option<Version>,
    host: Option<Stat>,
    now: HostFile,
    /// The directories above it that the host does not have any more, the innermost first.
    gone: Vec<PathBuf>,
}

/// What the host has now.
enum HostFile {
    Nothing,
    File(File),
    Link(CString),
}

/// What became of a file of the cell.
#[derive(Debug, Serialize, Deserialize)]
enum Outcome {
    /// It is as the host's.
    Follows(Option<Version>),
    /// The cell has changed it.
    Differs,
    /// It could not be written.
    Failed(String),
}

/// Writes what the user changed of files that were agreed on, where the cell did not change them.
pub(crate) fn follow(
    paths: &CellPaths,
    placed: &Placed,
    namespaces: &CellNamespaces,
) -> io::Result<()> {
    let Some(project) = &placed.project else { return Ok(()) };
    let mut agreements = Agreements::load(paths)?;
    if agreements.iter().next().is_none() {
        return Ok(());
    }
    let host = open(&project.dir)?;
    let (shown, stamps) = (Shown::open(&paths.shown())?, Stamps::load(paths)?);
    let drift = Drift::load(paths, project)?;
    if drift.is_replaced(Path::new(""), &fstat(&host)?, &shown, &stamps)? {
        // Another directory has its path, which may be that of a disk that is not mounted.
        return Ok(());
    }
    let mut changed: Vec<(PathBuf, Option<Version>)> = Vec::new();
    for (path, agreement) in agreements.iter() {
        if !agreement.holds(tree::look(&host, path)?.as_ref()) {
            changed.push((path.to_owned(), agreement.version.clone()));
        }
    }
    let diverged = diverged(&agreements, &changed, placed, namespaces)?;
    changed.retain(|(path, _)| {
        let follows = git_directory(path).is_none_or(|git| !diverged.contains(git));
        if !follows {
            agreements.end(path);
        }
        follows
    });
    if !diverged.is_empty() {
        agreements.save(paths)?;
    }
    for some in changed.chunks(AT_A_TIME) {
        let mut found: Vec<Changed> = Vec::new();
        for (path, agreed) in some {
            found.extend(look_at_host(&host, project, path, agreed.as_ref())?);
        }
        let said = work_in_layer(namespaces, &placed.ids, Path::new(TARGET), |workspace| {
            let done: Vec<Outcome> = found.iter().map(|changed| give(workspace, changed)).collect();
            Ok(serde_json::to_vec(&done)?)
        });
        let said: Vec<Outcome> = serde_json::from_slice(&said.map_err(io::Error::other)?)?;
        let mut followed = Vec::new();
        for (changed, outcome) in found.iter().zip(said) {
            match outcome {
                Outcome::Follows(version) => {
                    let stamp = changed.host.as_ref().map(Stamp::of);
                    agreements.set(&changed.path, Agreement::new(stamp, version));
                    followed.push(changed.path.clone());
                }
                Outcome::Differs => agreements.end(&changed.path),
                Outcome::Failed(error) => {
                    let path = changed.path.display();
                    tracing::warn!(%error, %path, "cannot give a cell the user's version of a file");
                }
            }
        }
        // Only after the files were written: what the host has counts as known to the cell then.
        agreements.save(paths)?;
        if !followed.is_empty() {
            let mut drift = Drift::load(paths, project)?;
            drift.agree_on(&followed);
            drift.save(paths)?;
        }
    }
    Ok(())
}

/// The `.git` directories in which both sides changed files: some of the user's files among others of
/// the cell would make no sense.
fn diverged(
    agreements: &Agreements,
    changed: &[(PathBuf, Option<Version>)],
    placed: &Placed,
    namespaces: &CellNamespaces,
) -> io::Result<BTreeSet<PathBuf>> {
    let of_git = |path: &Path| git_directory(path).map(Path::to_owned);
    let changed: BTreeSet<PathBuf> = changed.iter().filter_map(|(path, _)| of_git(path)).collect();
    if changed.is_empty() {
        return Ok(changed);
    }
    let said = work_in_layer(namespaces, &placed.ids, Path::new(TARGET), |workspace| {
        let mut diverged = BTreeSet::new();
        for (path, agreement) in agreements.iter() {
            if let Some(git) = of_git(path).filter(|git| changed.contains(git))
                && !diverged.contains(&git)
                && !is_at(workspace, path, agreement.version.as_ref())?
            {
                diverged.insert(git);
            }
        }
        Ok(serde_json::to_vec(&diverged)?)
    });
    Ok(serde_json::from_slice(&said.map_err(io::Error::other)?)?)
}

/// What the host has at a path now; `None` for what a cell cannot be given.
fn look_at_host(
    host: &OwnedFd,
    project: &Project,
    path: &Path,
    agreed: Option<&Version>,
) -> io::Result<Option<Changed>> {
    let changed = |stat, now, gone| Changed {
        path: path.to_owned(),
        agreed: agreed.cloned(),
        host: stat,
        now,
        gone,
    };
    let Some(stat) = tree::look(host, path)? else {
        let mut gone = Vec::new();
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            if tree::look(host, above)?.is_none() {
                gone.push(above.to_owned());
            }
        }
        return Ok(Some(changed(None, HostFile::Nothing, gone)));
    };
    let opened = || -> io::Result<Option<(Stat, HostFile)>> {
        let (above, name) = tree::parent(host, path)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                Ok(Some((stat, HostFile::Link(readlinkat(&above, name, Vec::new())?))))
            }
            FileType::RegularFile => {
                let file = tree::open_file(&above, name)?;
                let stat = fstat(&file)?;
                let is_small = u64::try_from(stat.st_size).is_ok_and(|size| size <= MOST_BYTES);
                // What the cell may not read of the host it is not given either.
                let is_readable = project.is_owner(&stat) || stat.st_mode & 0o004 != 0;
                Ok((is_small && is_readable).then_some((stat, HostFile::File(file))))
            }
            FileType::Directory
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Ok(None),
        }
    };
    match opened() {
        Ok(opened) => Ok(opened.map(|(stat, now)| changed(Some(stat), now, Vec::new()))),
        // The file changed again, or it is not readable.
        Err(_) => Ok(None),
    }
}

/// Gives the cell the host's version of a file; in a process that is in the cell.
fn give(workspace: &OwnedFd, changed: &Changed) -> Outcome {
    match try_give(workspace, changed) {
        Ok(Some(version)) => Outcome::Follows(version),
        Ok(None) => Outcome::Differs,
        Err(error) => {
            // The next try removes what stays.
            let _ = remove_temporary(workspace);
            Outcome::Failed(error.to_string())
        }
    }
}

/// The version that the cell has now; `None` if the cell has changed it.
fn try_give(workspace: &OwnedFd, changed: &Changed) -> io::Result<Option<Option<Version>>> {
    let Changed { path, agreed, now, gone, .. } = changed;
    if !is_at(workspace, path, agreed.as_ref())? {
        return Ok(None);
    }
    remove_temporary(workspace)?;
    let version = match now {
        HostFile::Nothing => {
            if !take(workspace, path, agreed.as_ref())? {
                return Ok(None);
            }
            for directory in gone {
                let (above, name) = tree::parent(workspace, directory)?;
                match unlinkat(&above, name, AtFlags::REMOVEDIR) {
                    Ok(()) => {}
                    // The cell has more in it, or changed it too.
                    Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT | Errno::NOTDIR) => break,
                    Err(errno) => return Err(errno.into()),
                }
            }
            return Ok(Some(None));
        }
        HostFile::Link(target) => {
            let version = Version::of_link(target.as_bytes());
            if agreed.as_ref() == Some(&version) {
                return Ok(Some(Some(version)));
            }
            symlinkat(target.as_c_str(), workspace, TEMPORARY)?;
            version
        }
        HostFile::File(file) => {
            let version = read_version(file)?;
            if agreed.as_ref() == Some(&version) {
                return Ok(Some(Some(version)));
            }
            copy(file, workspace)?
        }
    };
    Ok(put(workspace, path, agreed.as_ref())?.then_some(Some(version)))
}

fn read_version(file: &File) -> io::Result<Version> {
    let stat = fstat(file)?;
    (&mut &*file).rewind()?;
    let content = Digesting::new(file.take(MOST_BYTES + 1));
    let bytes = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    Version::of_file(bytes, stat.st_mode, of_file(content)?).ok_or_else(too_large)
}

/// Makes the temporary file like one of the host.
fn copy(file: &File, workspace: &OwnedFd) -> io::Result<Version> {
    let stat = fstat(file)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let made = openat(workspace, TEMPORARY, flags, Mode::from_raw_mode(0o600))?;
    let mut made = File::from(made);
    (&mut &*file).rewind()?;
    let mut content = Digesting::new(file.take(MOST_BYTES + 1));
    let bytes = io::copy(&mut content, &mut made)?;
    let version = Version::of_file(bytes, stat.st_mode, of_file(content)?).ok_or_else(too_large)?;
    fchmod(&made, Mode::from_raw_mode(stat.st_mode & 0o777))?;
    let time = |seconds, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds.try_into().unwrap_or_default(),
    };
    let last_access = time(stat.st_atime, stat.st_atime_nsec);
    let last_modification = time(stat.st_mtime, stat.st_mtime_nsec);
    futimens(&made, &Timestamps { last_access, last_modification })?;
    Ok(version)
}

fn too_large() -> io::Error {
    io::Error::other(format!("the file is larger than {MOST_BYTES} bytes now"))
}

/// Puts the temporary file where the cell has what was agreed on; whether it still had.
fn put(workspace: &OwnedFd, path: &Path, agreed: Option<&Version>) -> io::Result<bool> {
    if agreed.is_none() {
        make_directories(workspace, path)?;
        let (above, name) = tree::parent(workspace, path)?;
        return match renameat_with(workspace, TEMPORARY, &above, name, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => remove_temporary(workspace).map(|()| false),
            Err(errno) => Err(errno.into()),
        };
    }
    let (above, name) = tree::parent(workspace, path)?;
    let exchange = || renameat_with(workspace, TEMPORARY, &above, name, RenameFlags::EXCHANGE);
    exchange()?;
    // A program may have written to it since it was looked at.
    let was_agreed = is_at(workspace, Path::new(TEMPORARY), agreed)?;
    if !was_agreed {
        exchange()?;
    }
    remove_temporary(workspace)?;
    Ok(was_agreed)
}

/// Removes what was agreed on; whether it was still there.
fn take(workspace: &OwnedFd, path: &Path, agreed: Option<&Version>) -> io::Result<bool> {
    let (above, name) = match tree::parent(workspace, path) {
        Err(error) if tree::is_absent(&error) => return Ok(true),
        found => found?,
    };
    match renameat_with(&above, name, workspace, TEMPORARY, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(agreed.is_none()),
        Err(errno) => return Err(errno.into()),
    }
    if is_at(workspace, Path::new(TEMPORARY), agreed)? {
        return remove_temporary(workspace).map(|()| true);
    }
    renameat_with(workspace, TEMPORARY, &above, name, RenameFlags::NOREPLACE)?;
    Ok(false)
}

/// Makes the directories above a path that the cell removed.
fn make_directories(workspace: &OwnedFd, path: &Path) -> io::Result<()> {
    let mut missing: Vec<&Path> = Vec::new();
    for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        if tree::look(workspace, above)?.is_some() {
            break;
        }
        missing.push(above);
    }
    for directory in missing.into_iter().rev() {
        let (above, name) = tree::parent(workspace, directory)?;
        match mkdirat(&above, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn remove_temporary(workspace: &OwnedFd) -> io::Result<()> {
    match unlinkat(workspace, TEMPORARY, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

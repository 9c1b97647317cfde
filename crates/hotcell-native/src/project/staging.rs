//! Puts the cell's version of each changed file beside the real ones, to be exchanged with them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use hotcell_images::Digesting;
use hotcell_keeper::is_awaited;
use hotcell_model::ChangeKind;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, symlinkat};

use super::agreed::Version;
use super::change_digest::{of_file, of_link};
use super::changes::{Found, Sides};
use super::journal::{Bytes, Content, Move, Site, give, slot_name};
use crate::tree;

/// Files with the version that was staged; `None` for what is to be removed.
pub(super) type Versions = Vec<(Bytes, Option<Version>)>;

/// What is in the staging directory.
pub(super) struct Staging {
    /// What is to be done with it.
    pub(super) moves: Vec<Move>,
    /// What of the host is to be found in which slot afterwards.
    pub(super) checks: Vec<(usize, Stat)>,
    pub(super) versions: Versions,
}

/// Puts everything new into the staging directory, and says what is to be done with it, and what
/// comes there in its place.
pub(super) fn stage(sides: &Sides<'_>, site: &Site<'_>, chosen: &[Found]) -> io::Result<Staging> {
    let mut removed_directories = Vec::new();
    let (mut takes, mut makes, mut puts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut checks, mut versions) = (Vec::new(), Versions::new());
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
                versions.push((Bytes::of(&found.change.path), None));
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
                let (staged, version) = stage_one(sides, site, slot, found)?;
                versions.extend(version.map(|it| (Bytes::of(&found.change.path), Some(it))));
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
    Ok(Staging { moves, checks, versions })
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

/// Copies a file without writing what is nothing but zeros, for as long as somebody waits for it.
fn copy(from: &mut impl Read, to: &mut File) -> io::Result<u64> {
    let mut piece = vec![0; 256 << 10];
    let mut bytes: u64 = 0;
    loop {
        check_awaited()?;
        let length = match from.read(&mut piece) {
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            length => length?,
        };
        if piece[..length].iter().any(|byte| *byte != 0) {
            to.write_all_at(&piece[..length], bytes)?;
        }
        bytes += length as u64;
    }
    to.set_len(bytes)?;
    Ok(bytes)
}

/// Fails if the client that asked for the apply has gone.
pub(super) fn check_awaited() -> io::Result<()> {
    if is_awaited() {
        Ok(())
    } else {
        Err(io::Error::other("the client that asked for the apply has gone"))
    }
}

/// Puts what the cell has into a slot. It has no version if it is too large to be compared again.
fn stage_one(
    sides: &Sides<'_>,
    site: &Site<'_>,
    slot: usize,
    found: &Found,
) -> io::Result<(Stat, Option<Version>)> {
    let (above, name) = tree::parent(sides.cell, &found.change.path)?;
    let place = slot_name(slot);
    let (uid, gid) = match &found.host {
        Some(host) => (host.st_uid, host.st_gid),
        None => owner_above(sides, &found.change.path)?,
    };
    let version = match found.kind() {
        Some(FileType::Symlink) => {
            let target = readlinkat(&above, name, Vec::new())?;
            check_approved(found, &of_link(target.as_bytes()))?;
            symlinkat(target.as_c_str(), &site.staging, &place)?;
            give(&site.staging, &place, uid, gid)?;
            Some(Version::of_link(target.as_bytes()))
        }
        Some(FileType::RegularFile) => {
            let from = tree::open_file(above.as_fd(), name)?;
            let mode = from.metadata().map(|it| std::os::unix::fs::MetadataExt::mode(&it))?;
            let mut from = Digesting::new(from);
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let to = openat(&site.staging, &place, flags, Mode::from_raw_mode(0o600))?;
            let mut to = File::from(to);
            let bytes = copy(&mut from, &mut to)?;
            let digest = of_file(from)?;
            check_approved(found, &digest)?;
            give(&site.staging, &place, uid, gid)?;
            // Of what was approved, the permissions are part.
            let approved = found.cell.as_ref().filter(|_| found.approved.is_some());
            let mode = approved.map_or(mode, |stat| stat.st_mode);
            rustix::fs::fchmod(&to, Mode::from_raw_mode(mode & 0o777))?;
            Version::of_file(bytes, mode, digest)
        }
        Some(_) | None => return Err(changed_meanwhile(found)),
    };
    let staged = tree::look_in(&site.staging, place.as_ref())?
        .ok_or_else(|| io::Error::other("a staged file vanished"))?;
    Ok((staged, version))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::PathBuf;

    use super::*;
    use crate::compare::Change;

    #[test]
    fn zeros_take_no_room() {
        let mut content = vec![0; 3 << 20];
        content[1 << 20] = 1;
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(copy(&mut content.as_slice(), &mut file).unwrap(), 3 << 20);
        let mut copied = vec![1; content.len()];
        file.read_exact_at(&mut copied, 0).unwrap();
        assert_eq!(copied, content);
        let stat = file.metadata().unwrap();
        assert!(stat.len() == 3 << 20 && stat.blocks() * 512 < 1 << 20, "{}", stat.blocks());
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

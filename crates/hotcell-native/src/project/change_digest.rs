//! The digest of a set of changes: an approval is bound to it, so that nothing is applied that was
//! not shown.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use hotcell_images::{Digesting, digest_of};
use hotcell_model::Error;
use rustix::fs::{FileType, readlinkat};

use super::changes::{Found, Sides};
use crate::tree;

/// A digest of these changes: their paths and kinds, the content and permissions that the cell has,
/// and whether they are guarded or in conflict. Each change keeps that of its content.
pub(super) fn digest_of_changes(sides: &Sides<'_>, found: &mut [Found]) -> io::Result<String> {
    let mut records = Vec::new();
    for found in found {
        found.approved = content(sides, found)?;
        let path = found.change.path.as_os_str().as_bytes();
        let mode = found.cell.as_ref().map(|stat| stat.st_mode & 0o777);
        let record = (
            path,
            found.change.kind,
            found.change.directory,
            found.guarded,
            found.drifted,
            mode,
            &found.approved,
        );
        records.extend(serde_json::to_vec(&record)?);
        records.push(b'\n');
    }
    Ok(digest_of(&records).to_string())
}

/// What the cell has at the path of a change.
fn content(sides: &Sides<'_>, found: &Found) -> io::Result<Option<String>> {
    let (Some(kind), Some(stat)) = (found.kind(), &found.cell) else { return Ok(None) };
    if kind == FileType::Directory {
        return Ok(None);
    }
    let (above, name) = tree::parent(sides.cell, &found.change.path)?;
    if kind == FileType::Symlink {
        let target = readlinkat(&above, name, Vec::new())?;
        return Ok(Some(of_link(target.as_bytes())));
    }
    if kind == FileType::RegularFile
        && let Ok(file) = tree::open_file(&above, name)
    {
        return Ok(Some(of_file(Digesting::new(file))?));
    }
    // It cannot be read, so it cannot be applied either; it still counts as a change.
    Ok(Some(format!("other {} {} {}", stat.st_ino, stat.st_ctime, stat.st_ctime_nsec)))
}

/// The digest of a symbolic link.
pub(super) fn of_link(target: &[u8]) -> String {
    format!("link {}", digest_of(target))
}

/// The digest of a file's content.
pub(super) fn of_file(content: Digesting<impl Read>) -> io::Result<String> {
    Ok(format!("file {}", content.finish()?))
}

/// Whether the changes are those that were approved; true if no digest is expected.
pub(super) fn is_expected(
    sides: &Sides<'_>,
    found: &mut [Found],
    expected: Option<&str>,
) -> io::Result<bool> {
    match expected {
        Some(expected) => Ok(digest_of_changes(sides, found)? == expected),
        None => Ok(true),
    }
}

/// The error if they are not.
pub(super) fn not_expected() -> Error {
    Error::conflict("the changes differ from those that were approved; nothing was done")
        .hint("repeat the call: the approval is requested again for the changes as they are now")
}

//! The copy of this program from which supervisors run, so that an upgrade or a rebuild of the
//! original changes nothing for cells that are alive.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The copy of `program` below `directory`; made if it is not there yet.
pub(crate) fn copy_of(program: &Path, directory: &Path) -> io::Result<PathBuf> {
    let source = fs::metadata(program)?;
    // One version of one file: rebuilt, it has another inode or another time.
    let name = format!(
        "hotcell-{}-{:x}-{:x}-{:x}",
        env!("CARGO_PKG_VERSION"),
        source.ino(),
        source.mtime(),
        source.mtime_nsec()
    );
    let copy = directory.join(name);
    if copy.exists() {
        return Ok(copy);
    }
    fs::create_dir_all(directory)?;
    let temporary = copy.with_extension(format!("new-{}", std::process::id()));
    fs::copy(program, &temporary)?;
    // Not writable by anybody, and not readable either: what runs from it cannot be inspected.
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o511))?;
    fs::rename(&temporary, &copy)?;
    remove_unused(directory, &copy);
    Ok(copy)
}

/// Removes copies made a day or more before this one: no start can be under way with them, and a
/// supervisor that runs from one keeps its inode.
fn remove_unused(directory: &Path, newest: &Path) {
    const DAY_S: i64 = 24 * 3600;
    let Ok(entries) = fs::read_dir(directory) else { return };
    let Ok(made) = fs::metadata(newest).map(|metadata| metadata.ctime()) else { return };
    for entry in entries.flatten() {
        let old = entry.metadata().is_ok_and(|metadata| metadata.ctime() < made - DAY_S);
        if old && entry.path() != newest {
            // Another process may have removed it already.
            let _ = fs::remove_file(entry.path());
        }
    }
}

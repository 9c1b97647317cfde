//! The copy of this program from which keepers and supervisors run, so that an upgrade or a rebuild
//! of the original changes nothing for cells that are alive.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Not writable by anybody, and not readable either: what runs from it cannot be inspected.
const UNREADABLE: u32 = 0o511;
/// What this process runs from, also if nothing leads to it any more.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The copy of `program` below `directory`; made if it is not there yet.
///
/// # Errors
/// It cannot be written.
pub fn copy_of(program: &Path, directory: &Path) -> io::Result<PathBuf> {
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
    // Two threads would write the same file.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if copy.exists() {
        return Ok(copy);
    }
    fs::create_dir_all(directory)?;
    let temporary = copy.with_extension(format!("new-{}", std::process::id()));
    fs::copy(program, &temporary)?;
    fs::set_permissions(&temporary, fs::Permissions::from_mode(UNREADABLE))?;
    match renameat_with(CWD, &temporary, CWD, &copy, RenameFlags::NOREPLACE) {
        // Another process was quicker, and may have started a keeper that finds its own program there.
        Err(Errno::EXIST) => fs::remove_file(&temporary)?,
        // A file system that cannot tell.
        Err(Errno::INVAL) => fs::rename(&temporary, &copy)?,
        renamed => renamed?,
    }
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

/// Makes `directory` have the program of this process under a name, and nothing else. It is there for
/// as long as the directory is, whatever becomes of the copy that this process runs from.
///
/// # Errors
/// It cannot be put there.
pub fn show_own_program(directory: &Path, name: &str) -> io::Result<()> {
    let own = std::env::current_exe()?;
    let shown = directory.join(name);
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    if let Err(error) = fs::remove_file(&shown)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    if fs::hard_link(own, &shown).is_err() {
        // On another file system, in another project of the same, or no longer there.
        fs::copy(OWN_PROGRAM, &shown)?;
        fs::set_permissions(&shown, fs::Permissions::from_mode(UNREADABLE))?;
    }
    Ok(())
}

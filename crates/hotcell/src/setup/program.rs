//! Finds the path by which this program can be started again.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hotcell_model::{Error, Result};

/// The absolute path of this program: the one by which it was started where that leads to it,
/// because a link of that name is what an update leaves in place.
///
/// # Errors
/// `unsupported` when the program cannot be found, `invalid` when its path is not text.
pub(crate) fn own_program(started_as: Option<&OsStr>, search: Option<&OsStr>) -> Result<String> {
    let real = std::env::current_exe().map_err(|error| {
        Error::unsupported(format!("cannot find the program file of hotcell: {error}"))
            .hint("mount a proc file system at /proc")
    })?;
    let stable = started_as.and_then(|name| find(Path::new(name), search));
    let path = stable.filter(|path| is_same(path, &real)).unwrap_or(real);
    path.into_os_string().into_string().map_err(|path| {
        Error::invalid(format!("the path of hotcell is {path:?}, which is not UTF-8"))
            .hint("move the program to another place")
    })
}

fn find(name: &Path, search: Option<&OsStr>) -> Option<PathBuf> {
    if name.components().count() > 1 || name.is_absolute() {
        return std::path::absolute(name).ok();
    }
    let found = std::env::split_paths(search?).map(|dir| dir.join(name)).find(|it| it.is_file())?;
    std::path::absolute(found).ok()
}

fn is_same(one: &Path, other: &Path) -> bool {
    let identity =
        |path: &Path| std::fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
    identity(one).is_some() && identity(one) == identity(other)
}

//! The name of the cell that belongs to a directory.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hotcell_model::{Alias, stable_hash};

/// Characters of the directory's own name that are kept.
const NAME_LENGTH: usize = 40;

/// The default cell of whoever works in this directory: its name, and what tells it from others of
/// that name.
pub(crate) fn of_directory(directory: &Path) -> Option<Alias> {
    let name = directory.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' })
        .skip_while(|c| !c.is_ascii_alphanumeric())
        .take(NAME_LENGTH)
        .collect();
    let plain = if plain.is_empty() { "dir" } else { &plain };
    format!("{plain}-{:08x}", fold(stable_hash(directory.as_os_str().as_bytes()))).parse().ok()
}

/// The cell of a project, by whatever path it is meant.
pub(crate) fn of_project(directory: &Path) -> Option<Alias> {
    of_directory(&std::fs::canonicalize(directory).ok()?)
}

/// Another one of the same project, told from it by its ending.
pub(crate) fn of_project_ending(directory: &Path, ending: &str) -> Option<Alias> {
    format!("{}{ending}", of_project(directory)?).parse().ok()
}

/// The names of the cell that works on a project, the preferred one first. The second is for a
/// directory whose default cell was made earlier, without the project in it.
pub(crate) fn names_of_project(directory: &Path, ending: &str) -> Vec<Alias> {
    let second = format!("{ending}-project");
    [ending, &second].into_iter().filter_map(|it| of_project_ending(directory, it)).collect()
}

/// The cell without the user's files, for a directory whose default cell has them.
pub(crate) fn empty_cell_beside(cell: &Alias) -> Option<Alias> {
    format!("{cell}-empty").parse().ok()
}

/// Enough of it for a name.
fn fold(hash: u64) -> u32 {
    ((hash >> 32) ^ (hash & 0xffff_ffff)) as u32
}

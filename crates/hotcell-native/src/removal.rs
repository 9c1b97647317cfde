//! Removing a cell's files, whoever owns them.

use std::fs;
use std::io;
use std::path::Path;

use hotcell_jail::StepError;
use hotcell_jail::namespace_work::{Namespace, work_in};
use hotcell_jail::ids::IdLayout;

/// Removes a directory tree; what is not there is removed already.
pub(crate) fn remove_files(directory: &Path, ids: &IdLayout) -> Result<(), StepError> {
    let namespace = match ids {
        IdLayout::Private { .. } => Namespace::Own,
        IdLayout::Subordinate { .. } | IdLayout::Single { .. } => Namespace::New(ids),
    };
    work_in(namespace, || remove_tree(directory).map(|()| 0)).map(drop)
}

fn remove_tree(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

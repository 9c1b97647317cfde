//! That a cell may have a supervisor somewhere else, or records that are not all here.

use std::fs;
use std::io;

use hotcell_place::{read_json, write_json};
use serde::{Deserialize, Serialize};

use crate::paths::CellPaths;

/// Written before a supervisor is started, and removed when it is over and all of its records are here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begun {
    /// Whether its outpost has a network to carry connections to.
    pub(crate) carries: bool,
    /// The directory of its tools on this side, and what the state that it sees is called.
    pub(crate) tools: Option<(std::path::PathBuf, String)>,
}

impl Begun {
    pub(crate) fn find(paths: &CellPaths) -> io::Result<Option<Self>> {
        read_json(&path(paths))
    }

    pub(crate) fn note(&self, paths: &CellPaths) -> io::Result<()> {
        write_json(&path(paths), self)
    }

    pub(crate) fn forget(paths: &CellPaths) -> io::Result<()> {
        match fs::remove_file(path(paths)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

fn path(paths: &CellPaths) -> std::path::PathBuf {
    paths.root().join("begun.json")
}

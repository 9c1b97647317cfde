//! That a cell may have a supervisor somewhere else, or records that are not all here.

use std::fs::File;
use std::io;

use hotcell_place::{read_json, remove_if_there, save_json};
use serde::{Deserialize, Serialize};

use crate::paths::CellPaths;

/// Written before a supervisor is started, and removed when it is over and all of its records are here.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Begun {
    /// Whether its outpost has a network to carry connections to.
    pub(crate) carries: bool,
    /// The directory of its tools on this side, and what the state that it sees is called.
    pub(crate) tools: Option<(std::path::PathBuf, String)>,
}

impl Begun {
    pub(crate) fn find(paths: &CellPaths) -> io::Result<Option<Self>> {
        match read_json(&path(paths)) {
            // Of a machine that lost power: what it said is lost, and that it was begun is not.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
                ) =>
            {
                Ok(Some(Self::default()))
            }
            found => found,
        }
    }

    pub(crate) fn note(&self, paths: &CellPaths) -> io::Result<()> {
        save_json(&path(paths), self)?;
        // The cell goes on whatever becomes of this machine.
        File::open(path(paths))?.sync_all()?;
        File::open(paths.root())?.sync_all()
    }

    pub(crate) fn forget(paths: &CellPaths) -> io::Result<()> {
        remove_if_there(&path(paths))
    }
}

fn path(paths: &CellPaths) -> std::path::PathBuf {
    paths.root().join("begun.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_loss_of_power_left_of_it_still_says_that_it_was_begun() {
        let place = tempfile::tempdir().expect("a directory");
        let paths = CellPaths::at(place.path().to_owned());
        assert_eq!(Begun::find(&paths).expect("looked"), None);
        for left in ["", "{\"carr", "null\u{0}"] {
            std::fs::write(path(&paths), left).expect("written");
            let found = Begun::find(&paths).expect("looked");
            assert_eq!(found, Some(Begun::default()), "{left:?}");
        }
        Begun::forget(&paths).expect("removed");
        Begun::forget(&paths).expect("it is gone already");
        assert_eq!(Begun::find(&paths).expect("looked"), None);
    }
}

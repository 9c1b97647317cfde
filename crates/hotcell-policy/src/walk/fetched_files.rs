//! Files that commands took from the network.

use std::collections::HashSet;

use crate::steps;

/// Their paths, so that one is found in one step.
#[derive(Debug, Default)]
pub(super) struct FetchedFiles {
    paths: HashSet<String>,
    /// Without `./` before them, and the names of those in directories.
    names: HashSet<String>,
}

impl FetchedFiles {
    pub(super) fn add(&mut self, path: &str) {
        steps::count(path.len());
        self.paths.insert(path.to_owned());
        self.names.insert(plain(path).to_owned());
        if let Some((_, file)) = path.rsplit_once('/') {
            self.names.insert(file.to_owned());
        }
    }

    /// Whether it is one of them as it was written.
    pub(super) fn has_path(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Whether it may be one of them, of whichever directory.
    pub(super) fn has(&self, path: &str) -> bool {
        steps::count(path.len());
        self.names.contains(plain(path))
    }
}

fn plain(path: &str) -> &str {
    path.trim_start_matches("./")
}

//! Whether and where what a cell has written can be measured: an engine does not bound volumes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hotcell_model::{Error, Result};
use hotcell_place::write_json;
use rustix::process::geteuid;

use crate::docker_host::DockerHost;
use crate::paths::CellPaths;

/// Whether this process may look at the volumes of an engine.
pub(crate) fn can_measure(host: &DockerHost) -> bool {
    let root = host.info.docker_root_dir.as_deref().map(Path::new);
    geteuid().is_root()
        && !host.secures_by("rootless")
        && root.is_some_and(|root| fs::read_dir(root.join("volumes")).is_ok())
}

/// Writes down which directories of this machine a cell writes to, where they can be measured. A cell
/// whose limit holds at other times is not started without it.
pub(crate) fn note(host: &DockerHost, paths: &CellPaths, volumes: &[PathBuf]) -> Result<()> {
    let failed = |error: &io::Error| {
        Error::unavailable(format!("cannot write {}: {error}", paths.measured().display()))
    };
    if !can_measure(host) {
        return match fs::remove_file(paths.measured()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&error)),
            Ok(()) | Err(_) => Ok(()),
        };
    }
    for directory in volumes {
        if let Err(error) = fs::read_dir(directory) {
            return Err(Error::unavailable(format!(
                "what the cell writes to at the Docker engine cannot be measured in {}: {error}",
                directory.display()
            ))
            .hint("is the engine in another container or machine? use one of this machine"));
        }
    }
    write_json(&paths.measured(), &volumes).map_err(|error| failed(&error))
}

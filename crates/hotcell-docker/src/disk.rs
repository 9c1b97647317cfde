//! Whether and where what a cell has written can be measured: an engine does not bound volumes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hotcell_model::{Error, Result};
use hotcell_place::write_json;
use rustix::process::geteuid;

use crate::docker_host::DockerHost;
use crate::paths::CellPaths;

/// Whether what cells write is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measured {
    Yes,
    No,
}

/// Whether this process may look at the volumes of an engine.
///
/// # Errors
/// That cannot be told now.
pub(crate) fn measures(host: &DockerHost) -> Result<Measured> {
    if host.settings().address.is_remote() {
        // By what is beside each cell there.
        return Ok(Measured::Yes);
    }
    let root = host.info.docker_root_dir.as_deref().map(Path::new);
    let is_here = !host.settings().address.is_remote() && !host.secures_by("rootless");
    let Some(root) = root.filter(|_| geteuid().is_root() && is_here) else {
        return Ok(Measured::No);
    };
    let volumes = root.join("volumes");
    match fs::read_dir(&volumes) {
        Ok(_) => Ok(Measured::Yes),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(Measured::No)
        }
        Err(error) => Err(Error::unavailable(format!(
            "whether volumes can be measured in {} cannot be told: {error}",
            volumes.display()
        ))),
    }
}

/// Writes down which directories of this machine a cell writes to, where they can be measured. A cell
/// that was measured before is not started without it.
pub(crate) fn note(host: &DockerHost, paths: &CellPaths, volumes: &[PathBuf]) -> Result<Measured> {
    let failed = |error: &io::Error| {
        Error::unavailable(format!("cannot write {}: {error}", paths.measured().display()))
    };
    match measures(host)? {
        Measured::No if paths.measured().exists() => {
            return Err(Error::unavailable(
                "the volumes of the cell were measured before, and cannot be any more",
            )
            .hint("run hotcell as root, where the data of the Docker engine can be seen"));
        }
        Measured::No => return Ok(Measured::No),
        Measured::Yes => {}
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
    write_json(&paths.measured(), &volumes).map_err(|error| failed(&error))?;
    Ok(Measured::Yes)
}

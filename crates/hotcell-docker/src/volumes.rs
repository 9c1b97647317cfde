//! What a cell keeps: volumes of the engine.

use std::path::PathBuf;

use bollard::models::{Mount, MountType, MountVolumeOptions, VolumeCreateRequest};
use bollard::query_parameters::RemoveVolumeOptions;
use hotcell_model::{CellId, Error, Result};

use crate::docker_host::DockerHost;
use crate::failure::{NOT_FOUND, status};
use crate::labels;
use crate::remote::BESIDE;
use crate::removal::{Patience, Tried};

/// A volume of a cell: what it is for, and where it is seen.
pub(crate) const VOLUMES: [(&str, &str); 2] = [("workspace", "/workspace"), ("home", "/home/cell")];

/// What those volumes are for.
pub(crate) const PURPOSES: [&str; 2] = [VOLUMES[0].0, VOLUMES[1].0];

pub(crate) fn name(cell: &CellId, purpose: &str) -> String {
    format!("hotcell-{cell}-{purpose}")
}

/// The volumes of a cell, each to be seen at a path.
pub(crate) fn mounts(cell: &CellId, at: impl Fn(&str, &str) -> String) -> Vec<Mount> {
    VOLUMES
        .iter()
        .map(|(purpose, target)| Mount {
            target: Some(at(purpose, target)),
            source: Some(name(cell, purpose)),
            typ: Some(MountType::VOLUME),
            // What an image has there is not the cell's, and neither is its owner.
            volume_options: Some(MountVolumeOptions {
                no_copy: Some(true),
                ..MountVolumeOptions::default()
            }),
            ..Mount::default()
        })
        .collect()
}

/// Makes volumes of a cell; those that are there stay.
pub(crate) async fn make(
    host: &DockerHost,
    cell: &CellId,
    state: &str,
    purposes: &[&str],
) -> Result<()> {
    for purpose in purposes {
        let request = VolumeCreateRequest {
            name: Some(name(cell, purpose)),
            labels: Some(labels::of_cell(cell, state)),
            ..VolumeCreateRequest::default()
        };
        let made = host.docker.create_volume(request).await;
        made.map_err(|error| host.failed("make a volume", &error))?;
    }
    Ok(())
}

/// Where what a cell keeps lies on the engine's machine. What is not there is an error: an engine
/// would make new volumes, with nothing in them.
pub(crate) async fn find(host: &DockerHost, cell: &CellId) -> Result<Vec<PathBuf>> {
    let mut places = Vec::new();
    for (purpose, _) in VOLUMES {
        places.push(mountpoint(host, cell, purpose).await?);
    }
    Ok(places)
}

/// Whether some of what a cell at another machine keeps is gone.
pub(crate) async fn are_gone(host: &DockerHost, cell: &CellId) -> Result<bool> {
    for purpose in PURPOSES.into_iter().chain(BESIDE) {
        match host.docker.inspect_volume(&name(cell, purpose)).await {
            Ok(_) => {}
            Err(error) if status(&error) == Some(NOT_FOUND) => return Ok(true),
            Err(error) => return Err(host.failed("look at a volume", &error)),
        }
    }
    Ok(false)
}

/// Whether all of what a cell at another machine keeps is there: an engine would make what is missing,
/// with nothing in it.
pub(crate) async fn check_all(host: &DockerHost, cell: &CellId) -> Result<()> {
    for purpose in PURPOSES.into_iter().chain(BESIDE) {
        mountpoint(host, cell, purpose).await?;
    }
    Ok(())
}

/// Where a volume of a cell lies on the engine's machine.
pub(crate) async fn mountpoint(host: &DockerHost, cell: &CellId, purpose: &str) -> Result<PathBuf> {
    let name = name(cell, purpose);
    match host.docker.inspect_volume(&name).await {
        Ok(found) => Ok(found.mountpoint.into()),
        Err(error) if status(&error) == Some(NOT_FOUND) => Err(Error::unavailable(format!(
            "the volume {name} of the cell is gone, and its files with it"
        ))
        .hint("somebody removed it; kill the cell and make another")),
        Err(error) => Err(host.failed("look at a volume", &error)),
    }
}

/// Removes the volumes of a cell that has no container.
pub(crate) async fn remove(host: &DockerHost, cell: &CellId) -> Result<()> {
    for purpose in PURPOSES.into_iter().chain(BESIDE) {
        let name = name(cell, purpose);
        let patience = Patience::begin();
        loop {
            let tried = host.docker.remove_volume(&name, None::<RemoveVolumeOptions>).await;
            match patience.judge(tried).await {
                Tried::Gone => break,
                Tried::Again => {}
                Tried::Failed(error) => {
                    return Err(host.failed(&format!("remove the volume {name}"), &error));
                }
            }
        }
    }
    Ok(())
}

//! The program at an engine of another machine: a volume for each version, which all cells share.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use bollard::models::{
    ContainerCreateBody, HostConfig, Mount, MountType, Volume, VolumeCreateRequest,
};
use bollard::query_parameters::{
    ContainerArchiveInfoOptionsBuilder, CreateContainerOptionsBuilder, ListVolumesOptionsBuilder,
    RemoveVolumeOptions,
};
use hotcell_keeper::{LockWait, lock_in};
use hotcell_model::{CellId, Error, Result};
use hotcell_place::{read_json, write_json};
use serde::{Deserialize, Serialize};

use super::outpost_container::OutpostPlace;
use super::upload::send_file;
use crate::docker_host::DockerHost;
use crate::driver::at;
use crate::failure::{CONFLICT, NOT_FOUND, status};
use crate::labels;
use crate::paths::CellPaths;
use crate::remains::cells_at;
use crate::removal::remove_container;

/// What the program is called in its volume.
const FILE: &str = "hotcell";
/// Where the volume is seen by the container that is made to fill it.
const FILLED_AT: &str = "/hotcell-program";
/// Not to be read by cells: what runs from it cannot be inspected.
const MODE: u32 = 0o511;

/// The name of the container that is never started, by which a cell fills the volume.
pub(crate) fn name(cell: &CellId) -> String {
    format!("hotcell-{cell}-program")
}

/// Where the program is on the engine's machine; it is copied there if it is not yet, by a container of
/// an image that the engine has.
pub(super) async fn ensure(
    host: &DockerHost,
    paths: &CellPaths,
    place: OutpostPlace<'_>,
    image: &str,
) -> Result<PathBuf> {
    let failed = |error: io::Error| at("copy the program for", paths, &error);
    let version = place.program.file_name().unwrap_or_default().to_string_lossy();
    let volume = format!("{version}-{}", place.state);
    let file = File::open(place.program).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    // Beside the copies, which are tidied up: that of the driver.
    let programs = place.program.parent().unwrap_or(Path::new("/"));
    let own = programs.parent().unwrap_or(programs).to_owned();
    let noted = own.join(format!("filled-{}.json", host.name()));
    // Whoever fills it is alone; the others find it full.
    let lock = format!("filling-{}.lock", host.name());
    let locking = move || lock_in(&own, &lock, LockWait::Wait);
    let _lock = tokio::task::spawn_blocking(locking)
        .await
        .map_err(|error| Error::internal(format!("waiting for a lock failed: {error}")))?
        .map_err(failed)?;
    let (mountpoint, made_at) = make(host, &volume, place.state).await?;
    // A volume that was made since has another time.
    let full = Filled { engine: host.id().to_owned(), volume: volume.clone(), made_at, size };
    let mut filled: Vec<Filled> = read_json(&noted).unwrap_or_default().unwrap_or_default();
    if full.made_at.is_some() && filled.contains(&full) {
        return Ok(mountpoint.join(FILE));
    }
    let container = name(&place.placed.spec.id);
    remove_container(host, &container).await?;
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: Some(vec!["/never".to_owned()]),
        labels: Some(labels::of_cell(&place.placed.spec.id, place.state)),
        network_disabled: Some(true),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            mounts: Some(vec![Mount {
                target: Some(FILLED_AT.to_owned()),
                source: Some(volume.clone()),
                typ: Some(MountType::VOLUME),
                ..Mount::default()
            }]),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let options = CreateContainerOptionsBuilder::default().name(&container).build();
    let made = host.docker.create_container(Some(options), body).await;
    made.map_err(|error| host.failed("make a container", &error))?;
    let came = fill(host, &container, file, size).await;
    remove_container(host, &container).await?;
    came?;
    filled.retain(|other| other.volume != full.volume);
    filled.push(full);
    write_json(&noted, &filled).map_err(failed)?;
    Ok(mountpoint.join(FILE))
}

/// A volume that the program was copied to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Filled {
    engine: String,
    volume: String,
    made_at: Option<String>,
    size: u64,
}

/// Makes the volume if there is none; where it lies on the engine's machine, and since when.
async fn make(host: &DockerHost, volume: &str, state: &str) -> Result<(PathBuf, Option<String>)> {
    let request = VolumeCreateRequest {
        name: Some(volume.to_owned()),
        labels: Some(labels::of_program(state)),
        ..VolumeCreateRequest::default()
    };
    let made = host.docker.create_volume(request).await;
    let made = made.map_err(|error| host.failed("make a volume", &error))?;
    Ok((made.mountpoint.into(), made.created_at.map(|at| at.to_string())))
}

/// Copies the program, unless it is there.
async fn fill(host: &DockerHost, container: &str, file: File, size: u64) -> Result<()> {
    match size_at(host, container).await? == Some(size) {
        true => Ok(()),
        false => send_file(host, container, (FILLED_AT, FILE), file, MODE).await,
    }
}

/// How large what is in the volume is; a copy that broke off is shorter.
async fn size_at(host: &DockerHost, container: &str) -> Result<Option<u64>> {
    let path = format!("{FILLED_AT}/{FILE}");
    let options = ContainerArchiveInfoOptionsBuilder::default().path(&path).build();
    match host.docker.get_container_archive_info(container, Some(options)).await {
        Ok(found) => Ok(u64::try_from(found.size).ok()),
        Err(error) if status(&error) == Some(NOT_FOUND) => Ok(None),
        Err(error) => Err(host.failed("look at the program for cells", &error)),
    }
}

/// Removes the program of this state directory from an engine that has no cell of it, or tells how many
/// versions of it there are.
pub(crate) async fn collect(host: &DockerHost, state: &str, dry_run: bool) -> Result<u64> {
    let ours = HashMap::from([("label".to_owned(), vec![format!("{}={state}", labels::PROGRAM)])]);
    let options = ListVolumesOptionsBuilder::default().filters(&ours).build();
    let found = host.docker.list_volumes(Some(options)).await;
    let found = found.map_err(|error| host.failed("list its volumes", &error))?;
    let is_ours =
        |volume: &Volume| volume.labels.get(labels::PROGRAM).is_some_and(|it| it == state);
    let volumes: Vec<Volume> = found.volumes.into_iter().flatten().filter(is_ours).collect();
    if volumes.is_empty() || !cells_at(host, state).await?.is_empty() {
        return Ok(0);
    }
    let mut count = 0;
    for volume in volumes {
        if dry_run {
            count += 1;
            continue;
        }
        let removed = host.docker.remove_volume(&volume.name, None::<RemoveVolumeOptions>).await;
        match removed {
            Ok(()) => count += 1,
            // Somebody begins a cell just now.
            Err(error) if matches!(status(&error), Some(NOT_FOUND | CONFLICT)) => {}
            Err(error) => return Err(host.failed("remove a volume", &error)),
        }
    }
    Ok(count)
}

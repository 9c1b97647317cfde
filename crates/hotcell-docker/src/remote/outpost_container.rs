//! The container beside a cell of another machine, described for its engine.

use std::collections::HashMap;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountType,
    MountVolumeOptions,
};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectNetworkOptions, ListImagesOptions, StartContainerOptions,
};
use hotcell_egress::EgressSettings;
use hotcell_link::CONTAINER_PROGRAM;
use hotcell_model::{CellId, Result};

use super::outpost::BIRTH;
use super::program_volume;
use super::upload::Bundle;
use super::{KEEPS, OWN, PLACE, PLACE_VOLUME, RECORDS, RECORDS_VOLUME};
use crate::docker_host::DockerHost;
use crate::failure::{NOT_FOUND, status};
use crate::isolation::enforced;
use crate::labels;
use crate::paths::{CellPaths, Placed};
use crate::removal::remove_container;
use crate::volumes::{self, PURPOSES};

const OWN_OPTIONS: &str = "rw,nosuid,nodev,noexec,mode=700,size=65536,nr_inodes=16";
/// What it may use: a keeper, a carrier and some ends of relays.
const MEMORY_BYTES: i64 = 512 << 20;
const PIDS: i64 = 256;
/// What a keeper needs that is root in its container: it gives the records to the cell's user, reads
/// and counts whatever the cell has on disk, and starts and ends a carrier that is somebody else.
const CAPABILITIES: [&str; 6] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"];

/// A cell that an outpost is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutpostPlace<'a> {
    pub(crate) placed: &'a Placed,
    /// What the state directory is called by at engines.
    pub(crate) state: &'a str,
    /// The program on this side.
    pub(crate) program: &'a Path,
    pub(crate) egress: &'a EgressSettings,
    pub(crate) runtime: Option<&'a str>,
}

/// The name of the container.
pub(crate) fn name(cell: &CellId) -> String {
    format!("hotcell-{cell}-outpost")
}

/// Whether an engine has a network that outposts can carry connections to.
pub(super) async fn can_carry(host: &DockerHost) -> Result<bool> {
    match host.docker.inspect_network(&host.settings().network, None::<InspectNetworkOptions>).await
    {
        Ok(_) => Ok(true),
        Err(error) if status(&error) == Some(NOT_FOUND) => Ok(false),
        Err(error) => Err(host.failed("look at its networks", &error)),
    }
}

/// Makes and starts one: to begin a cell with what is given, or else to go on with what is there.
pub(crate) async fn begin(
    host: &DockerHost,
    paths: &CellPaths,
    place: OutpostPlace<'_>,
    begins: Option<Bundle>,
) -> Result<()> {
    let image = match begins {
        Some(_) => place.placed.image.clone(),
        None => any_image(host, &place.placed.image).await?,
    };
    let program = program_volume::ensure(host, paths, place, &image).await?;
    let container = name(&place.placed.spec.id);
    let network = if can_carry(host).await? { &host.settings().network } else { "none" };
    let mut entrypoint = vec![CONTAINER_PROGRAM.to_owned(), "outpost".to_owned()];
    entrypoint.extend(begins.as_ref().map(|_| BIRTH.to_owned()));
    let body = ContainerCreateBody {
        image: Some(image),
        entrypoint: Some(entrypoint),
        ..describe(host, place, &program, network)
    };
    let options = CreateContainerOptionsBuilder::default().name(&container).build();
    let made = host.docker.create_container(Some(options), body).await;
    made.map_err(|error| host.failed("make the outpost of a cell", &error))?;
    let started = async {
        if let Some(bundle) = begins {
            bundle.send(host, &container, PLACE).await?;
        }
        let started = host.docker.start_container(&container, None::<StartContainerOptions>).await;
        started.map_err(|error| host.failed("start the outpost of a cell", &error))
    };
    let started = started.await;
    if started.is_err()
        && let Err(error) = remove_container(host, &container).await
    {
        tracing::warn!(%error, container, "an outpost that could not be started is left");
    }
    started
}

/// Whether no outpost can ever be had for a cell: what it would look at is gone, or there is no image
/// that it could have its root from.
pub(crate) async fn is_hopeless(host: &DockerHost, cell: &CellId) -> Result<bool> {
    if volumes::are_gone(host, cell).await? {
        return Ok(true);
    }
    let images = host.docker.list_images(None::<ListImagesOptions>).await;
    Ok(images.map_err(|error| host.failed("list its images", &error))?.is_empty())
}

/// The image of a cell, or any other that the engine has where that one was removed: an outpost runs
/// none of its files.
async fn any_image(host: &DockerHost, wanted: &str) -> Result<String> {
    match host.docker.inspect_image(wanted).await {
        Err(error) if status(&error) == Some(NOT_FOUND) => {}
        Ok(_) | Err(_) => return Ok(wanted.to_owned()),
    }
    let images = host.docker.list_images(None::<ListImagesOptions>).await;
    let images = images.map_err(|error| host.failed("list its images", &error))?;
    Ok(images.into_iter().next().map_or_else(|| wanted.to_owned(), |image| image.id))
}

/// What is the same for all of them, whatever they are for. The files of their image are there, and none
/// of them is run.
fn describe(
    host: &DockerHost,
    place: OutpostPlace<'_>,
    program: &Path,
    network: &str,
) -> ContainerCreateBody {
    let cell = &place.placed.spec.id;
    let enforced = enforced(host);
    let host_config = HostConfig {
        readonly_rootfs: Some(true),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(CAPABILITIES.map(str::to_owned).to_vec()),
        privileged: Some(false),
        security_opt: Some(vec!["no-new-privileges:true".to_owned()]),
        network_mode: Some(network.to_owned()),
        ipc_mode: Some("private".to_owned()),
        mounts: Some(mounts(cell, program)),
        tmpfs: Some(HashMap::from([(OWN.to_owned(), OWN_OPTIONS.to_owned())])),
        memory: enforced.memory.then_some(MEMORY_BYTES),
        pids_limit: enforced.pids.then_some(PIDS),
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        auto_remove: Some(true),
        init: Some(false),
        runtime: place.runtime.map(str::to_owned),
        ..HostConfig::default()
    };
    ContainerCreateBody {
        hostname: Some("outpost".to_owned()),
        user: Some("0:0".to_owned()),
        cmd: Some(Vec::new()),
        working_dir: Some("/".to_owned()),
        env: Some(Vec::new()),
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        labels: Some(labels::of_cell(cell, place.state)),
        host_config: Some(host_config),
        ..ContainerCreateBody::default()
    }
}

fn mounts(cell: &CellId, program: &Path) -> Vec<Mount> {
    let volume = |purpose: &str, target: String, read_only: bool| Mount {
        target: Some(target),
        source: Some(volumes::name(cell, purpose)),
        typ: Some(MountType::VOLUME),
        read_only: Some(read_only),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(true),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    };
    let mut mounts = vec![
        Mount {
            target: Some(CONTAINER_PROGRAM.to_owned()),
            source: Some(program.to_string_lossy().into_owned()),
            typ: Some(MountType::BIND),
            read_only: Some(true),
            ..Mount::default()
        },
        volume(PLACE_VOLUME, PLACE.to_owned(), false),
        volume(RECORDS_VOLUME, RECORDS.to_owned(), false),
    ];
    // To be measured.
    mounts.extend(PURPOSES.map(|purpose| volume(purpose, kept_at(purpose), true)));
    mounts
}

/// Where an outpost sees what a cell keeps.
pub(super) fn kept_at(purpose: &str) -> String {
    format!("{KEEPS}/{purpose}")
}

//! From a description to a container whose supervisor is ready.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, StartContainerOptions,
};
use hotcell_jail::process::{Confinement, Readiness};
use hotcell_jail::send_fds;
use hotcell_link::{CONTAINER_SOCKET, ContainerOrder};
use hotcell_model::{Error, Result};
use hotcell_place::connect_in;
use tokio::time::{Instant, sleep, timeout};

use crate::docker_host::DockerHost;
use crate::failure::{NOT_FOUND, status};
use crate::removal::remove_container;

/// An engine that is at its work needs seconds; one that needs longer hangs.
const READY_WITHIN: Duration = Duration::from_secs(90);
/// How long apart it is looked whether a container listens.
const APART: Duration = Duration::from_millis(1);
/// How long apart it is looked whether it lives.
const ALIVE_APART: Duration = Duration::from_millis(250);

/// A container to be.
#[derive(Debug)]
pub(crate) struct Birth<'a> {
    pub(crate) name: &'a str,
    pub(crate) body: ContainerCreateBody,
    pub(crate) order: ContainerOrder,
    /// The directory in which its supervisor will listen.
    pub(crate) sockets: &'a Path,
    /// The directory for its journal and logs.
    pub(crate) records: &'a Path,
}

/// Makes and starts a container, and waits until its supervisor is ready. If that fails nothing is
/// left of it.
pub(crate) async fn give_birth(host: &DockerHost, birth: Birth<'_>) -> Result<Confinement> {
    let name = birth.name;
    // One that has ended, or that a start that died has left.
    remove_container(host, name).await?;
    let options = CreateContainerOptionsBuilder::default().name(name).build();
    let made = host.docker.create_container(Some(options), birth.body.clone()).await;
    made.map_err(|error| host.failed("make a container", &error))?;
    let born = match timeout(READY_WITHIN, start(host, &birth)).await {
        Ok(born) => born,
        Err(_) => Err(Error::unavailable(format!(
            "the container {name} was not ready within {} s",
            READY_WITHIN.as_secs()
        ))
        .hint("is the machine of the Docker engine overloaded?")),
    };
    if born.is_err()
        && let Err(error) = remove_container(host, name).await
    {
        tracing::warn!(%error, name, "a container that could not be started is left");
    }
    born
}

async fn start(host: &DockerHost, birth: &Birth<'_>) -> Result<Confinement> {
    let socket = birth.sockets.join(CONTAINER_SOCKET);
    match fs::remove_file(&socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::unavailable(format!("cannot remove {}: {error}", socket.display())));
        }
        Ok(()) | Err(_) => {}
    }
    let started = host.docker.start_container(birth.name, None::<StartContainerOptions>).await;
    started.map_err(|error| host.failed("start a container", &error))?;
    let stream = await_listening(host, birth).await?;
    let (order, records) = (birth.order.clone(), birth.records.to_owned());
    let readiness = tokio::task::spawn_blocking(move || give_order(stream, &order, records))
        .await
        .map_err(|error| Error::internal(format!("giving an order failed: {error}")))?;
    let name = birth.name;
    readiness
        .map_err(|error| {
            Error::unavailable(format!(
                "the supervisor of {name} ended before it was ready: {error}"
            ))
        })?
        .map_err(|reason| Error::unavailable(format!("the cell cannot be started: {reason}")))
}

/// Connects as soon as somebody listens.
async fn await_listening(host: &DockerHost, birth: &Birth<'_>) -> Result<UnixStream> {
    let mut looked = Instant::now();
    loop {
        let connected = connect_in(birth.sockets, CONTAINER_SOCKET);
        if let Some(stream) = connected.map_err(|error| {
            Error::unavailable(format!("cannot connect to the container {}: {error}", birth.name))
        })? {
            return Ok(stream);
        }
        sleep(APART).await;
        if looked.elapsed() >= ALIVE_APART {
            check_alive(host, birth.name).await?;
            looked = Instant::now();
        }
    }
}

async fn check_alive(host: &DockerHost, name: &str) -> Result<()> {
    let ended = |how: String| {
        Error::unavailable(format!("the container {name} ended before it was ready{how}"))
            .hint("does its image fit this machine? see `docker events`")
    };
    match host.docker.inspect_container(name, None::<InspectContainerOptions>).await {
        Err(error) if status(&error) == Some(NOT_FOUND) => Err(ended(String::new())),
        Err(error) => Err(host.failed("look at a container", &error)),
        Ok(found) => match found.state {
            Some(state) if state.running == Some(false) => {
                let code = state.exit_code.map(|code| format!(" with {code}"));
                Err(ended(code.unwrap_or_default()))
            }
            Some(_) | None => Ok(()),
        },
    }
}

/// Tells a supervisor what to be, and hears how that went.
fn give_order(
    mut stream: UnixStream,
    order: &ContainerOrder,
    records: PathBuf,
) -> io::Result<Readiness> {
    let records = File::open(records)?;
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    let (first, rest) = line.split_at(1);
    send_fds(&stream, first, &[records.as_fd()])?;
    stream.write_all(rest)?;
    stream.set_read_timeout(Some(READY_WITHIN))?;
    let mut word = Vec::new();
    stream.read_to_end(&mut word)?;
    Ok(serde_json::from_slice(&word)?)
}

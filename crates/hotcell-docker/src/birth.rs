//! From a description to a container whose supervisor is ready.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, StartContainerOptions,
};
use hotcell_jail::process::{Confinement, Readiness};
use hotcell_jail::send_fds;
use hotcell_link::{BIRTH_SOCKET, ContainerOrder};
use hotcell_model::{Error, Result};
use hotcell_place::listen_in;
use rustix::process::geteuid;
use tokio::time::{interval, sleep, timeout};

use crate::carrier_id::share_records;
use crate::docker_host::DockerHost;
use crate::failure::{CONFLICT, NOT_FOUND, status};
use crate::paths::{CellPaths, LINK_SOCKET};
use crate::removal::remove_container;

/// An engine that is at its work needs seconds; one that needs longer hangs.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(90);
/// How long apart it is looked whether a container lives.
const ALIVE_APART: Duration = Duration::from_millis(250);
/// How often a name is tried that somebody else has just used, and how long apart.
const TRIES: u32 = 20;
const APART: Duration = Duration::from_millis(50);

/// A container to be.
#[derive(Debug)]
pub(crate) struct Birth<'a> {
    pub(crate) name: &'a str,
    pub(crate) body: ContainerCreateBody,
    pub(crate) order: ContainerOrder,
    /// The cell's place on this side.
    pub(crate) paths: &'a CellPaths,
    /// The directory for its journal and logs.
    pub(crate) records: &'a Path,
}

/// Makes and starts a container, of which there is none yet, and waits until its supervisor is ready.
/// If that fails nothing is left of it.
pub(crate) async fn give_birth(host: &DockerHost, birth: Birth<'_>) -> Result<Confinement> {
    let name = birth.name;
    create(host, name, &birth.body).await?;
    let born = match timeout(READY_WITHIN, start(host, &birth)).await {
        Ok(born) => born,
        Err(_) => Err(Error::unavailable(format!(
            "the container {name} was not ready within {} s",
            READY_WITHIN.as_secs()
        ))
        .hint(
            "is the machine of the Docker engine overloaded? is its runtime one of this kernel?",
        )),
    };
    if born.is_err()
        && let Err(error) = remove_container(host, name).await
    {
        tracing::warn!(%error, name, "a container that could not be started is left");
    }
    born
}

pub(crate) async fn create(
    host: &DockerHost,
    name: &str,
    body: &ContainerCreateBody,
) -> Result<()> {
    let mut tries = 0;
    loop {
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        match host.docker.create_container(Some(options), body.clone()).await {
            Ok(_) => return Ok(()),
            Err(error) if status(&error) == Some(CONFLICT) && tries < TRIES => {
                tries += 1;
                sleep(APART).await;
                remove_container(host, name).await?;
            }
            Err(error) => return Err(host.failed("make a container", &error)),
        }
    }
}

async fn start(host: &DockerHost, birth: &Birth<'_>) -> Result<Confinement> {
    let waiting = await_first_process(birth).map_err(|error| unmade(birth, &error))?;
    let started = host.docker.start_container(birth.name, None::<StartContainerOptions>).await;
    started.map_err(|error| host.failed("start a container", &error))?;
    let stream = accept(host, birth, &waiting).await?;
    drop(waiting);
    let records = birth.records.to_owned();
    let (order, paths) = (birth.order.clone(), birth.paths.clone());
    let giving = move || give_order(stream, &order, records, &paths);
    let readiness = tokio::task::spawn_blocking(giving)
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

fn unmade(birth: &Birth<'_>, error: &io::Error) -> Error {
    Error::unavailable(format!("cannot listen in {}: {error}", birth.paths.root().display()))
}

/// A socket at which the container asks what to be, whoever its user is on this side. Others do not
/// get as far as its directory.
fn await_first_process(birth: &Birth<'_>) -> io::Result<tokio::net::UnixListener> {
    let place = birth.paths.birthplace();
    let listener = listen_in(&place, BIRTH_SOCKET)?;
    fs::set_permissions(place.join(BIRTH_SOCKET), fs::Permissions::from_mode(0o666))?;
    listener.set_nonblocking(true)?;
    tokio::net::UnixListener::from_std(listener)
}

/// Waits until the first process asks. Nothing else runs in the container yet.
async fn accept(
    host: &DockerHost,
    birth: &Birth<'_>,
    waiting: &tokio::net::UnixListener,
) -> Result<UnixStream> {
    let mut looks = interval(ALIVE_APART);
    looks.tick().await;
    let stream = loop {
        tokio::select! {
            accepted = waiting.accept() => break accepted.map_err(|error| unmade(birth, &error))?.0,
            _ = looks.tick() => check_alive(host, birth.name).await?,
        }
    };
    // Nobody asks twice.
    let taken = fs::remove_file(birth.paths.birthplace().join(BIRTH_SOCKET))
        .and_then(|()| give_records(birth, &stream))
        .and_then(|()| stream.into_std())
        .and_then(|stream| stream.set_nonblocking(false).map(|()| stream));
    taken.map_err(|error| unmade(birth, &error))
}

/// Gives the directory for the records to whoever the container's user is on this side: an engine may
/// have given it other ids than the container sees.
fn give_records(birth: &Birth<'_>, first: &tokio::net::UnixStream) -> io::Result<()> {
    if geteuid().is_root() {
        let peer = first.peer_cred()?;
        share_records(birth.records, &birth.order.spec.id, (peer.uid(), peer.gid()))?;
    }
    Ok(())
}

pub(crate) async fn check_alive(host: &DockerHost, name: &str) -> Result<()> {
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

/// Tells a supervisor what to be, and hears how that went. With the order go the directory for its
/// records and the sockets at which it listens, which nothing in the container has a path to.
pub(crate) fn give_order(
    mut stream: UnixStream,
    order: &ContainerOrder,
    records: PathBuf,
    paths: &CellPaths,
) -> io::Result<Readiness> {
    let records = File::open(records)?;
    let listener: UnixListener = listen_in(paths.root(), LINK_SOCKET)?;
    let sockets = paths.kept().listen_for_sockets()?;
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    let (first, rest) = line.split_at(1);
    send_fds(&stream, first, &[records.as_fd(), listener.as_fd(), sockets.as_fd()])?;
    // With the supervisor's end nobody listens any more.
    drop((listener, sockets));
    stream.write_all(rest)?;
    stream.set_read_timeout(Some(READY_WITHIN))?;
    let mut word = Vec::new();
    stream.read_to_end(&mut word)?;
    Ok(serde_json::from_slice(&word)?)
}

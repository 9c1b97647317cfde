//! Relays, as the driver sees them: one for each cell that runs at another machine.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bollard::query_parameters::InspectContainerOptions;
use hotcell_keeper::{Environment, LockWait, order_keeper};
use hotcell_model::{Error, Result};
use hotcell_place::connect_in;
use tokio::time::sleep;

use super::begun::Begun;
use super::outpost_container::{self, OutpostPlace};
use super::relay::RelayOrder;
use crate::container;
use crate::docker_host::DockerHost;
use crate::driver::at;
use crate::engine_address::EngineAddress;
use crate::failure::{NOT_FOUND, status};
use crate::keeper::KeepOutcome;
use crate::paths::{CellPaths, LINK_SOCKET, Placed};
use crate::removal::remove_container;

/// The command that relays are.
const RELAY: &str = "relay";
/// How long a cell may take to be shown by a relay that another process has started.
const SHOWN_WITHIN: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What relays are started with.
#[derive(Debug, Clone)]
pub(crate) struct Relaying {
    /// The program that they are.
    pub(crate) program: PathBuf,
}

impl Relaying {
    /// Opens a stream to the supervisor of a cell that was begun at an engine; `None` when it is over,
    /// and then all of its records are here.
    pub(crate) async fn connect(
        &self,
        host: &DockerHost,
        paths: &CellPaths,
        place: OutpostPlace<'_>,
    ) -> Result<Option<UnixStream>> {
        let until = Instant::now() + SHOWN_WITHIN;
        loop {
            if let Some(stream) = dial(paths)? {
                return Ok(Some(stream));
            }
            let begun = Begun::find(paths).map_err(|error| at("read", paths, &error))?;
            if begun.is_none() {
                return Ok(None);
            }
            let lock = paths.kept().lock_keeper(LockWait::Try);
            match lock.map_err(|error| at("look for the relay of", paths, &error))? {
                Some(lock) => {
                    drop(lock);
                    self.find(host, paths, place).await?;
                }
                None if Instant::now() >= until => {
                    return Err(Error::unavailable(format!(
                        "the cell {} at {} is not shown here within {} s",
                        place.placed.spec.id,
                        host.address,
                        SHOWN_WITHIN.as_secs()
                    ))
                    .hint("it may just be starting there; try again"));
                }
                None => sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// Starts a relay for a cell that has none, and an outpost where that is gone as well.
    async fn find(
        &self,
        host: &DockerHost,
        paths: &CellPaths,
        place: OutpostPlace<'_>,
    ) -> Result<()> {
        let cell = &place.placed.spec.id;
        let outpost = outpost_container::name(cell);
        if !is_running(host, &container::name(cell)).await? {
            // One that was made and never started has nothing to tell, and is in the way.
            remove_container(host, &container::name(cell)).await?;
        }
        if !is_running(host, &outpost).await? {
            remove_container(host, &outpost).await?;
            outpost_container::begin(host, paths, place, None).await?;
        }
        self.order(host, paths, place.placed).await
    }

    /// Starts a relay, and waits until it has shown what there is.
    pub(super) async fn order(
        &self,
        host: &DockerHost,
        paths: &CellPaths,
        placed: &Placed,
    ) -> Result<()> {
        let order = RelayOrder {
            directory: paths.root().to_owned(),
            records: placed.records.clone(),
            engine: host.settings().clone(),
            outpost: outpost_container::name(&placed.spec.id),
        };
        let environment = match order.engine.address {
            // It finds its agent and its home by that.
            EngineAddress::Ssh { .. } => Environment::Own,
            EngineAddress::Unix { .. }
            | EngineAddress::Tcp { .. }
            | EngineAddress::Https { .. } => Environment::Empty,
        };
        let program = self.program.clone();
        let ordering = move || {
            order_keeper::<KeepOutcome>(&program, RELAY, &order.directory, &order, environment)
        };
        let ordered = tokio::task::spawn_blocking(ordering).await;
        let ordered = ordered
            .map_err(|error| Error::internal(format!("starting a relay failed: {error}")))?
            .map_err(|error| at("start the relay of", paths, &error))?;
        ordered.into_result()
    }
}

/// A stream to what is shown of a cell, if anything is.
pub(crate) fn dial(paths: &CellPaths) -> Result<Option<UnixStream>> {
    connect_in(paths.root(), LINK_SOCKET).map_err(|error| at("connect to", paths, &error))
}

async fn is_running(host: &DockerHost, container: &str) -> Result<bool> {
    match host.docker.inspect_container(container, None::<InspectContainerOptions>).await {
        Ok(found) => Ok(found.state.and_then(|state| state.running).unwrap_or(false)),
        Err(error) if status(&error) == Some(NOT_FOUND) => Ok(false),
        Err(error) => Err(host.failed("look at a container", &error)),
    }
}

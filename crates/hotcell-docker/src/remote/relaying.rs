//! Relays, as the driver sees them: one for each cell that runs at another machine.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bollard::query_parameters::InspectContainerOptions;
use hotcell_keeper::{HeldLock, LockWait, order_keeper};
use hotcell_model::{Error, Result};
use hotcell_place::connect_in;
use tokio::time::sleep;

use super::begun::Begun;
use super::outpost_container::{self, OutpostPlace};
use super::relay::RelayOrder;
use super::was_ready;
use crate::docker_host::DockerHost;
use crate::driver::at;
use crate::failure::{NOT_FOUND, status};
use crate::keeper::KeepOutcome;
use crate::paths::{CellPaths, LINK_SOCKET, Placed};
use crate::removal::remove_container;
use crate::volumes;

/// The command that relays are.
const RELAY: &str = "relay";
/// How long a cell may take to be shown by a relay that another process has started.
const SHOWN_WITHIN: Duration = Duration::from_secs(30);
/// How long one that was never ready is waited for.
const READY_WITHIN: Duration = Duration::from_secs(2);
/// How often one is started that ends at once.
const TRIES: u32 = 5;
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
        let (until, ready_by) = (Instant::now() + SHOWN_WITHIN, Instant::now() + READY_WITHIN);
        loop {
            if let Some(stream) = dial(paths)? {
                return Ok(Some(stream));
            }
            if !is_begun(paths)? {
                return Ok(None);
            }
            if Instant::now() >= until {
                return Err(Error::unavailable(format!(
                    "the cell {} at {} is not shown here within {} s",
                    place.placed.spec.id,
                    host.address,
                    SHOWN_WITHIN.as_secs()
                ))
                .hint("it may just be starting there; try again"));
            }
            let lock = paths.kept().lock_keeper(LockWait::Try);
            match lock.map_err(|error| at("look for the relay of", paths, &error))? {
                Some(lock) => self.find(host, paths, place, lock).await?,
                // Its relay would have said that it is ready; so far nothing has run in it.
                None if !was_ready(paths) && Instant::now() >= ready_by => return Ok(None),
                None => sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// Starts a relay for a cell that has none, and an outpost where that is gone as well. Whoever
    /// changes something there has the lock.
    async fn find(
        &self,
        host: &DockerHost,
        paths: &CellPaths,
        place: OutpostPlace<'_>,
        lock: HeldLock,
    ) -> Result<()> {
        if !is_begun(paths)? {
            return Ok(());
        }
        ensure_outpost(host, paths, place).await?;
        drop(lock);
        self.order(host, paths, place.placed).await
    }

    /// Starts a relay that stays: one that found the lock taken by whoever looked for it just then is
    /// gone.
    pub(crate) async fn begin(
        &self,
        host: &DockerHost,
        paths: &CellPaths,
        placed: &Placed,
    ) -> Result<()> {
        for _ in 0..TRIES {
            self.order(host, paths, placed).await?;
            let lock = paths.kept().lock_keeper(LockWait::Try);
            let is_there =
                lock.map_err(|error| at("look for the relay of", paths, &error))?.is_none();
            // One that had only to take what was left has ended.
            if is_there || !is_begun(paths)? {
                return Ok(());
            }
        }
        Err(Error::unavailable(format!(
            "the relay of the cell {} at {} does not stay",
            placed.spec.id, host.address
        )))
    }

    /// Starts a relay, and waits until it has shown what there is.
    async fn order(&self, host: &DockerHost, paths: &CellPaths, placed: &Placed) -> Result<()> {
        let order = RelayOrder {
            directory: paths.root().to_owned(),
            records: placed.records.clone(),
            engine: host.settings().clone(),
            outpost: outpost_container::name(&placed.spec.id),
        };
        let program = self.program.clone();
        let ordering =
            move || order_keeper::<KeepOutcome>(&program, RELAY, &order.directory, &order);
        let ordered = tokio::task::spawn_blocking(ordering).await;
        let ordered = ordered
            .map_err(|error| Error::internal(format!("starting a relay failed: {error}")))?
            .map_err(|error| at("start the relay of", paths, &error))?;
        ordered.into_result()
    }
}

/// Starts an outpost for a cell that has none. Whoever does has the lock.
pub(crate) async fn ensure_outpost(
    host: &DockerHost,
    paths: &CellPaths,
    place: OutpostPlace<'_>,
) -> Result<()> {
    let cell = &place.placed.spec.id;
    let outpost = outpost_container::name(cell);
    if is_running(host, &outpost).await? {
        return Ok(());
    }
    volumes::check_all(host, cell).await?;
    remove_container(host, &outpost).await?;
    outpost_container::begin(host, paths, place, None).await
}

fn is_begun(paths: &CellPaths) -> Result<bool> {
    Ok(Begun::find(paths).map_err(|error| at("read", paths, &error))?.is_some())
}

/// A stream to what is shown of a cell, if anything is.
fn dial(paths: &CellPaths) -> Result<Option<UnixStream>> {
    connect_in(paths.root(), LINK_SOCKET).map_err(|error| at("connect to", paths, &error))
}

async fn is_running(host: &DockerHost, container: &str) -> Result<bool> {
    match host.docker.inspect_container(container, None::<InspectContainerOptions>).await {
        Ok(found) => Ok(found.state.and_then(|state| state.running).unwrap_or(false)),
        Err(error) if status(&error) == Some(NOT_FOUND) => Ok(false),
        Err(error) => Err(host.failed("look at a container", &error)),
    }
}

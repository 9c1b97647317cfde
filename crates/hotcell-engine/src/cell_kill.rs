//! Ends a cell; the files of a persistent one are kept unless told otherwise.

use std::time::Duration;

use hotcell_link::{Ask, LinkError};
use hotcell_model::{
    CellKill, CellKilled, CellRef, CellSpec, CloseReason, Driver, Error, Keep, KillStatus,
    KillWait, Result,
};
use tokio::time::{Instant, sleep, timeout};

use crate::cell_find::no_cell;
use crate::links;
use crate::site::Site;

/// How long a supervisor may take to end everything, before it is ended itself.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);
/// How often a question is asked again whose connection broke.
const ATTEMPTS: u32 = 5;
const LOOK_EVERY: Duration = Duration::from_millis(2);
const LOOK_EVERY_AT_MOST: Duration = Duration::from_millis(50);

/// Ends a cell; its records stay for a while, and the files of a persistent one longer.
pub(crate) async fn cell_kill(site: &Site, request: CellKill) -> Result<CellKilled> {
    let id = site.get_cell(&request.cell).await?.spec.id;
    let lock = site.store.lock_cell(&id).await?;
    let stored = match site.store.find_cell(&id).await? {
        Some(stored) if stored.ended_at.is_none() => stored,
        Some(_) | None => return Err(no_cell(&CellRef::Id(id))),
    };
    let force = if request.force { Force::Yes } else { Force::No };
    if stored.spec.keep == Keep::Always && !request.volumes {
        // Until it is noted that it has ended it is asleep, whoever dies on the way.
        match close(site, &stored.spec, force, CloseReason::Asleep).await? {
            Closed::Ending => {
                wait_until_gone(&**site.driver(&stored.spec.driver)?, &stored.spec).await?;
            }
            Closed::Gone => {}
        }
        let volume = Some(site.keep_cell(&stored.spec, &*lock).await?);
        return Ok(CellKilled { cell: id, status: KillStatus::Killed, volume });
    }
    let closed = close(site, &stored.spec, force, CloseReason::Killed).await?;
    match (request.wait, closed) {
        // From here on it is over for everybody: its keeper clears it away, or the next sweep.
        (KillWait::Ended, Closed::Ending) => site.links.forget(&id),
        (KillWait::Removed, Closed::Ending) => {
            wait_until_gone(&**site.driver(&stored.spec.driver)?, &stored.spec).await?;
            site.remove_cell(&stored.spec, &*lock).await?;
        }
        // Nothing says that it has ended: half removed it would wake with what is left.
        (_, Closed::Gone) => site.remove_volume(&stored.spec, force, &*lock).await?,
    }
    Ok(CellKilled { cell: id, status: KillStatus::Killed, volume: None })
}

/// Whether a cell is ended that does not answer, and removed if its description cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Force {
    Yes,
    No,
}

/// What became of a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// It has ended everything in the cell and is about to go.
    Ending,
    /// It is not there.
    Gone,
}

/// Ends the cell's supervisor, if it has one.
pub(crate) async fn close(
    site: &Site,
    spec: &CellSpec,
    force: Force,
    reason: CloseReason,
) -> Result<Closed> {
    let driver = site.driver(&spec.driver)?;
    let asked = match force {
        Force::No => ask_to_close(site, spec, reason, force).await,
        // Without its cooperation it is ended soon, whatever it does with the link meanwhile.
        Force::Yes => timeout(CLOSE_WITHIN, ask_to_close(site, spec, reason, force))
            .await
            .unwrap_or_else(|_| Err(LinkError::Failed(links::stuck(&spec.id)))),
    };
    match (asked, force) {
        (Ok(closed), _) => Ok(closed),
        (Err(error), Force::Yes) => {
            tracing::info!(cell = %spec.id, %error, "a supervisor that does not listen is ended");
            driver.stop(&spec.id).await.map(|()| Closed::Gone)
        }
        (Err(error), Force::No) => {
            let error = Error::from(error);
            Err(match error.hint {
                Some(_) => error,
                None => error.hint("`hotcell kill --force` ends the cell all the same"),
            })
        }
    }
}

async fn ask_to_close(
    site: &Site,
    spec: &CellSpec,
    reason: CloseReason,
    force: Force,
) -> Result<Closed, LinkError> {
    let ask = Ask::Close { reason, force: force == Force::Yes };
    for _ in 0..ATTEMPTS {
        let asked = match site.find_link(spec).await {
            Ok(None) => return Ok(Closed::Gone),
            Ok(Some(link)) => links::ask(&link, &spec.id, &ask).await,
            Err(error) => Err(LinkError::Failed(error)),
        };
        // A question that got lost may not have arrived: it ends, or it is asked again.
        match asked {
            Err(LinkError::Lost) => {}
            asked => return asked.map(|_| Closed::Ending),
        }
    }
    Err(LinkError::Lost)
}

pub(crate) async fn wait_until_gone(driver: &dyn Driver, spec: &CellSpec) -> Result<()> {
    let deadline = Instant::now() + CLOSE_WITHIN;
    let mut pause = LOOK_EVERY;
    while driver.connect(&spec.id).await?.is_some() {
        if Instant::now() >= deadline {
            return driver.stop(&spec.id).await;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LOOK_EVERY_AT_MOST);
    }
    Ok(())
}

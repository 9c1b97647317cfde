//! Shows one cell with its use of resources, and notes who works in it; wakes nothing.

use hotcell_link::{Ask, Tell};
use hotcell_model::{
    Attachment, Caller, Cell, CellAttach, CellDetails, CellInfo, CellState, CellStats, Result,
    StoredCell, Timestamp,
};

use crate::cell_find::no_cell;
use crate::cell_remove::Busy;
use crate::cell_standing::Standing;
use crate::links;
use crate::site::Site;

/// The longest word of a client on itself that is kept.
const MOST_SAID: usize = 128;

/// One cell with its use of resources and its live execs.
pub(crate) async fn cell_info(site: &Site, request: CellInfo) -> Result<CellDetails> {
    let stored = site.get_cell(&request.cell).await?;
    let state = match site.standing(&stored).await {
        Standing::Is(state) => state,
        Standing::Over | Standing::Kept(_) => {
            site.remove_if_over(&stored, Busy::Skip).await?;
            return Err(no_cell(&request.cell));
        }
    };
    let spec = site.with_network_in_force(&stored).await;
    let network = site.network_stats(&spec, state).await;
    let stats = match state {
        CellState::Ready => {
            find_stats(site, &stored).await?.map(|stats| CellStats { network, ..stats })
        }
        CellState::Starting | CellState::Asleep | CellState::Stopped | CellState::Unavailable => {
            None
        }
    };
    site.settle(&stored.spec.id).await?;
    let execs = site.live_execs(&stored.spec.id).await?;
    let attachments = site.store.list_attachments(&stored.spec.id).await?;
    let cell = Cell::from_spec(&spec, state, stored.isolation);
    let driver = site.driver(&spec.driver)?;
    let image_digest = driver.image_digest(&spec.id).await?;
    let engine = driver.engine_of(&spec.id).await?;
    let awaiting = site.calls_awaiting_approval(&execs).await;
    Ok(CellDetails { cell, stats, execs, awaiting, image_digest, engine, attachments })
}

/// Notes that a client works in a cell, and shows the cell.
pub(crate) async fn cell_attach(
    site: &Site,
    caller: &Caller,
    request: CellAttach,
) -> Result<CellDetails> {
    let CellAttach { cell, client_name, session_id } = request;
    let stored = site.get_cell(&cell).await?;
    let now = Timestamp::now();
    let attachment = Attachment {
        principal: caller.principal.clone(),
        client_name: bounded(client_name),
        session_id: bounded(session_id),
        attached_at: now,
        last_seen: now,
    };
    site.store.attach(&stored.spec.id, &attachment).await?;
    cell_info(site, CellInfo { cell }).await
}

/// What a client says of itself, as much of it as is worth keeping, in one line.
fn bounded(said: Option<String>) -> String {
    let said = said.unwrap_or_default();
    said.chars().filter(|char| !char.is_control()).take(MOST_SAID).collect()
}

async fn find_stats(site: &Site, cell: &StoredCell) -> Result<Option<CellStats>> {
    let Some(link) = site.find_link(&cell.spec).await? else { return Ok(None) };
    match links::ask(&link, &cell.spec.id, &Ask::Stats).await {
        Ok(Tell::Stats(stats)) => Ok(Some(stats)),
        Ok(
            Tell::Done
            | Tell::Started(_)
            | Tell::InputState(_)
            | Tell::Cancelled(_)
            | Tell::File(_)
            | Tell::Failed(_),
        ) => Ok(None),
        Err(error) => {
            tracing::debug!(cell = %cell.spec.id, %error, "a supervisor gave no figures");
            Ok(None)
        }
    }
}

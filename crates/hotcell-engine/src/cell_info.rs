//! Shows one cell with its use of resources; wakes nothing.

use hotcell_link::{Ask, Tell};
use hotcell_model::{Cell, CellDetails, CellInfo, CellState, CellStats, Result, StoredCell};

use crate::cell_find::no_cell;
use crate::cell_remove::Busy;
use crate::cell_standing::Standing;
use crate::links;
use crate::site::Site;

/// One cell with its use of resources and its live execs.
pub(crate) async fn cell_info(site: &Site, request: CellInfo) -> Result<CellDetails> {
    let stored = site.get_cell(&request.cell).await?;
    let state = match site.standing(&stored).await {
        Standing::Is(state) => state,
        Standing::Over => {
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
    Ok(CellDetails { cell: Cell::from_spec(&spec, state, stored.isolation), stats, execs })
}

async fn find_stats(site: &Site, cell: &StoredCell) -> Result<Option<CellStats>> {
    let Some(link) = site.find_link(&cell.spec).await? else { return Ok(None) };
    match links::ask(&link, &cell.spec.id, &Ask::Stats).await {
        Ok(Tell::Stats(stats)) => Ok(Some(stats)),
        Ok(
            Tell::Done | Tell::Started(_) | Tell::Cancelled(_) | Tell::File(_) | Tell::Failed(_),
        ) => Ok(None),
        Err(error) => {
            tracing::debug!(cell = %cell.spec.id, %error, "a supervisor gave no figures");
            Ok(None)
        }
    }
}

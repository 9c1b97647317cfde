//! Lists cells.

use hotcell_model::{Cell, CellList, CellState, Cells, Keep, Result, Tenants};

use crate::cell_remove::Busy;
use crate::cell_standing::Standing;
use crate::site::Site;

/// Every cell of these tenants, newest first; stopped ones only if asked for.
pub(crate) async fn cell_list(site: &Site, tenants: &Tenants, request: CellList) -> Result<Cells> {
    let mut cells = Vec::new();
    for stored in site.list_stored(tenants).await? {
        if stored.ended_at.is_some() || stored.spec.keep == Keep::Pool {
            continue;
        }
        let state = match site.standing(&stored).await {
            Standing::Is(state) => state,
            Standing::Over | Standing::Kept(_) => {
                if let Err(error) = site.remove_if_over(&stored, Busy::Skip).await {
                    tracing::warn!(cell = %stored.spec.id, %error, "a cell that is over stays");
                }
                continue;
            }
        };
        let listed = match state {
            CellState::Starting | CellState::Ready | CellState::Asleep | CellState::Unavailable => {
                true
            }
            CellState::Stopped => request.include_stopped,
        };
        if listed {
            let spec = site.with_network_in_force(&stored).await;
            cells.push(Cell::from_spec(&spec, state, stored.isolation));
        }
    }
    Ok(Cells { cells })
}

//! Takes over the cells that servers keep.

use hotcell_model::{Cell, CellAdopt, CellState, Cells, Keep, Result};

use crate::site::Site;

/// Holds every cell that a server made and that has a supervisor. Holding one twice is holding it.
pub(crate) async fn cell_adopt(site: &Site, _: CellAdopt) -> Result<Cells> {
    let mut cells = Vec::new();
    for stored in site.list_stored().await? {
        let kept = stored.ended_at.is_none() && stored.spec.keep == Keep::Server;
        if kept && site.has_supervisor(&stored.spec).await? {
            site.hold_cell(&stored.spec).await?;
            cells.push(Cell::from_spec(&stored.spec, CellState::Ready, stored.isolation));
        }
    }
    Ok(Cells { cells })
}

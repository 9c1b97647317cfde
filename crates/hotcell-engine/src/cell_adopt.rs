//! Takes over the cells that servers keep.

use hotcell_model::{Cell, CellSpec, CellState, Cells, Keep, Result, Tenants};

use crate::site::Site;

/// Holds every cell that a server made and that has a supervisor. Holding one twice is holding it.
pub(crate) async fn cell_adopt(site: &Site, tenants: &Tenants) -> Result<Cells> {
    let mut cells = Vec::new();
    for stored in site.list_stored(tenants).await? {
        if stored.ended_at.is_some() || stored.spec.keep != Keep::Server {
            continue;
        }
        match hold(site, &stored.spec).await {
            Ok(true) => {
                cells.push(Cell::from_spec(&stored.spec, CellState::Ready, stored.isolation));
            }
            Ok(false) => {}
            // One that does not answer costs no other one its holder.
            Err(error) => {
                tracing::warn!(cell = %stored.spec.id, %error, "a cell cannot be taken over");
            }
        }
    }
    Ok(Cells { cells })
}

/// Whether there was a supervisor to be held by.
async fn hold(site: &Site, spec: &CellSpec) -> Result<bool> {
    if !site.has_supervisor(spec).await? {
        return Ok(false);
    }
    site.hold_cell(spec).await?;
    Ok(true)
}

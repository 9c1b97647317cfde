//! The cell that a caller means without naming it.

use hotcell_model::{Caller, CellRef, CellSpawn, Error, Keep, Result};

use crate::cell_spawn::cell_spawn;
use crate::site::Site;

/// Puts the name of the caller's default cell where it is meant.
pub(crate) fn name(caller: &Caller, cell: &mut CellRef) -> Result<()> {
    match (&*cell, &caller.default_cell) {
        (CellRef::Default, Some(alias)) => {
            *cell = CellRef::Alias(alias.clone());
            Ok(())
        }
        (CellRef::Default, None) => Err(Error::invalid("there is no default cell here")
            .hint("name a cell, or make one with `hotcell spawn`")),
        (CellRef::Id(_) | CellRef::Alias(_), _) => Ok(()),
    }
}

/// The same, and makes the cell at its first use. It is persistent.
pub(crate) async fn make(site: &Site, caller: &Caller, cell: &mut CellRef) -> Result<()> {
    if *cell != CellRef::Default {
        return Ok(());
    }
    name(caller, cell)?;
    if site.links.find_open(cell).is_some() || site.find_cell(cell).await?.is_some() {
        return Ok(());
    }
    let request = CellSpawn {
        alias: caller.default_cell.clone(),
        reuse_alias: true,
        keep: Keep::Always,
        ..CellSpawn::default()
    };
    cell_spawn(site, request).await.map(drop)
}

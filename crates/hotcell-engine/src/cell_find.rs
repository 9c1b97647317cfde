//! Finds the cell that a caller names.

use hotcell_model::{Alias, CellId, CellRef, Error, Keep, Result, StoredCell, Tenant};

use crate::site::Site;

impl Site {
    /// The cell with this id, ended or not, also if the index has lost it.
    pub(crate) async fn find_stored(&self, cell: &CellId) -> Result<Option<StoredCell>> {
        match self.store.find_cell(cell).await? {
            Some(found) => Ok(Some(found)),
            None => {
                self.rebuild_once().await;
                self.store.find_cell(cell).await
            }
        }
    }

    /// The cell of this tenant that is called so and has not ended, also if the index has lost it.
    pub(crate) async fn find_alias(
        &self,
        tenant: &Tenant,
        alias: &Alias,
    ) -> Result<Option<StoredCell>> {
        match self.store.find_alias(tenant, alias).await? {
            Some(found) => Ok(Some(found)),
            None => {
                self.rebuild_once().await;
                self.store.find_alias(tenant, alias).await
            }
        }
    }

    /// The cell that is called so and has not ended, if there is one.
    async fn find_cell(&self, cell: &CellRef) -> Result<Option<StoredCell>> {
        let found = match cell {
            // An id was put in its place before anything was done.
            CellRef::Default | CellRef::Alias(_) => None,
            CellRef::Id(id) => self.find_stored(id).await?,
        };
        let is_somebodys = |it: &StoredCell| it.ended_at.is_none() && it.spec.keep != Keep::Pool;
        Ok(found.filter(is_somebodys))
    }

    /// The cell that is called so and has not ended.
    pub(crate) async fn get_cell(&self, cell: &CellRef) -> Result<StoredCell> {
        self.find_cell(cell).await?.ok_or_else(|| no_cell(cell))
    }

    /// The cell that is called so; one that has ended only by its id.
    pub(crate) async fn get_cell_or_ended(&self, cell: &CellRef) -> Result<StoredCell> {
        let found = match cell {
            CellRef::Id(id) => self.find_stored(id).await?,
            CellRef::Alias(_) | CellRef::Default => self.find_cell(cell).await?,
        };
        found.ok_or_else(|| no_cell(cell))
    }
}

/// The error for a cell that does not exist or no longer does.
pub(crate) fn no_cell(cell: &CellRef) -> Error {
    Error::not_found(format!("there is no cell {cell}"))
        .hint("list cells with `hotcell cells --all`, or make one with `hotcell spawn`")
}

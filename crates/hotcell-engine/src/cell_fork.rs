//! Makes cells that begin with the files of another.

use hotcell_model::{
    Alias, Cell, CellFork, CellSpec, CellState, Cells, CheckpointId, CheckpointPurpose, Error,
    Keep, Result, StoredCell, Timestamp,
};

use crate::new_id::new_cell_id;
use crate::site::{Made, Site};

/// The most forks at once.
const MOST_FORKS: u32 = 100;

/// Makes cells that begin with the files of another. All of them are there, or none.
pub(crate) async fn cell_fork(site: &Site, request: CellFork) -> Result<Cells> {
    if request.count == 0 || request.count > MOST_FORKS {
        return Err(Error::invalid(format!("a cell cannot be forked {} times", request.count))
            .hint(format!("ask for 1 to {MOST_FORKS} forks")));
    }
    let aliases = aliases(&request)?;
    let (parent, checkpoint, implicit) = match &request.checkpoint {
        Some(checkpoint) => {
            let cell = site.get_cell(&request.cell).await?;
            site.get_checkpoint(&cell, checkpoint).await?;
            (cell, checkpoint.clone(), false)
        }
        None => {
            let held = site.hold_for_checkpoint(&request.cell).await?;
            let made = held.checkpoint(site, CheckpointPurpose::Forking).await;
            let cell = held.cell.clone();
            held.release().await;
            (cell, made?.id, true)
        }
    };
    let mut forks = Vec::new();
    let mut failed = None;
    for alias in aliases {
        match fork(site, &parent, &checkpoint, alias).await {
            Ok(cell) => forks.push(cell),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    if implicit {
        // The forks have its layers by now; nobody knows of it.
        site.checkpointer(&parent)?.delete(&parent.spec.id, &checkpoint).await?;
    }
    match failed {
        None => Ok(Cells { cells: forks }),
        Some(error) => {
            for cell in forks {
                undo(site, &parent, &cell.id).await;
            }
            Err(error)
        }
    }
}

/// A name for each fork: the one that was given, or its beginning.
fn aliases(request: &CellFork) -> Result<Vec<Option<Alias>>> {
    let numbers = 1..=request.count;
    match &request.alias {
        None => Ok(numbers.map(|_| None).collect()),
        Some(alias) if request.count == 1 => Ok(vec![Some(alias.clone())]),
        Some(alias) => {
            numbers.map(|number| format!("{alias}-{number}").parse().map(Some)).collect()
        }
    }
}

async fn fork(
    site: &Site,
    parent: &StoredCell,
    checkpoint: &CheckpointId,
    alias: Option<Alias>,
) -> Result<Cell> {
    let id = new_cell_id()?;
    let lock = site.store.lock_cell(&id).await?;
    if site.make_cell_dir(&id)? == Made::Existed {
        return Err(Error::unavailable("the id of the new cell is taken").hint("try again"));
    }
    let keep = match parent.spec.keep {
        Keep::Always | Keep::Server => parent.spec.keep,
        Keep::Holder | Keep::Exec | Keep::Ttl => Keep::Ttl,
    };
    let ttl_s = match keep {
        Keep::Ttl | Keep::Server => Some(parent.spec.ttl_s.unwrap_or(site.settings.default_ttl_s)),
        Keep::Always | Keep::Holder | Keep::Exec => parent.spec.ttl_s,
    };
    let created_at = Timestamp::now();
    // What the operator took from the parent meanwhile, a fork does not bring back.
    let network = site.network_in_force(parent).await?;
    let parents = parent.spec.clone();
    let spec = CellSpec { id: id.clone(), alias, keep, ttl_s, created_at, network, ..parents };
    let cell = StoredCell { spec, isolation: None, ended_at: None };
    let made = async {
        site.store.insert_cell(&cell).await?;
        let (forks, records) = (site.checkpointer(parent)?, site.records(&id));
        forks.fork(&parent.spec.id, checkpoint, &cell.spec, &records).await?;
        site.start_cell(&cell, &*lock).await
    };
    match made.await {
        Ok(isolation) => {
            drop(lock);
            if cell.spec.keep == Keep::Server {
                site.hold_cell(&cell.spec).await?;
            }
            Ok(Cell::from_spec(&cell.spec, CellState::Ready, Some(isolation)))
        }
        Err(error) => {
            drop(lock);
            undo(site, parent, &id).await;
            Err(error)
        }
    }
}

/// Leaves nothing of a fork that is not wanted.
async fn undo(site: &Site, parent: &StoredCell, id: &hotcell_model::CellId) {
    let undo = async {
        let _lock = site.store.lock_cell(id).await?;
        let driver = site.driver(&parent.spec.driver)?;
        driver.stop(id).await?;
        driver.remove(id).await?;
        site.store.end_cell(id, Timestamp::now()).await?;
        site.links.forget(id);
        site.remove_cell_dir(id).await
    };
    if let Err(error) = undo.await {
        tracing::warn!(cell = %id, %error, "something is left of a fork that was not made");
    }
}

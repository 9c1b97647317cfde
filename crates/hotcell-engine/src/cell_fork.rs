//! Makes cells that begin with the files of another.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::stream::{self, StreamExt};
use hotcell_model::{
    Alias, Cell, CellFork, CellId, CellLock, CellSpec, CellState, Cells, CheckpointId,
    CheckpointPurpose, Error, ErrorCode, Keep, Result, StoredCell, Timestamp,
};

use crate::new_id::new_cell_id;
use crate::site::{Made, Site};
use crate::spawn_key::{ClaimedId, Origin, SpawnKey, Stands};
use crate::{check, fingerprint};

/// How many of them are started at the same time.
const STARTED_AT_ONCE: usize = 4;
/// Each further one means that another process made or ended the cell of that key in between.
const ATTEMPTS: u32 = 20;

/// Makes cells that begin with the files of another. All of them are there, or none.
pub(crate) async fn cell_fork(site: &Site, request: CellFork) -> Result<Cells> {
    check::cell_fork(&request)?;
    let parent = site.get_cell(&request.cell).await?;
    let fingerprint = fingerprint::of_fork(&request);
    let given = request.idempotency_key.as_deref();
    let key = SpawnKey::new(site, &parent.spec.tenant, given, fingerprint);
    if !key.is_given() {
        return fork(site, &request, None).await;
    }
    for _ in 0..ATTEMPTS {
        let claimed = key.claim().await?;
        let lock = site.store.lock_cell(&claimed.id).await?;
        match key.look(&claimed).await? {
            Stands::Otherwise => {}
            Stands::For(cell) => {
                drop(lock);
                match answer(site, &cell).await {
                    // It turned out to be over, and is ended in the index now.
                    Err(error) if error.code == ErrorCode::NotFound => {}
                    answered => return Ok(Cells { cells: vec![answered?] }),
                }
            }
            Stands::ForEnded(_) => return Err(key.has_ended(&claimed.id)),
            Stands::ForNothing => {
                let id = claimed.id.clone();
                let made = fork(site, &request, Some(Reserved { claimed, lock })).await;
                if made.is_err() {
                    key.release(&id).await?;
                }
                return made;
            }
        }
    }
    Err(Error::unavailable("other processes make and end the cell of this key all the time")
        .hint("choose another key"))
}

/// A cell that exists, awake.
async fn answer(site: &Site, cell: &StoredCell) -> Result<Cell> {
    site.ready_link(&cell.spec).await?;
    let spec = site.with_network_in_force(cell).await;
    Ok(Cell::from_spec(&spec, CellState::Ready, cell.isolation.clone()))
}

/// Makes the cells; the first of them at a place that is reserved for it.
async fn fork(site: &Site, request: &CellFork, reserved: Option<Reserved>) -> Result<Cells> {
    let mut wishes: Vec<Wish> = aliases(request)?
        .into_iter()
        .map(|alias| Wish { alias, keep: request.keep, ttl_s: request.ttl_s, reserved: None })
        .collect();
    if let Some(first) = wishes.first_mut() {
        first.reserved = reserved;
    }
    let Some(checkpoint) = &request.checkpoint else {
        let held = site.hold_for_checkpoint(&request.cell).await?;
        let parent = held.cell.clone();
        let made = held.checkpoint(site, CheckpointPurpose::Forking).await;
        // The parent goes on while its forks are made.
        let (forks, ()) = tokio::join!(
            async { make_all(site, &parent, &made?.id, wishes, Source::Forking).await },
            held.release()
        );
        return forks;
    };
    let parent = site.get_cell(&request.cell).await?;
    site.get_checkpoint(&parent, checkpoint).await?;
    make_all(site, &parent, checkpoint, wishes, Source::Kept).await
}

/// What forks begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A checkpoint that somebody made.
    Kept,
    /// One that was made for them, and that nobody knows of.
    Forking,
}

async fn make_all(
    site: &Site,
    parent: &StoredCell,
    checkpoint: &CheckpointId,
    wishes: Vec<Wish>,
    source: Source,
) -> Result<Cells> {
    let mut placed = Vec::new();
    let mut failed = None;
    for wish in wishes {
        match place(site, parent, checkpoint, wish).await {
            Ok(fork) => placed.push(fork),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    let ids: Vec<CellId> = placed.iter().map(|fork| fork.cell.spec.id.clone()).collect();
    // The forks have the layers by now.
    let let_go = async {
        match source {
            Source::Kept => Ok(()),
            Source::Forking => site.checkpointer(parent)?.delete(&parent.spec.id, checkpoint).await,
        }
    };
    let start = async {
        match failed {
            Some(error) => Err(error),
            None => {
                let has_failed = AtomicBool::new(false);
                let has_failed = &has_failed;
                let starts = placed.into_iter().map(|fork| async move {
                    if has_failed.load(Ordering::Relaxed) {
                        return Err(Error::unavailable("another fork could not be started"));
                    }
                    let started = start(site, fork).await;
                    has_failed.fetch_or(started.is_err(), Ordering::Relaxed);
                    started
                });
                let started = stream::iter(starts).buffered(STARTED_AT_ONCE);
                // To the end of all of them: what is under way cannot be undone.
                started.collect::<Vec<Result<Cell>>>().await.into_iter().collect()
            }
        }
    };
    let (started, gone) = tokio::join!(start, let_go);
    match gone.and(started) {
        Ok(cells) => Ok(Cells { cells }),
        Err(error) => {
            for id in ids {
                undo(site, parent, &id).await;
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

/// What is asked of a fork.
struct Wish {
    alias: Option<Alias>,
    keep: Option<Keep>,
    ttl_s: Option<u64>,
    reserved: Option<Reserved>,
}

/// The id that a key stands for.
struct Reserved {
    claimed: ClaimedId,
    lock: Box<dyn CellLock>,
}

/// A fork that has its files and was not started yet.
struct Placed {
    cell: StoredCell,
    lock: Box<dyn CellLock>,
}

async fn place(
    site: &Site,
    parent: &StoredCell,
    checkpoint: &CheckpointId,
    Wish { alias, keep, ttl_s, reserved }: Wish,
) -> Result<Placed> {
    site.check_disk_room().await?;
    site.check_disk(&parent.spec.tenant).await?;
    let (ClaimedId { id, origin }, lock) = match reserved {
        Some(Reserved { claimed, lock }) => (claimed, lock),
        None => {
            let id = new_cell_id()?;
            let lock = site.store.lock_cell(&id).await?;
            (ClaimedId { id, origin: Origin::Fresh }, lock)
        }
    };
    let made = site.make_cell_dir(&id, &parent.spec.tenant)?;
    if made == Made::Existed && origin == Origin::Fresh {
        return Err(Error::unavailable("the id of the new cell is taken").hint("try again"));
    }
    let keep = match keep.unwrap_or(parent.spec.keep) {
        kept @ (Keep::Always | Keep::Server) => kept,
        Keep::Holder | Keep::Pool | Keep::Exec | Keep::Ttl => Keep::Ttl,
    };
    let usual_ttl_s = match keep {
        Keep::Ttl | Keep::Server => Some(parent.spec.ttl_s.unwrap_or(site.settings.default_ttl_s)),
        Keep::Always if parent.spec.keep != Keep::Always => None,
        Keep::Always | Keep::Holder | Keep::Pool | Keep::Exec => parent.spec.ttl_s,
    };
    let ttl_s = ttl_s.or(usual_ttl_s);
    let created_at = Timestamp::now();
    // What the operator took from the parent meanwhile, a fork does not bring back.
    let network = site.network_in_force(parent).await?;
    let parents = parent.spec.clone();
    let spec = CellSpec { id: id.clone(), alias, keep, ttl_s, created_at, network, ..parents };
    let cell = StoredCell { spec, isolation: None, ended_at: None, kept: false };
    let made = async {
        site.store.insert_cell(&cell).await?;
        let (forks, records) = (site.checkpointer(parent)?, site.records(&id));
        forks.fork(&parent.spec.id, checkpoint, &cell.spec, &records).await
    };
    match made.await {
        Ok(()) => Ok(Placed { cell, lock }),
        Err(error) => {
            drop(lock);
            undo(site, parent, &id).await;
            Err(error)
        }
    }
}

async fn start(site: &Site, Placed { cell, lock }: Placed) -> Result<Cell> {
    let (isolation, lock) = site.start_cell(&cell, lock).await?;
    drop(lock);
    if cell.spec.keep == Keep::Server {
        site.hold_cell(&cell.spec).await?;
    }
    Ok(Cell::from_spec(&cell.spec, CellState::Ready, Some(isolation)))
}

/// Leaves nothing of a fork that is not wanted.
async fn undo(site: &Site, parent: &StoredCell, id: &CellId) {
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

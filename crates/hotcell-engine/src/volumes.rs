//! What persistent cells leave when they are ended: their files stay with the driver, and a note beside
//! their records says so.

use std::fs;
use std::io;

use hotcell_model::{
    Cell, CellId, CellLock, CellRef, CellSpec, CellState, Error, ErrorCode, Keep, Result,
    StoredCell, Tenants, Timestamp, Volume, VolumeList, VolumeRemove, VolumeRestore,
};
use serde::{Deserialize, Serialize};

use crate::cell_kill::Force;
use crate::fault;
use crate::site::Site;

/// Where it stands beside a cell's records that its files are kept.
const KEPT: &str = "kept.json";

/// That the files of an ended cell are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptNote {
    pub(crate) at: Timestamp,
}

/// Every volume of these tenants, newest first.
pub(crate) async fn volumes_list(site: &Site, tenants: &Tenants) -> Result<VolumeList> {
    let mut volumes = Vec::new();
    for stored in site.list_stored(tenants).await? {
        if let Some(at) = stored.ended_at.filter(|_| stored.kept) {
            volumes.push(site.volume_of(&stored.spec, at).await);
        }
    }
    volumes.sort_by_key(|volume| std::cmp::Reverse(volume.kept_at));
    Ok(VolumeList { volumes })
}

/// Brings an ended cell back. It is there again once it is started.
pub(crate) async fn volume_restore(site: &Site, request: VolumeRestore) -> Result<Cell> {
    let (stored, kept_at, lock) = site.lock_volume(&request.cell).await?;
    let spec = &stored.spec;
    if let Some(ttl) = spec.ttl_s.filter(|ttl| has_passed(spec.created_at, *ttl)) {
        return Err(Error::conflict(format!(
            "the time of cell {} was over after {ttl} s",
            spec.id
        ))
        .hint("remove it with `hotcell volume rm`"));
    }
    site.store.restore_cell(&spec.id).await.map_err(|error| {
        if error.code == ErrorCode::Conflict {
            return error.hint("end the cell that has the name, then try again");
        }
        error
    })?;
    let started = site.start_cell(&stored, lock).await;
    let isolation = match started {
        Ok((isolation, _lock)) => isolation,
        Err(error) => {
            let _lock = site.store.lock_cell(&spec.id).await?;
            // Somebody who knows it was luckier in between.
            if !site.has_supervisor(spec).await.unwrap_or(false) {
                // It may have been awake for a moment.
                site.note_kept(&spec.id, KeptNote { at: Timestamp::now() })?;
                site.store.keep_cell(&spec.id, kept_at).await?;
            }
            return Err(error);
        }
    };
    site.forget_kept(&spec.id)?;
    Ok(Cell::from_spec(spec, CellState::Ready, Some(isolation)))
}

/// Removes what an ended cell left; its records stay for a while.
pub(crate) async fn volume_remove(site: &Site, request: VolumeRemove) -> Result<Volume> {
    let (stored, kept_at, lock) = site.lock_volume(&request.cell).await?;
    let volume = site.volume_of(&stored.spec, kept_at).await;
    site.remove_volume(&stored.spec, Force::Yes, &*lock).await?;
    Ok(volume)
}

impl Site {
    /// Ends a persistent cell that has no supervisor, under its lock, and keeps its files. Whoever dies
    /// after the note is written has done it.
    pub(crate) async fn keep_cell(&self, spec: &CellSpec, _lock: &dyn CellLock) -> Result<Volume> {
        if let Err(error) = self.end_live(&spec.id).await {
            tracing::warn!(cell = %spec.id, %error, "the execs of an ended cell are not in the index");
        }
        self.note_network(&spec.id).await;
        let note = KeptNote { at: Timestamp::now() };
        self.note_kept(&spec.id, note)?;
        self.settle_kept(&spec.id, note).await?;
        Ok(self.volume_of(spec, note.at).await)
    }

    /// Brings the index up to date with a note.
    pub(crate) async fn settle_kept(&self, cell: &CellId, note: KeptNote) -> Result<()> {
        self.store.keep_cell(cell, note.at).await?;
        self.links.forget(cell);
        Ok(())
    }

    /// Removes the files of an ended cell under its lock. What is half removed must not come back: it is
    /// no volume from the beginning, and what whoever dies in the middle leaves is found when what is
    /// known and what is there are compared.
    pub(crate) async fn remove_volume(
        &self,
        spec: &CellSpec,
        force: Force,
        _lock: &dyn CellLock,
    ) -> Result<()> {
        let driver = self.driver(&spec.driver)?;
        let description = driver.check_description(&spec.id).await;
        if force == Force::No {
            description.clone()?;
        }
        if let Err(error) = self.end_live(&spec.id).await {
            tracing::warn!(cell = %spec.id, %error, "the execs of a removed cell are not in the index");
        }
        self.note_network(&spec.id).await;
        self.store.end_cell(&spec.id, Timestamp::now()).await?;
        self.forget_kept(&spec.id)?;
        self.links.forget(&spec.id);
        match description {
            Ok(()) => driver.remove(&spec.id).await,
            Err(_) => driver.remove_unreadable(&spec.id).await,
        }
    }

    /// The volume that is called so, with the lock of its cell.
    async fn lock_volume(
        &self,
        cell: &CellRef,
    ) -> Result<(StoredCell, Timestamp, Box<dyn CellLock>)> {
        let id = self.get_cell_or_ended(cell).await?.spec.id;
        let lock = self.store.lock_cell(&id).await?;
        let stored = self.store.find_cell(&id).await?;
        match stored.map(|stored| (stored.ended_at, stored.kept, stored)) {
            Some((Some(at), true, stored)) => Ok((stored, at, lock)),
            Some((None, _, _)) => Err(Error::conflict(format!("cell {id} has not ended"))
                .hint("end it first with `hotcell kill`")),
            Some((Some(_), false, _)) | None => {
                Err(Error::not_found(format!("nothing is kept of cell {id}"))
                    .hint("list what is kept with `hotcell volume list`"))
            }
        }
    }

    pub(crate) async fn volume_of(&self, spec: &CellSpec, kept_at: Timestamp) -> Volume {
        let disk_bytes = match self.driver(&spec.driver) {
            Ok(driver) => driver.disk_bytes(&spec.id).await.ok().flatten(),
            Err(_) => None,
        };
        Volume {
            cell: spec.id.clone(),
            tenant: spec.tenant.clone(),
            alias: spec.alias.clone(),
            driver: spec.driver.clone(),
            image: spec.image.clone(),
            kept_at,
            expires_at: self.volume_expires_at(spec, kept_at),
            disk_bytes,
        }
    }

    /// What stands beside a cell's records, if its files are kept. One that was woken since is not.
    pub(crate) async fn find_kept(&self, spec: &CellSpec) -> Result<Option<KeptNote>> {
        if spec.keep != Keep::Always {
            return Ok(None);
        }
        let path = self.cell_dir(&spec.id).join(KEPT);
        let note: KeptNote = match fs::read(&path) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(note) => note,
                Err(error) => {
                    tracing::warn!(cell = %spec.id, %error, "a note that files are kept means nothing");
                    return Ok(None);
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fault::io(format_args!("read {}", path.display()), &error)),
        };
        match self.find_journal_end(&spec.id).await {
            Ok(end) => Ok(end.is_none_or(|end| end.at <= note.at).then_some(note)),
            Err(error) => {
                // Only the supervisor of a cell that was woken writes after the note.
                tracing::warn!(cell = %spec.id, %error, "cannot tell whether a cell was woken again");
                Ok(Some(note))
            }
        }
    }

    fn note_kept(&self, cell: &CellId, note: KeptNote) -> Result<()> {
        let path = self.cell_dir(cell).join(KEPT);
        let failed = |error: io::Error| fault::io(format_args!("write {}", path.display()), &error);
        let temporary = path.with_extension(format!("new-{}", std::process::id()));
        let text = serde_json::to_vec(&note).map_err(|error| failed(error.into()))?;
        fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, &path)).map_err(failed)
    }

    fn forget_kept(&self, cell: &CellId) -> Result<()> {
        let path = self.cell_dir(cell).join(KEPT);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(fault::io(format_args!("remove {}", path.display()), &error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Whether the files of an ended cell were kept long enough.
    pub(crate) fn is_kept_too_long(&self, cell: &StoredCell) -> bool {
        let kept_at = cell.ended_at.filter(|_| cell.kept);
        let expires_at = kept_at.and_then(|at| self.volume_expires_at(&cell.spec, at));
        expires_at.is_some_and(|at| at <= Timestamp::now())
    }

    /// When files that are kept go: after their time, or after that of the cell, which does not come back
    /// then.
    fn volume_expires_at(&self, spec: &CellSpec, kept_at: Timestamp) -> Option<Timestamp> {
        let by_keep = self.settings.volume_keep_s.map(|keep| kept_at.plus_seconds(keep));
        let by_ttl = spec.ttl_s.map(|ttl| spec.created_at.plus_seconds(ttl));
        by_keep.into_iter().chain(by_ttl).min()
    }

    /// Removes the files of an ended cell that were kept long enough, unless somebody is at work on it.
    /// Whether it did.
    pub(crate) async fn remove_if_kept_too_long(&self, cell: &CellId) -> Result<bool> {
        let Some(lock) = self.store.try_lock_cell(cell).await? else { return Ok(false) };
        match self.store.find_cell(cell).await? {
            Some(stored) if self.is_kept_too_long(&stored) => {
                self.remove_volume(&stored.spec, Force::No, &*lock).await.map(|()| true)
            }
            Some(_) | None => Ok(false),
        }
    }
}

fn has_passed(from: Timestamp, seconds: u64) -> bool {
    from.plus_seconds(seconds) <= Timestamp::now()
}

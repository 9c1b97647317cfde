//! Brings cells back into the index that it has lost, from the drivers and from what lies on disk.

use std::collections::BTreeMap;
use std::path::Path;

use hotcell_journal::{Entry, JournalError, first_entry, last_entry};
use hotcell_model::{
    CellId, CellSpec, ErrorCode, Keep, LIMITS, Limits, Network, PlacedCell, Result, SessionBounds,
    StoredCell, Tenant, Tenants, Timestamp,
};

use crate::fault;
use crate::journal_end::JournalEnd;
use crate::site::Site;

/// The driver of a cell of which only records are left.
const NO_DRIVER: &str = "none";

/// How much of an index was brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rebuild {
    /// All that is known anywhere.
    Complete,
    /// Something could not be read or written.
    Partial,
}

/// Whether the index knew a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inserted {
    New,
    Known,
}

impl Site {
    /// Rebuilds the index once in this process, and whenever it was begun anew since: the store
    /// replaces a database that is found to be damaged. What cannot be rebuilt is logged: the
    /// request that asked for it finds or does not find what it looks for.
    pub(crate) async fn rebuild_once(&self) {
        let mut rebuilt = self.rebuilt.lock().await;
        if *rebuilt && !self.is_begun_anew().await {
            return;
        }
        *rebuilt = true;
        if self.rebuild().await.0 == Rebuild::Complete
            && let Err(error) = self.store.mark_rebuilt().await
        {
            tracing::warn!(%error, "the index is rebuilt again by the next process");
        }
    }

    /// Every cell of these tenants in the index, which is complete: a listing that came upon damage
    /// is repeated.
    pub(crate) async fn list_stored(&self, tenants: &Tenants) -> Result<Vec<StoredCell>> {
        self.rebuild_once().await;
        let listed = self.store.list_cells(tenants).await?;
        if !self.is_begun_anew().await {
            return Ok(listed);
        }
        self.rebuild_once().await;
        self.store.list_cells(tenants).await
    }

    async fn is_begun_anew(&self) -> bool {
        match self.store.needs_rebuild().await {
            Ok(needs_rebuild) => needs_rebuild,
            Err(error) => {
                tracing::warn!(%error, "whether the index is complete is not known");
                false
            }
        }
    }

    /// Looks for what the index lacks, whatever it says of itself. How many cells it knows more.
    pub(crate) async fn rebuild_now(&self) -> Result<u64> {
        let (outcome, adopted) = self.rebuild().await;
        if outcome == Rebuild::Complete {
            self.store.mark_rebuilt().await?;
        }
        Ok(adopted)
    }

    async fn rebuild(&self) -> (Rebuild, u64) {
        let (mut complete, mut adopted) = (true, 0);
        for driver in &self.drivers {
            let listed = match driver.list().await {
                Ok(listed) => listed,
                Err(error) => {
                    tracing::warn!(driver = driver.name(), %error, "a driver cannot list its cells");
                    complete = false;
                    continue;
                }
            };
            for placed in listed {
                let id = placed.spec.id.clone();
                match self.insert_placed(placed).await {
                    Ok(Inserted::New) => adopted += 1,
                    Ok(Inserted::Known) => {}
                    Err(error) => {
                        tracing::warn!(cell = %id, %error, "a cell stays out of the index");
                        complete = false;
                    }
                }
            }
        }
        // A cell that some driver may have would look as if only its records were left.
        if !complete {
            return (Rebuild::Partial, adopted);
        }
        match self.restore_records().await {
            Ok(()) => (Rebuild::Complete, adopted),
            Err(error) => {
                tracing::warn!(%error, "records without a cell stay out of the index");
                (Rebuild::Partial, adopted)
            }
        }
    }

    /// A cell that has ended, and whose files are kept, says so beside its records.
    async fn insert_placed(&self, placed: PlacedCell) -> Result<Inserted> {
        let PlacedCell { spec, isolation } = placed;
        let kept = self.find_kept(&spec).await?;
        let ended_at = kept.map(|note| note.at);
        self.insert_unknown(&StoredCell { spec, isolation, ended_at, kept: kept.is_some() }).await
    }

    async fn insert_unknown(&self, cell: &StoredCell) -> Result<Inserted> {
        match self.store.find_cell(&cell.spec.id).await? {
            Some(_) => Ok(Inserted::Known),
            None => self.store.insert_cell(cell).await.map(|()| Inserted::New),
        }
    }

    /// Cells that have ended leave only their records; the index shows their execs again.
    async fn restore_records(&self) -> Result<()> {
        for cell in self.cells_on_disk()? {
            if self.store.find_cell(&cell).await?.is_some() {
                continue;
            }
            let ended = match self.find_ended_cell(&cell).await {
                Ok(Some(ended)) => ended,
                Ok(None) => continue,
                // What is nobody's is shown to nobody.
                Err(error) if error.code == ErrorCode::Conflict => {
                    tracing::warn!(%cell, %error, "records stay out of the index");
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.insert_unknown(&ended).await?;
            if let Err(error) = self.end_live(&cell).await {
                tracing::warn!(%cell, %error, "the execs of a cell are not in the index");
            }
        }
        Ok(())
    }

    /// What can be told of a cell from its journal. A directory without one belongs to a cell that
    /// is just being made, and is left alone.
    async fn find_ended_cell(&self, cell: &CellId) -> Result<Option<StoredCell>> {
        let (of, records) = (cell.clone(), self.records(cell));
        let Some(Life { created_at, ended_at }) =
            fault::blocking(move || find_life(&of, &records)).await?
        else {
            return Ok(None);
        };
        let spec = bare_spec(cell.clone(), self.tenant_on_disk(cell)?, created_at);
        Ok(Some(StoredCell { spec, isolation: None, ended_at: Some(ended_at), kept: false }))
    }
}

/// When a cell existed, according to its journal.
struct Life {
    created_at: Timestamp,
    ended_at: Timestamp,
}

/// A journal that cannot be one must not hide the records of other cells. Its cell is taken to end now,
/// so that its records are removed in time.
fn find_life(cell: &CellId, records: &Path) -> Result<Option<Life>> {
    let read = || Ok((first_entry(records)?, last_entry(records)?));
    match read() {
        Ok((first, Some(last))) => {
            let ended_at = JournalEnd::of(&last).at;
            let created_at = first.as_ref().and_then(opened_at).unwrap_or(ended_at);
            Ok(Some(Life { created_at, ended_at }))
        }
        Ok((_, None)) => Ok(None),
        Err(error) if JournalError::is_permanent(&error) => {
            tracing::warn!(%cell, %error, "the execs of a cell that has ended are lost");
            let now = Timestamp::now();
            Ok(Some(Life { created_at: now, ended_at: now }))
        }
        Err(error) => Err(fault::journal(cell, &error)),
    }
}

fn opened_at(entry: &Entry) -> Option<Timestamp> {
    match entry {
        Entry::Opened { at, .. } | Entry::Queued { at, .. } | Entry::Started { at, .. } => {
            Some(*at)
        }
        Entry::Awaited { .. }
        | Entry::Answered { .. }
        | Entry::Kept { .. }
        | Entry::Ended { .. }
        | Entry::Closed { .. } => None,
    }
}

fn bare_spec(id: CellId, tenant: Tenant, created_at: Timestamp) -> CellSpec {
    CellSpec {
        id,
        tenant,
        alias: None,
        driver: NO_DRIVER.to_owned(),
        image: String::new(),
        keep: Keep::Ttl,
        ttl_s: None,
        idle_ttl_s: None,
        sleep_after_s: 0,
        orphan_grace_s: 0,
        limits: Limits {
            memory_mb: LIMITS.default_memory_mb,
            cpus: None,
            pids: LIMITS.default_pids,
            disk_mb: LIMITS.default_disk_mb,
            disk_files: LIMITS.default_disk_files,
        },
        max_running: LIMITS.max_running,
        output_bytes: LIMITS.output_bytes,
        sessions: SessionBounds::default(),
        network: Network::None,
        workspace: None,
        env: BTreeMap::new(),
        secrets: Vec::new(),
        checkpoint_before: None,
        on: BTreeMap::new(),
        labels: BTreeMap::new(),
        created_at,
    }
}

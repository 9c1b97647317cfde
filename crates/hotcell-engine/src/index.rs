//! Keeps the index of execs in step with the journals.

use std::collections::{HashMap, HashSet};

use hotcell_journal::{Entry, ExecTable, JournalTail, read_journal};
use hotcell_model::{
    CellId, EndCause, ErrorCode, Exec, ExecEnd, ExecFilter, ExecId, ExecState, ExecStatusFilter,
    Result, Tenants, Timestamp,
};

use crate::fault;
use crate::journal_end::journal_length;
use crate::noted::Span;
use crate::site::Site;

/// Whether a cell's supervisor is there to go on with its execs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It answers, or it could not be asked.
    Presumed,
    /// There is none.
    Dead,
}

/// Whether the index has what was new in a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Synced {
    Yes,
    /// Some of it: the journal goes on.
    Partly,
    /// Another process was quicker: what was read of the index is not what it was read for.
    Overtaken,
}

impl Site {
    /// Reads what is new in a cell's journal into the index.
    pub(crate) async fn sync(&self, cell: &CellId) -> Result<()> {
        match self.sync_known(cell).await {
            // The index was begun anew under the feet of a process that still has a link.
            Err(error) if error.code == ErrorCode::NotFound => {
                match self.find_stored(cell).await? {
                    Some(_) => self.sync_known(cell).await,
                    None => Err(error),
                }
            }
            synced => synced,
        }
    }

    /// The same for a cell that the index has; the rebuilding of the index itself relies on it.
    async fn sync_known(&self, cell: &CellId) -> Result<()> {
        while self.sync_once(cell).await? != Synced::Yes {}
        Ok(())
    }

    async fn sync_once(&self, cell: &CellId) -> Result<Synced> {
        let (cell_read, records) = (cell.clone(), self.records(cell));
        if journal_length(cell, &records)? == self.store.indexed_bytes(cell).await? {
            return Ok(Synced::Yes);
        }
        // Of many that end at once the first reads for all. Two who read the same would both be in
        // doubt which ends the ledger has.
        let _turn = self.syncs.take(cell.to_string()).await;
        let indexed = self.store.indexed_bytes(cell).await?;
        let length = journal_length(cell, &records)?;
        if length == indexed {
            return Ok(Synced::Yes);
        }
        // A journal that is shorter than what was read from it was begun anew.
        let from = if length < indexed { 0 } else { indexed };
        let tail = fault::blocking(move || {
            read_journal(&records, from).map_err(|error| fault::journal(&cell_read, &error))
        })
        .await?;
        if tail.skipped > 0 {
            tracing::warn!(%cell, lines = tail.skipped, "unreadable lines in the journal");
        }
        if tail.entries.is_empty() && tail.end <= indexed && tail.at_end {
            return Ok(Synced::Yes);
        }
        if from < indexed {
            self.store.put_execs(cell, &[], 0).await?;
        }
        let Some(table) = self.fold(cell, &tail, from).await? else {
            return Ok(Synced::Overtaken);
        };
        let changed = table.changed();
        let span = Span { from, to: tail.end, begun_anew: from < indexed };
        self.note_ends(cell, &changed, span).await;
        self.store.put_execs(cell, &changed, tail.end).await?;
        Ok(if tail.at_end { Synced::Yes } else { Synced::Partly })
    }

    /// Brings the index of a cell up to date, and ends in it what a dead supervisor left.
    pub(crate) async fn settle(&self, cell: &CellId) -> Result<()> {
        self.sync(cell).await?;
        let live = self.live_execs(cell).await?;
        if live.is_empty() || self.liveness(cell).await? == Liveness::Presumed {
            return Ok(());
        }
        self.end_lost(cell, &live).await
    }

    /// Brings the index of a cell up to date that is known to have no supervisor.
    pub(crate) async fn end_live(&self, cell: &CellId) -> Result<()> {
        self.sync_known(cell).await?;
        let live = self.live_execs(cell).await?;
        self.end_lost(cell, &live).await
    }

    /// Ends in the index those of `live` that have no end in the journal. They were known before
    /// the supervisor was found to be gone, so no later supervisor has them.
    pub(crate) async fn end_lost(&self, cell: &CellId, live: &[Exec]) -> Result<()> {
        self.sync_known(cell).await?;
        let mut lost = Vec::new();
        for exec in live {
            match self.store.find_exec(&exec.id).await? {
                Some(exec) if exec.state != ExecState::Ended => {
                    // That it ended is certain, and nothing else.
                    let end = ExecEnd::without_process(EndCause::Lost, Timestamp::now());
                    lost.push(Exec { state: ExecState::Ended, end: Some(end), ..exec });
                }
                Some(_) | None => {}
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        let indexed = self.store.indexed_bytes(cell).await?;
        let span = Span { from: indexed, to: indexed, begun_anew: false };
        self.note_ends(cell, &lost, span).await;
        self.store.put_execs(cell, &lost, indexed).await
    }

    /// The execs of a cell that have no end in the index.
    pub(crate) async fn live_execs(&self, cell: &CellId) -> Result<Vec<Exec>> {
        let filter = ExecFilter {
            tenants: Tenants::All,
            cell: Some(cell.clone()),
            status: Some(ExecStatusFilter::Live),
            limit: u32::MAX,
            before: None,
        };
        self.store.list_execs(&filter).await
    }

    /// Brings the index of every cell of these tenants up to date that has a directory. A cell whose
    /// journal cannot be read does not hide the execs of the others.
    pub(crate) async fn sync_all(&self, tenants: &Tenants) -> Result<()> {
        for stored in self.store.list_cells(tenants).await? {
            let cell = stored.spec.id;
            if !self.cell_dir(&cell).exists() {
                continue;
            }
            if let Err(error) = self.sync(&cell).await {
                tracing::warn!(%cell, %error, "the execs of a cell are not in the index");
            }
        }
        Ok(())
    }

    /// Whether the cell's supervisor is there, asked in a way that keeps the link for later.
    pub(crate) async fn liveness(&self, cell: &CellId) -> Result<Liveness> {
        let Some(stored) = self.find_stored(cell).await? else { return Ok(Liveness::Dead) };
        if stored.ended_at.is_some() {
            return Ok(Liveness::Dead);
        }
        match self.find_link(&stored.spec).await {
            Ok(None) => Ok(Liveness::Dead),
            Ok(Some(_)) => Ok(Liveness::Presumed),
            Err(error) => {
                tracing::debug!(%cell, %error, "a supervisor could not be asked");
                Ok(Liveness::Presumed)
            }
        }
    }

    /// What the execs of a cell come to with the entries after `from`; `None` when the index has
    /// some of these entries already.
    async fn fold(
        &self,
        cell: &CellId,
        tail: &JournalTail,
        from: u64,
    ) -> Result<Option<ExecTable>> {
        let mut table = ExecTable::new(cell.clone());
        if tail.entries.iter().any(|entry| matches!(entry, Entry::Opened { .. })) {
            // A new supervisor ends all that its predecessor left; never what it started itself.
            for exec in self.live_execs(cell).await? {
                table.insert_known(exec);
            }
            if self.store.indexed_bytes(cell).await? != from {
                return Ok(None);
            }
        }
        let mut foreign = HashSet::new();
        for (exec, mention) in mentions(&tail.entries) {
            if table.get(exec).is_some() {
                continue;
            }
            match (self.store.find_exec(exec).await?, mention) {
                (Some(known), _) if known.cell != *cell => {
                    report_foreign(cell, &known);
                    foreign.insert(exec);
                }
                (Some(known), Mention::Later) => table.insert_known(known),
                (Some(_), Mention::Introduced) | (None, _) => {}
            }
        }
        for entry in &tail.entries {
            if entry.exec().is_none_or(|exec| !foreign.contains(exec)) {
                table.apply(entry);
            }
        }
        Ok(Some(table))
    }
}

/// A supervisor writes about execs of its own cell; an entry about another's is damage or forgery.
fn report_foreign(cell: &CellId, exec: &Exec) {
    let (exec, owner) = (&exec.id, &exec.cell);
    tracing::error!(%cell, %exec, %owner, "ignored journal entries about an exec of another cell");
}

/// How entries first mention an exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mention {
    /// As queued.
    Introduced,
    /// With something that happened to it later.
    Later,
}

/// The execs that entries are about.
fn mentions(entries: &[Entry]) -> HashMap<&ExecId, Mention> {
    let mut mentions = HashMap::new();
    for entry in entries {
        if let Some(exec) = entry.exec() {
            mentions.entry(exec).or_insert(match entry {
                Entry::Queued { .. } => Mention::Introduced,
                Entry::Opened { .. }
                | Entry::Awaited { .. }
                | Entry::Answered { .. }
                | Entry::Kept { .. }
                | Entry::Started { .. }
                | Entry::Ended { .. }
                | Entry::Closed { .. } => Mention::Later,
            });
        }
    }
    mentions
}

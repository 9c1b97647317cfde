//! Reads how a cell's journal ends, without reading all of it.

use std::path::Path;

use hotcell_journal::{Entry, last_entry};
use hotcell_model::{CellId, CloseReason, Result, Timestamp};

use crate::fault;
use crate::site::Site;

/// The last thing that a cell's supervisor wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalEnd {
    /// When.
    pub(crate) at: Timestamp,
    /// As what the supervisor ended, if it ended by itself.
    pub(crate) closed: Option<CloseReason>,
}

impl JournalEnd {
    pub(crate) fn of(entry: &Entry) -> Self {
        match entry {
            Entry::Opened { at, .. }
            | Entry::Queued { at, .. }
            | Entry::Awaited { at, .. }
            | Entry::Kept { at, .. }
            | Entry::Started { at, .. } => Self { at: *at, closed: None },
            Entry::Answered { answer, .. } => Self { at: answer.at, closed: None },
            Entry::Ended { end, .. } => Self { at: end.ended_at, closed: None },
            Entry::Closed { reason, at } => Self { at: *at, closed: Some(*reason) },
        }
    }
}

impl Site {
    /// How a cell's journal ends; `None` when no supervisor has written to it.
    pub(crate) async fn find_journal_end(&self, cell: &CellId) -> Result<Option<JournalEnd>> {
        let (cell, records) = (cell.clone(), self.records(cell));
        fault::blocking(move || read_end(&cell, &records)).await
    }
}

/// How long a cell's journal is; zero when there is none.
pub(crate) fn journal_length(cell: &CellId, records: &Path) -> Result<u64> {
    hotcell_journal::journal_length(records).map_err(|error| fault::journal(cell, &error))
}

fn read_end(cell: &CellId, records: &Path) -> Result<Option<JournalEnd>> {
    let last = last_entry(records).map_err(|error| fault::journal(cell, &error))?;
    Ok(last.as_ref().map(JournalEnd::of))
}

//! Reads how a cell's journal ends, without reading all of it.

use std::fs;
use std::io;
use std::path::Path;

use hotcell_journal::{Entry, read_journal};
use hotcell_model::{CellId, CloseReason, Result, Timestamp};

use crate::fault;
use crate::site::Site;

/// How much of the end is read at first; more when the last entry is longer.
const LOOK_BACK: u64 = 16 * 1024;

/// The last thing that a cell's supervisor wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalEnd {
    /// When.
    pub(crate) at: Timestamp,
    /// As what the supervisor ended, if it ended by itself.
    pub(crate) closed: Option<CloseReason>,
}

impl JournalEnd {
    fn of(entry: &Entry) -> Self {
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
    match fs::metadata(records.join("journal")) {
        Ok(found) => Ok(found.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(fault::io(format_args!("look at the journal of cell {cell}"), &error)),
    }
}

fn read_end(cell: &CellId, records: &Path) -> Result<Option<JournalEnd>> {
    let length = journal_length(cell, records)?;
    let mut look_back = LOOK_BACK;
    loop {
        // Where this falls into a line, its rest is skipped as unreadable.
        let from = length.saturating_sub(look_back);
        let tail = read_journal(records, from).map_err(|error| fault::journal(cell, &error))?;
        match tail.entries.last() {
            Some(entry) => return Ok(Some(JournalEnd::of(entry))),
            None if from == 0 => return Ok(None),
            None => look_back = look_back.saturating_mul(8),
        }
    }
}

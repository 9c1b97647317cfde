//! Removes old segments. The head says first from where on entries are kept, so that what is removed
//! by the settings is told from what somebody else removed.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

use hotcell_model::{EntryKind, LedgerEntry, Result, Timestamp};

use crate::files::OrFailed;
use crate::segment::{self, LINE_BYTES, Opening};
use crate::writing::Writer;

impl Writer {
    /// Removes the segments that are older than the settings say, or too many, under the lock. The
    /// one that is written to stays.
    pub(crate) fn retain(&mut self) -> Result<()> {
        let directory = self.places.directory.clone();
        let segments = segment::list(&directory).or_failed("list", &directory)?;
        let keep = self.first_to_keep(&segments);
        let before = self.head.kept_from;
        if keep > before {
            self.head.kept_from = keep;
            let told = LedgerEntry::own(EntryKind::Retention, "removed")
                .with("from", before)
                .with("to", keep - 1);
            if let Err(error) = self.write(&told) {
                self.head.kept_from = before;
                return Err(error);
            }
        }
        // Also what a process left that died right here.
        for first in segments.into_iter().filter(|first| *first < self.head.kept_from) {
            let path = segment::path(&directory, first);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).or_failed("remove", &path);
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// The number of the first entry that is to be kept.
    fn first_to_keep(&self, segments: &[u64]) -> u64 {
        let directory = &self.places.directory;
        let size =
            |first: u64| fs::metadata(segment::path(directory, first)).map_or(0, |it| it.len());
        let kept: Vec<u64> =
            segments.iter().copied().filter(|first| *first >= self.head.kept_from).collect();
        let mut total: u64 = kept.iter().map(|first| size(*first)).sum();
        let mut keep = self.head.kept_from;
        for pair in kept.windows(2) {
            let [first, next] = pair else { break };
            // All of a segment is older than the one after it.
            let is_old = self.settings.keep.is_some_and(|keep| is_older(directory, *next, keep));
            let is_over = self.settings.keep_bytes.is_some_and(|most| total > most);
            if *first >= self.head.segment || !(is_old || is_over) {
                break;
            }
            total = total.saturating_sub(size(*first));
            keep = *next;
        }
        keep
    }
}

fn is_older(directory: &Path, first: u64, than: Duration) -> bool {
    let begun = begun_at(&segment::path(directory, first));
    begun.is_some_and(|at| at.until(Timestamp::now()) > than)
}

/// When a segment was begun, as it says itself.
pub(crate) fn begun_at(path: &Path) -> Option<Timestamp> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(LINE_BYTES as u64).read_to_end(&mut bytes).ok()?;
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    Opening::time(line)
}

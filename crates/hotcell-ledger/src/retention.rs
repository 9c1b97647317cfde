//! Removes old segments. The head says first from where on entries are kept, so that what is removed
//! by the settings is told from what somebody else removed.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use hotcell_model::{EntryKind, Error, LedgerEntry, Result, Timestamp};

use crate::files::OrFailed;
use crate::segment::{self, Opening};
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
        let mut left: u64 = kept.iter().map(|first| size(*first)).sum();
        let mut keep = self.head.kept_from;
        for pair in kept.windows(2) {
            let [first, next] = pair else { break };
            if *first >= self.head.segment {
                break;
            }
            let is_over = self.settings.keep_bytes.is_some_and(|most| left > most);
            left = left.saturating_sub(size(*first));
            if self.settings.keep.is_none() && !is_over {
                break;
            }
            // All of a segment is older than the one after it, and so is all before it.
            let Some(age) = self.age(*next) else { continue };
            let is_old = self.settings.keep.is_some_and(|keep| age > keep);
            let is_old_enough = self.settings.floor.is_none_or(|floor| age > floor);
            // Those after it are younger, and there is less of them.
            if !(is_old || is_over && is_old_enough) {
                break;
            }
            keep = *next;
        }
        keep
    }

    /// How long ago a segment was begun. What it says is only believed with the key: whoever could
    /// make entries old could have them removed.
    fn age(&self, first: u64) -> Option<Duration> {
        let line = segment::first_line(&segment::path(&self.places.directory, first)).ok()?;
        let (opening, _) = Opening::read(&self.keys, &line).ok()?;
        Some(opening.time.until(Timestamp::now()))
    }

    /// Nothing is done for those who are served once there is more of the ledger than there may be.
    pub(crate) fn check_most(&self) -> Result<()> {
        let Some(most) = self.settings.most_bytes else { return Ok(()) };
        let directory = &self.places.directory;
        let segments = segment::list(directory).or_failed("list", directory)?;
        let size =
            |first: &u64| fs::metadata(segment::path(directory, *first)).map_or(0, |it| it.len());
        let total: u64 = segments.iter().map(size).sum();
        if total <= most {
            return Ok(());
        }
        Err(Error::unavailable(format!(
            "the ledger has {} MiB and may have {}: what is younger than ledger.floor_days is not \
             removed for room",
            total >> 20,
            most >> 20
        ))
        .hint(
            "look with `hotcell audit summary` who wrote so much; then raise ledger.most_mb, or \
               lower ledger.floor_days",
        ))
    }
}

/// When a segment was begun, as it says itself.
pub(crate) fn begun_at(path: &Path) -> Option<Timestamp> {
    Opening::time(&segment::first_line(path).ok()?)
}

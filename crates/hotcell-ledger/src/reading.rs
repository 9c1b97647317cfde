//! Reads entries as they stand, without verifying them.

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::Path;

use hotcell_model::{LedgerFilter, LedgerRecord, Result};

use crate::files::OrFailed;
use crate::retention::begun_at;
use crate::segment::{self, lines};

/// Shows every entry that a filter takes, the oldest first.
pub(crate) fn scan(
    directory: &Path,
    filter: &LedgerFilter,
    each: &mut dyn FnMut(LedgerRecord),
) -> Result<()> {
    for first in wanted(directory, filter)? {
        read_segment(directory, first, filter, &mut |record| {
            each(record);
            ControlFlow::Continue(())
        })?;
    }
    Ok(())
}

/// The newest entries that a filter takes, or with `after` the first ones, the oldest first.
pub(crate) fn query(
    directory: &Path,
    filter: &LedgerFilter,
    limit: usize,
) -> Result<Vec<LedgerRecord>> {
    let segments = wanted(directory, filter)?;
    if limit == 0 {
        return Ok(Vec::new());
    }
    if filter.after.is_some() {
        let mut found = Vec::new();
        for first in segments {
            read_segment(directory, first, filter, &mut |record| {
                found.push(record);
                match found.len() == limit {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            })?;
            if found.len() == limit {
                break;
            }
        }
        return Ok(found);
    }
    let mut found: VecDeque<LedgerRecord> = VecDeque::new();
    for first in segments.into_iter().rev() {
        let mut newest = VecDeque::new();
        let room = limit - found.len();
        read_segment(directory, first, filter, &mut |record| {
            if newest.len() == room {
                newest.pop_front();
            }
            newest.push_back(record);
            ControlFlow::Continue(())
        })?;
        newest.append(&mut found);
        found = newest;
        if found.len() == limit {
            break;
        }
    }
    Ok(found.into())
}

/// The segments that can have what a filter takes.
fn wanted(directory: &Path, filter: &LedgerFilter) -> Result<Vec<u64>> {
    let mut segments = segment::list(directory).or_failed("list", directory)?;
    let begun_later = |first: u64, than| {
        begun_at(&segment::path(directory, first)).is_some_and(|begun| begun >= than)
    };
    if let Some(until) = filter.until {
        while segments.last().is_some_and(|first| begun_later(*first, until)) {
            segments.pop();
        }
    }
    // Everything in a segment is before the one after it.
    let is_needless = |next: u64| {
        filter.after.is_some_and(|after| next <= after + 1)
            || filter.since.is_some_and(|since| !begun_later(next, since))
    };
    let needless = segments.iter().skip(1).take_while(|next| is_needless(**next)).count();
    segments.drain(..needless);
    Ok(segments)
}

fn read_segment(
    directory: &Path,
    first: u64,
    filter: &LedgerFilter,
    each: &mut dyn FnMut(LedgerRecord) -> ControlFlow<()>,
) -> Result<()> {
    let path = segment::path(directory, first);
    let bytes = match fs::read(&path) {
        // It was removed meanwhile because it is old.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        bytes => bytes.or_failed("read", &path)?,
    };
    let (whole, _) = lines(&bytes);
    for line in whole.skip(1) {
        let Ok(record) = serde_json::from_slice::<LedgerRecord>(line) else { continue };
        if filter.takes(&record) && each(record).is_break() {
            break;
        }
    }
    Ok(())
}

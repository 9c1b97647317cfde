//! The last lines of a log.

use std::collections::VecDeque;
use std::io;

use hotcell_model::{Dropped, Record, Stream};

use crate::log_place::LogPlace;
use crate::log_reader::{Batch, Ended, MAX_BATCH_ITEMS};
use crate::scan::Step;
use crate::seek::{find_end, seek_tail};

/// Reads on from where the last `max_bytes` are sure to begin after, and keeps no more than the
/// last lines of it.
pub(crate) fn tail_lines(
    place: &LogPlace,
    lines: u64,
    stream: Option<Stream>,
    max_bytes: u64,
) -> io::Result<Batch> {
    let max_bytes = max_bytes.max(1);
    let mut scanner = seek_tail(place, stream, max_bytes)?;
    // Whoever writes faster than this reads has no end but the one that there is now.
    let end = find_end(place)?;
    let mut window = Window { lines, max_bytes, ..Window::default() };
    loop {
        let is_over = end.is_some_and(|end| scanner.is_at(end));
        match scanner.peek(place, Ended::NotYet)? {
            Step::End => break,
            Step::Gap(_) | Step::Record(_) if is_over => {
                return Ok(window.finish(scanner.last()));
            }
            Step::Gap(gap) => window.add_gap(gap),
            Step::Record(view) => {
                if stream.is_none_or(|wanted| wanted == view.stream) {
                    window.add(view.to_record());
                }
            }
        }
        scanner.advance();
    }
    let note = scanner.find_note(place)?;
    let next_seq = note.map_or(scanner.last(), |note| note.to_seq);
    if let Some(note) = note {
        window.add_gap(note);
    }
    Ok(window.finish(next_seq))
}

/// The last lines of records, in order; where they are more than `max_bytes`, the first are cut.
#[must_use]
pub fn last_lines(batch: Batch, lines: u64, max_bytes: u64) -> Batch {
    let mut window = Window { lines, max_bytes: max_bytes.max(1), ..Window::default() };
    batch.dropped.into_iter().for_each(|gap| window.add_gap(gap));
    let gaps = std::mem::take(&mut window.gaps);
    batch.records.into_iter().for_each(|record| window.add(record));
    window.gaps = gaps;
    window.finish(batch.next_seq)
}

/// The last records, as few as hold the lines that are wanted.
#[derive(Debug, Default)]
struct Window {
    lines: u64,
    max_bytes: u64,
    records: VecDeque<Record>,
    gaps: VecDeque<Dropped>,
    newlines: u64,
    bytes: u64,
}

impl Window {
    fn add(&mut self, record: Record) {
        self.newlines += count_newlines(&record.bytes);
        self.bytes += record.bytes.len() as u64;
        self.records.push_back(record);
        while let Some(first) = self.records.front() {
            let newlines = self.newlines - count_newlines(&first.bytes);
            let bytes = self.bytes - first.bytes.len() as u64;
            // The last newline may be the end of the last line: one more marks where the first
            // line that is wanted begins.
            let needless = newlines > self.lines
                || bytes >= self.max_bytes
                || self.records.len() > MAX_BATCH_ITEMS;
            if !needless {
                break;
            }
            (self.newlines, self.bytes) = (newlines, bytes);
            self.records.pop_front();
        }
        let first_seq = self.records.front().map_or(0, |first| first.seq);
        while self.gaps.front().is_some_and(|gap| gap.to_seq < first_seq) {
            self.gaps.pop_front();
        }
    }

    fn add_gap(&mut self, gap: Dropped) {
        self.gaps.push_back(gap);
        if self.gaps.len() > MAX_BATCH_ITEMS
            && let Some(oldest) = self.gaps.pop_front()
            && let Some(next) = self.gaps.front_mut()
        {
            next.from_seq = oldest.from_seq;
            next.dropped_bytes += oldest.dropped_bytes;
        }
    }

    fn finish(mut self, next_seq: u64) -> Batch {
        let mut batch = Batch { at_end: true, ..Batch::after(next_seq) };
        let mut kept = self.bytes_wanted();
        while let Some(mut record) = self.records.pop_back() {
            if kept == 0 {
                break;
            }
            let length = record.bytes.len();
            record.bytes.drain(..length - length.min(kept));
            kept -= record.bytes.len();
            batch.records.push(record);
        }
        batch.records.reverse();
        let first_seq = batch.records.first().map_or(0, |first| first.seq);
        for gap in self.gaps {
            if self.lines > 0 && gap.to_seq > first_seq {
                batch.add_gap(gap, 0);
            }
        }
        batch
    }

    /// How many bytes from the end on belong to the lines that are wanted.
    fn bytes_wanted(&self) -> usize {
        let max_bytes = usize::try_from(self.max_bytes).unwrap_or(usize::MAX);
        if self.lines == 0 {
            return 0;
        }
        let mut to_pass = self.lines;
        let mut bytes = 0;
        for (place, record) in self.records.iter().rev().enumerate() {
            let ends_in_newline = place == 0 && record.bytes.last() == Some(&b'\n');
            for newline in memchr::memrchr_iter(b'\n', &record.bytes) {
                if ends_in_newline && newline + 1 == record.bytes.len() {
                    continue;
                }
                to_pass -= 1;
                if to_pass == 0 {
                    return (bytes + record.bytes.len() - newline - 1).min(max_bytes);
                }
            }
            bytes += record.bytes.len();
        }
        bytes.min(max_bytes)
    }
}

fn count_newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

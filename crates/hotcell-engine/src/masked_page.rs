//! Reads one page of an exec's output for whoever must not see secrets: what is shown, matched and
//! counted is what is left of it, and does not depend on where pages begin and end.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hotcell_journal::{Align, Batch, Ended, LogReader, last_lines};
use hotcell_masking::{REACH_BEFORE, Shapes};
use hotcell_model::{Dropped, ExecId, Record, Stream};
use regex::bytes::Regex;

use crate::page::{MAX_BATCHES, Page, Wanted};
use crate::veil::{Shown, Veil, patience_with};

/// How far before what is shown it is looked.
const REACH: u64 = REACH_BEFORE as u64;
/// How much is read at once of what is searched.
const READ_BYTES: u64 = 1 << 20;
/// How much is read after a page, to tell what its end is.
const AHEAD_BYTES: u64 = 8 * 1024;
const MOST_AHEAD: u32 = 64;
/// What waits is looked at again after this at the soonest.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// A line longer than this is matched in pieces.
const LINE_BYTES: usize = 64 * 1024;

const STREAMS: [Stream; 3] = [Stream::Stdout, Stream::Stderr, Stream::Pty];

/// One page that is being read.
struct Reading<'a> {
    wanted: &'a Wanted,
    reader: LogReader,
    veil: Veil,
    ended: Ended,
    page: Page,
}

impl Wanted {
    /// Reads the page after a seq without what has the form of a secret.
    pub(crate) fn read_masked(
        &self,
        shapes: &Arc<Shapes>,
        records: &Path,
        exec: &ExecId,
        after_seq: u64,
        ended: Ended,
    ) -> io::Result<Page> {
        let reading = Reading {
            wanted: self,
            reader: LogReader::at(records, exec)?,
            veil: Veil::new(shapes),
            ended,
            page: Page::after(after_seq),
        };
        match (self.tail_lines, &self.grep) {
            (None, None) => reading.read_on(),
            (Some(lines), None) => reading.tail(lines),
            (None, Some(pattern)) => reading.grep(pattern, u64::MAX),
            (Some(lines), Some(pattern)) => reading.grep(pattern, lines),
        }
    }
}

impl Reading<'_> {
    /// Reads until there is something of the wanted stream or nothing more at all.
    fn read_on(mut self) -> io::Result<Page> {
        let after_seq = self.page.next_seq;
        let before = self.reader.read_before(after_seq, REACH, Align::Utf8)?;
        self.veil.feed_all(self.of_stream(before));
        let mut bytes = 0;
        for _ in 0..MAX_BATCHES {
            let left = self.wanted.max_bytes.saturating_sub(bytes);
            let batch =
                self.reader.read_after(self.page.next_seq, left, Align::Utf8, self.ended)?;
            let batch = self.take(batch);
            bytes += batch.records.iter().map(|record| record.bytes.len() as u64).sum::<u64>();
            self.push_all(batch);
            if self.page.at_end || self.wanted.stream.is_none() || bytes >= self.wanted.max_bytes {
                break;
            }
        }
        self.look_ahead()?;
        self.settle();
        while let Some(Shown { record, .. }) = self.veil.pop() {
            if !record.bytes.is_empty() {
                self.page.records.push(record);
            }
        }
        Ok(self.up_to_what_waits())
    }

    /// The last lines of what is shown.
    fn tail(mut self, lines: u64) -> io::Result<Page> {
        let after_seq = self.page.next_seq;
        let most = self.wanted.max_bytes;
        let room = most + 2 * REACH;
        // Each stream by itself: secrets are found by what the same stream has before them.
        let mut batch = Batch::default();
        let mut begins = [false; STREAMS.len()];
        for (stream, begins) in STREAMS.into_iter().zip(&mut begins) {
            if self.wanted.stream.is_some_and(|wanted| wanted != stream) {
                continue;
            }
            let tail = self.reader.tail_lines(u64::MAX, Some(stream), room)?;
            // What stands before the first bytes that were read is not known, unless they are the first.
            let bytes: u64 = tail.records.iter().map(|record| record.bytes.len() as u64).sum();
            *begins = bytes < room && !tail.is_crowded() && tail.dropped.is_empty();
            batch.next_seq = batch.next_seq.max(tail.next_seq);
            batch.records.extend(tail.records);
            batch.dropped.extend(tail.dropped);
        }
        batch.records.sort_by_key(|record| record.seq);
        batch.dropped.sort_by_key(|gap| gap.from_seq);
        batch.dropped.dedup();
        let (dropped, next_seq) = (batch.dropped.clone(), batch.next_seq);
        let mut shown = Batch { dropped, next_seq, ..Batch::default() };
        self.page.at_end = true;
        self.push_all(batch);
        self.settle();
        while let Some(Shown { record, start }) = self.veil.pop() {
            let of_stream = STREAMS.into_iter().position(|stream| stream == record.stream);
            let is_known = of_stream.is_some_and(|place| begins[place]) || start >= REACH;
            if is_known && record.seq > after_seq && !record.bytes.is_empty() {
                shown.records.push(record);
            }
        }
        let mut shown = last_lines(shown, lines, most);
        self.page.advance(&mut shown);
        self.page.records = shown.records;
        Ok(self.up_to_what_waits())
    }

    /// The lines that match, the last of them, up to so many bytes.
    fn grep(mut self, pattern: &Regex, most_lines: u64) -> io::Result<Page> {
        let after_seq = self.page.next_seq;
        let reach = REACH + LINE_BYTES as u64;
        let before = self.reader.read_before(after_seq, reach, Align::Raw)?;
        let mut gaps: VecDeque<Dropped> = before.dropped.clone().into();
        let before = self.of_stream(before);
        self.push_all(before);
        let mut lines = Lines::new(pattern, most_lines, self.wanted.max_bytes);
        for _ in 0..MAX_BATCHES {
            let batch =
                self.reader.read_after(self.page.next_seq, READ_BYTES, Align::Raw, self.ended)?;
            gaps.extend(batch.dropped.iter().copied());
            let batch = self.take(batch);
            self.push_all(batch);
            self.settle();
            while let Some(Shown { record, .. }) = self.veil.pop() {
                while gaps.front().is_some_and(|gap| gap.from_seq < record.seq) {
                    lines.cut(Cut::by(gaps.pop_front(), after_seq));
                }
                let seq = record.seq;
                if seq <= after_seq {
                    lines.pass(record);
                } else if lines.feed(record) == Room::None {
                    (self.page.next_seq, self.page.at_end) = (seq - 1, false);
                    self.page.records = lines.found.into();
                    return Ok(self.page);
                }
            }
            if self.page.at_end {
                break;
            }
        }
        for gap in gaps {
            lines.cut(Cut::by(Some(gap), after_seq));
        }
        if self.page.at_end && self.ended == Ended::Yes {
            lines.cut(Cut::Wanted);
        }
        self.page.records = lines.found.into();
        Ok(self.up_to_what_waits())
    }

    /// Moves the page on to where a batch ended; what of it is wanted, with its gaps.
    fn take(&mut self, mut batch: Batch) -> Batch {
        let gaps = batch.dropped.clone();
        self.page.advance(&mut batch);
        self.of_stream(Batch { dropped: gaps, ..batch })
    }

    fn of_stream(&self, mut batch: Batch) -> Batch {
        let wanted = self.wanted.stream;
        batch.records.retain(|record| wanted.is_none_or(|stream| stream == record.stream));
        batch
    }

    fn push_all(&mut self, batch: Batch) {
        let mut gaps = batch.dropped.into_iter().peekable();
        for record in batch.records {
            while gaps.next_if(|gap| gap.from_seq < record.seq).is_some() {
                self.veil.gap();
            }
            self.veil.push(record);
        }
        gaps.for_each(|_| self.veil.gap());
    }

    /// Finds out about the end of a page from what comes after it.
    fn look_ahead(&mut self) -> io::Result<()> {
        let mut after = self.page.next_seq;
        for _ in 0..MOST_AHEAD {
            if self.page.at_end || self.veil.is_settled() {
                return Ok(());
            }
            let batch = self.reader.read_after(after, AHEAD_BYTES, Align::Utf8, self.ended)?;
            after = batch.next_seq;
            let at_end = batch.at_end;
            let batch = self.of_stream(batch);
            self.veil.feed_all(batch);
            if at_end {
                if self.ended == Ended::Yes {
                    self.veil.finish();
                }
                return Ok(());
            }
        }
        self.veil.skip();
        Ok(())
    }

    /// Settles what nothing comes after, and what has waited for long enough.
    fn settle(&mut self) {
        if self.page.at_end && self.ended == Ended::Yes {
            self.veil.finish();
        }
        if self.page.at_end
            && let Some(first) = self.veil.first_unsettled()
            && patience_with(first.ts).is_none()
        {
            self.veil.release();
        }
    }

    /// The page, which ends before what still waits.
    fn up_to_what_waits(mut self) -> Page {
        if let Some(first) = self.veil.first_unsettled() {
            self.page.waits = Some(patience_with(first.ts).unwrap_or(LEAST_WAIT));
            self.page.next_seq = self.page.after_seq.max(first.seq.saturating_sub(1));
        }
        self.page
    }
}

/// Whether there is room for more on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Some,
    None,
}

/// Where lines end before their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// Before what is wanted.
    Before,
    Wanted,
}

impl Cut {
    fn by(gap: Option<Dropped>, after_seq: u64) -> Self {
        if gap.is_some_and(|gap| gap.to_seq > after_seq) { Self::Wanted } else { Self::Before }
    }
}

/// Lines put together from records, and those of them that match.
struct Lines<'a> {
    pattern: &'a Regex,
    partial: [Option<Record>; 3],
    found: VecDeque<Record>,
    bytes: u64,
    /// Only the last of them; all up to a bound in bytes when it is the largest number.
    most_lines: u64,
    most_bytes: u64,
}

impl<'a> Lines<'a> {
    fn new(pattern: &'a Regex, most_lines: u64, most_bytes: u64) -> Self {
        let (partial, found) = (Default::default(), VecDeque::new());
        Self { pattern, partial, found, bytes: 0, most_lines, most_bytes }
    }

    /// Takes a record that lies before what is wanted: a line may begin in it.
    fn pass(&mut self, record: Record) {
        let place = place(record.stream);
        let newline = record.bytes.iter().rposition(|byte| *byte == b'\n');
        match (&mut self.partial[place], newline) {
            (partial, Some(newline)) => {
                let bytes = record.bytes[newline + 1..].to_vec();
                *partial = (!bytes.is_empty()).then_some(Record { bytes, ..record });
            }
            (Some(partial), None) => partial.bytes.extend_from_slice(&record.bytes),
            (partial @ None, None) => *partial = Some(record),
        }
        if let Some(partial) = &mut self.partial[place] {
            let rest = partial.bytes.len() % LINE_BYTES;
            partial.bytes.drain(..partial.bytes.len() - rest);
        }
    }

    /// Takes the next record, unless there is no room for its lines.
    fn feed(&mut self, record: Record) -> Room {
        let Record { seq, ts, stream, bytes } = record;
        let (found, length) = (self.found.len(), self.bytes);
        let begun = self.partial[place(stream)].take();
        let undo = begun.clone();
        let mut line = begun.map(|partial| partial.bytes).unwrap_or_default();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            while line.len() >= LINE_BYTES || line.ends_with(b"\n") {
                let rest = line.split_off(line.len().min(LINE_BYTES));
                self.line(Record { seq, ts, stream, bytes: line });
                line = rest;
            }
        }
        let is_all = self.most_lines == u64::MAX;
        if is_all && found > 0 && self.bytes > self.most_bytes {
            self.found.truncate(found);
            self.bytes = length;
            self.partial[place(stream)] = undo;
            return Room::None;
        }
        self.partial[place(stream)] =
            (!line.is_empty()).then_some(Record { seq, ts, stream, bytes: line });
        Room::Some
    }

    /// Ends every line where it is, and matches it if it is wanted.
    fn cut(&mut self, after: Cut) {
        for line in std::mem::take(&mut self.partial).into_iter().flatten() {
            if after == Cut::Wanted {
                self.line(line);
            }
        }
    }

    fn line(&mut self, line: Record) {
        let text = line.bytes.strip_suffix(b"\n").unwrap_or(&line.bytes);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if !self.pattern.is_match(text) {
            return;
        }
        self.bytes += line.bytes.len() as u64;
        self.found.push_back(line);
        let only_last = self.most_lines < u64::MAX;
        while only_last
            && (self.found.len() as u64 > self.most_lines
                || (self.bytes > self.most_bytes && self.found.len() > 1))
            && let Some(oldest) = self.found.pop_front()
        {
            self.bytes -= oldest.bytes.len() as u64;
        }
    }
}

fn place(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
        Stream::Pty => 2,
    }
}

//! Reading a log: a cursor that many may have at once, while it is written and after.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use hotcell_model::{Dropped, ExecId, Record, Stream};
use regex::bytes::Regex;

use crate::align::Utf8Aligner;
use crate::grep::GrepCursor;
use crate::log_place::LogPlace;
use crate::record_file::open_records;
use crate::scan::{Scanner, Step, View};
use crate::seek::{Reach, seek};
use crate::segment::{STREAMS, stream_index};
use crate::tail;

/// The most records and gaps in one batch: what many tiny records take in memory is bounded too.
pub(crate) const MAX_BATCH_ITEMS: usize = 32 * 1024;
/// How many records a cursor passes over before looking for the place is worth its while.
const SKIP_RECORDS: u64 = 256;

/// Whether a character that was split between records is made whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Records as they were read from the exec.
    Raw,
    /// The start of a character goes from the end of a record to the front of the next record of
    /// its stream, whichever cursor reads that one. At the end of what there is it is held back
    /// unless the output has ended.
    Utf8,
}

/// Whether the output is complete. To be found out before reading, not after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// No more comes: what is torn stays torn, what is unfinished is finished.
    Yes,
    /// More may come.
    NotYet,
}

/// A part of the output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// The records, in order.
    pub records: Vec<Record>,
    /// What is missing among them or after them.
    pub dropped: Vec<Dropped>,
    /// What to read after to go on: the last seq looked at, missing ones included.
    pub next_seq: u64,
    /// Whether there was nothing after `next_seq` when this was read.
    pub at_end: bool,
}

impl Batch {
    pub(crate) fn after(seq: u64) -> Self {
        Self { next_seq: seq, ..Self::default() }
    }

    /// Whether it holds no more parts because that would be too many.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.records.len() + self.dropped.len() >= MAX_BATCH_ITEMS
    }

    /// Adds the part of a gap that is after `after`. Of one that began before, the bytes that
    /// belong to this part are not known, so it gets its share.
    pub(crate) fn add_gap(&mut self, gap: Dropped, after: u64) {
        if gap.to_seq <= after {
            return;
        }
        // A gap of a hostile log may end before it begins.
        let from_seq = gap.from_seq.max(after + 1).min(gap.to_seq);
        let all = u128::from(gap.to_seq.saturating_sub(gap.from_seq)) + 1;
        let part = u128::from(gap.to_seq - from_seq) + 1;
        let bytes = u128::from(gap.dropped_bytes) * part / all;
        let dropped_bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        match self.dropped.last_mut() {
            Some(last) if last.to_seq.checked_add(1) == Some(from_seq) => {
                last.to_seq = gap.to_seq;
                last.dropped_bytes = last.dropped_bytes.saturating_add(dropped_bytes);
            }
            _ => self.dropped.push(Dropped { dropped_bytes, from_seq, to_seq: gap.to_seq }),
        }
    }
}

/// A cursor in the log of one exec. It costs a descriptor, and another while it stands in the
/// middle of the log; the place where it stands is remembered, so that reading on does not search.
#[derive(Debug)]
pub struct LogReader {
    place: LogPlace,
    read: ReadCursor,
    grep: GrepCursor,
}

#[derive(Debug, Default)]
struct ReadCursor {
    scanner: Scanner,
    aligner: Utf8Aligner,
}

impl LogReader {
    /// A reader below the records directory. The exec need not have printed anything yet.
    ///
    /// # Errors
    /// The descriptor cannot be duplicated.
    pub fn open(records: BorrowedFd<'_>, exec: &ExecId) -> io::Result<Self> {
        Ok(Self::new(records.try_clone_to_owned()?, exec))
    }

    /// A reader below the records directory at this path.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn at(records: &Path, exec: &ExecId) -> io::Result<Self> {
        Ok(Self::new(open_records(records)?, exec))
    }

    fn new(records: OwnedFd, exec: &ExecId) -> Self {
        Self {
            place: LogPlace::new(records, exec),
            read: ReadCursor::default(),
            grep: GrepCursor::default(),
        }
    }

    /// Records with a seq past `after_seq`: one if there is one, then up to `max_bytes` (and, of
    /// tiny records, not more than memory allows). `after_seq` may be anything, also before what
    /// was read last. Aligned records that would be empty are left out. Bytes held back of a
    /// record that was read before the output had ended come, once it has, with the seq of that
    /// record, which is not past `after_seq`: loop until `at_end`, not until there is no record.
    ///
    /// # Errors
    /// The log cannot be read, or a newer Hotcell wrote it.
    pub fn read_after(
        &mut self,
        after_seq: u64,
        max_bytes: u64,
        align: Align,
        ended: Ended,
    ) -> io::Result<Batch> {
        self.read.move_to(&self.place, after_seq)?;
        let ReadCursor { scanner, aligner } = &mut self.read;
        let mut batch = Batch::after(after_seq);
        let mut room = max_bytes;
        // With no room left even the next record's size is not worth a look at the file.
        while !batch.is_crowded() && (room > 0 || batch.records.is_empty()) {
            match scanner.peek(&self.place, ended)? {
                Step::End => {
                    batch.at_end = true;
                    break;
                }
                Step::Gap(gap) => batch.add_gap(gap, after_seq),
                Step::Record(view) if view.seq <= after_seq => {
                    aligner.observe(view.stream, view.seq, view.ts, view.bytes);
                }
                Step::Record(view) => {
                    let bytes = view.bytes.len() as u64;
                    if bytes > room && !batch.records.is_empty() {
                        break;
                    }
                    room = room.saturating_sub(bytes);
                    let record = view.align(aligner, align);
                    if !record.bytes.is_empty() {
                        batch.records.push(record);
                    }
                }
            }
            scanner.advance();
        }
        scanner.release();
        batch.next_seq = scanner.last().max(after_seq);
        if batch.at_end && ended == Ended::Yes && align == Align::Utf8 {
            finish(aligner, &mut batch.records);
        }
        Ok(batch)
    }

    /// The last records up to `seq`: of each stream at least so many bytes, if they are there and not
    /// too far back. What comes after them is read on from here without a search.
    ///
    /// # Errors
    /// The log cannot be read, or a newer Hotcell wrote it.
    pub fn read_before(&mut self, seq: u64, bytes: u64, align: Align) -> io::Result<Batch> {
        if seq == 0 {
            return Ok(Batch::default());
        }
        self.read = ReadCursor::default();
        self.read.move_to(&self.place, seq)?;
        let begins_later = self.read.scanner.last() > 0;
        let last = self.read.pass(&self.place, seq, bytes, align)?;
        let length: u64 = last.records.iter().map(|record| record.bytes.len() as u64).sum();
        if length >= bytes || !begins_later {
            return Ok(last);
        }
        self.read.begin_at(seek(&self.place, seq, Reach::Before(bytes))?);
        self.read.pass(&self.place, seq, bytes, align)
    }

    /// The last lines of the output so far, or of one of its streams, in order. Where they are more
    /// than `max_bytes`, the first are cut. Several streams count as one text, as on a terminal.
    ///
    /// # Errors
    /// The log cannot be read, or a newer Hotcell wrote it.
    pub fn tail_lines(
        &mut self,
        lines: u64,
        stream: Option<Stream>,
        max_bytes: u64,
    ) -> io::Result<Batch> {
        tail::tail_lines(&self.place, lines, stream, max_bytes)
    }

    /// The lines that match and end in a record past `after_seq`: one if there is one, then up to
    /// `max_bytes`. Each is one record, its newline included, with the seq and time of the record
    /// in which it ends. The lines of each stream are put together apart from the others', from
    /// before `after_seq` too. A line is matched without its line end, and one longer than 64 KiB
    /// in pieces. An unfinished line waits for its end, be it that of the output, and is cut by a
    /// gap; such a line can have a seq that is not past `after_seq`.
    ///
    /// # Errors
    /// The log cannot be read, or a newer Hotcell wrote it.
    pub fn grep(
        &mut self,
        pattern: &Regex,
        stream: Option<Stream>,
        after_seq: u64,
        max_bytes: u64,
        ended: Ended,
    ) -> io::Result<Batch> {
        self.grep.move_to(&self.place, after_seq)?;
        self.grep
            .read(&self.place, &crate::grep::Query { pattern, stream, after_seq, max_bytes, ended })
    }
}

impl ReadCursor {
    fn move_to(&mut self, place: &LogPlace, after: u64) -> io::Result<()> {
        if !is_near(&self.scanner, after) {
            self.begin_at(seek(place, after, Reach::Record)?);
        }
        Ok(())
    }

    fn begin_at(&mut self, scanner: Scanner) {
        self.scanner = scanner;
        let held = self.scanner.header().map(|header| header.held);
        self.aligner = held.map_or_else(Utf8Aligner::new, Utf8Aligner::holding);
    }

    /// Passes what is up to `seq`, and keeps the last of each stream.
    fn pass(&mut self, place: &LogPlace, seq: u64, bytes: u64, align: Align) -> io::Result<Batch> {
        let mut batch = Batch::after(seq);
        let mut kept: [(VecDeque<Record>, u64); 3] = Default::default();
        while self.scanner.last() < seq {
            match self.scanner.peek(place, Ended::NotYet)? {
                Step::End => break,
                Step::Gap(gap) => batch.add_gap(gap, 0),
                Step::Record(view) if view.seq > seq => break,
                Step::Record(view) => {
                    let (records, length) = &mut kept[stream_index(view.stream)];
                    let record = view.align(&mut self.aligner, align);
                    *length += record.bytes.len() as u64;
                    records.push_back(record);
                    while let Some(first) = records.front()
                        && (*length - first.bytes.len() as u64 >= bytes
                            || records.len() > MAX_BATCH_ITEMS)
                    {
                        *length -= first.bytes.len() as u64;
                        records.pop_front();
                    }
                }
            }
            self.scanner.advance();
        }
        self.scanner.release();
        batch.records = kept.into_iter().flat_map(|(records, _)| records).collect();
        batch.records.sort_by_key(|record| record.seq);
        Ok(batch)
    }
}

/// Whether a scanner gets to the records after `after` by going on from where it is.
pub(crate) fn is_near(scanner: &Scanner, after: u64) -> bool {
    (scanner.last()..=scanner.last() + SKIP_RECORDS).contains(&after)
}

impl View<'_> {
    pub(crate) fn to_record(self) -> Record {
        Record { seq: self.seq, ts: self.ts, stream: self.stream, bytes: self.bytes.to_vec() }
    }

    fn align(self, aligner: &mut Utf8Aligner, align: Align) -> Record {
        match align {
            Align::Raw => {
                aligner.observe(self.stream, self.seq, self.ts, self.bytes);
                self.to_record()
            }
            Align::Utf8 => aligner.push(self.to_record()),
        }
    }
}

/// Gives back what is held to the last record of its stream, or as a record of its own where that
/// one was read before.
fn finish(aligner: &mut Utf8Aligner, records: &mut Vec<Record>) {
    for stream in STREAMS {
        let Some(held) = aligner.take(stream) else { continue };
        match records.iter_mut().rev().find(|record| record.stream == stream) {
            Some(last) => last.bytes.extend_from_slice(&held.bytes),
            None => records.push(held),
        }
    }
}

//! Lines that match, put together from records.

use std::io;

use hotcell_model::{Record, Stream, Timestamp};
use regex::bytes::Regex;

use crate::log_place::LogPlace;
use crate::log_reader::{Batch, Ended, is_near};
use crate::scan::{Scanner, Step, View};
use crate::seek::{Reach, seek};
use crate::segment::{LINE_PIECE_BYTES, STREAMS, stream_index};

const PIECE: usize = LINE_PIECE_BYTES as usize;

/// What is looked for.
#[derive(Debug)]
pub(crate) struct Query<'a> {
    pub(crate) pattern: &'a Regex,
    pub(crate) stream: Option<Stream>,
    pub(crate) after_seq: u64,
    pub(crate) max_bytes: u64,
    pub(crate) ended: Ended,
}

impl Query<'_> {
    fn matches(&self, stream: Stream, line: &[u8]) -> bool {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        self.stream.is_none_or(|wanted| wanted == stream) && self.pattern.is_match(text)
    }
}

/// A cursor that knows the unfinished line of each stream.
#[derive(Debug, Default)]
pub(crate) struct GrepCursor {
    scanner: Scanner,
    partials: [Partial; 3],
}

/// A line whose end has not come yet.
#[derive(Debug, Clone, Default)]
struct Partial {
    bytes: Vec<u8>,
    /// How much of it was before the place from which it was read.
    unseen: usize,
    /// The last record that it is in.
    seq: u64,
    ts: Timestamp,
}

impl GrepCursor {
    /// Goes to where the lines begin that are unfinished after `after`.
    pub(crate) fn move_to(&mut self, place: &LogPlace, after: u64) -> io::Result<()> {
        if !is_near(&self.scanner, after) {
            self.scanner = seek(place, after, Reach::Line)?;
            self.partials = self.partials_at_segment();
        }
        Ok(())
    }

    /// Nothing but how far into its line each stream is where the current segment begins.
    fn partials_at_segment(&self) -> [Partial; 3] {
        let unseen = self.scanner.header().map_or([0; 3], |header| {
            std::array::from_fn(|index| {
                let unseen = header.before[index].saturating_sub(header.line_starts[index]);
                usize::try_from(unseen).unwrap_or(0) % PIECE
            })
        });
        unseen.map(|unseen| Partial { unseen, ..Partial::default() })
    }

    pub(crate) fn read(&mut self, place: &LogPlace, query: &Query<'_>) -> io::Result<Batch> {
        let mut batch = Batch::after(query.after_seq);
        let mut bytes = 0;
        while !batch.is_crowded() {
            match self.scanner.peek(place, query.ended)? {
                Step::End => {
                    batch.at_end = true;
                    break;
                }
                Step::Gap(gap) => {
                    batch.add_gap(gap, query.after_seq);
                    for (stream, partial) in STREAMS.into_iter().zip(&mut self.partials) {
                        let cut = partial.end(stream);
                        if gap.to_seq > query.after_seq {
                            batch
                                .records
                                .extend(cut.filter(|line| query.matches(stream, &line.bytes)));
                        }
                    }
                    self.scanner.advance();
                    continue;
                }
                Step::Record(view) => {
                    let partial = &mut self.partials[stream_index(view.stream)];
                    if !take(view, partial, query, &mut batch.records, &mut bytes) {
                        break;
                    }
                }
            }
            self.scanner.advance();
        }
        self.scanner.release();
        if batch.at_end && query.ended == Ended::Yes {
            for (stream, partial) in STREAMS.into_iter().zip(&mut self.partials) {
                let line = partial.end(stream);
                batch.records.extend(line.filter(|line| query.matches(stream, &line.bytes)));
            }
        }
        batch.next_seq = self.scanner.last().max(query.after_seq);
        Ok(batch)
    }
}

/// Takes in a record; false, and nothing is taken in, if its lines are more than there is room for.
fn take(
    view: View<'_>,
    partial: &mut Partial,
    query: &Query<'_>,
    records: &mut Vec<Record>,
    bytes: &mut u64,
) -> bool {
    if view.seq <= query.after_seq {
        partial.feed(view, |_| {});
        return true;
    }
    let found = records.len();
    let at_most = *bytes + (partial.bytes.len() + view.bytes.len()) as u64;
    let undo = (found > 0 && at_most > query.max_bytes).then(|| partial.clone());
    let mut total = *bytes;
    partial.feed(view, |line| {
        if query.matches(view.stream, line) {
            total += line.len() as u64;
            records.push(View { bytes: line, ..view }.to_record());
        }
    });
    if let Some(undo) = undo
        && total > query.max_bytes
    {
        *partial = undo;
        records.truncate(found);
        return false;
    }
    *bytes = total;
    true
}

impl Partial {
    /// Adds a record's bytes and hands out each line, or piece of one, that ends in them.
    fn feed(&mut self, view: View<'_>, mut line_ended: impl FnMut(&[u8])) {
        let mut rest = view.bytes;
        while !rest.is_empty() {
            let room = PIECE - self.unseen - self.bytes.len();
            let within = &rest[..rest.len().min(room)];
            let newline = memchr::memchr(b'\n', within);
            let (line, after) = rest.split_at(newline.map_or(within.len(), |at| at + 1));
            rest = after;
            if newline.is_none() && line.len() < room {
                self.bytes.extend_from_slice(line);
                (self.seq, self.ts) = (view.seq, view.ts);
                return;
            }
            if self.bytes.is_empty() {
                line_ended(line);
            } else {
                self.bytes.extend_from_slice(line);
                line_ended(&self.bytes);
                self.bytes.clear();
            }
            self.unseen = 0;
        }
    }

    /// Ends the line where it is.
    fn end(&mut self, stream: Stream) -> Option<Record> {
        let Self { bytes, seq, ts, .. } = std::mem::take(self);
        (!bytes.is_empty()).then_some(Record { seq, ts, stream, bytes })
    }
}

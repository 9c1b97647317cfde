//! Walking through a log record by record, across segments, gaps and damage.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use hotcell_model::{Dropped, Stream, Timestamp};

use crate::log_place::{LogPlace, MAX_SEGMENT_BYTES, read_at, size_of};
use crate::log_reader::Ended;
use crate::seek::LogEnd;
use crate::segment::{
    Body, HEAD_BYTES, HEADER_BYTES, HeaderRead, MAX_RECORD_BYTES, Parsed, SegmentHeader,
    find_record, parse,
};

/// What is read from a file at once: some of the largest records, the last of them whole.
const CHUNK_BYTES: usize = 4 * MAX_RECORD_BYTES;

/// What comes next in a log.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// A record.
    Record(View<'a>),
    /// Output that was not kept or cannot be read.
    Gap(Dropped),
    /// Nothing, for now.
    End,
}

/// A record, not copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) seq: u64,
    pub(crate) ts: Timestamp,
    pub(crate) stream: Stream,
    pub(crate) bytes: &'a [u8],
}

/// A place in a log, and the way onwards.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    /// The last seq passed, gaps included.
    last: u64,
    /// Bytes of all streams up to `last`.
    total: u64,
    segment: Option<Current>,
    found: Option<Found>,
    buffer: Vec<u8>,
    /// Where in the file the buffer begins.
    buffer_offset: u64,
}

/// The segment that is being read.
#[derive(Debug)]
struct Current {
    name: u64,
    file: OwnedFd,
    /// None where it is damaged.
    header: Option<SegmentHeader>,
    offset: u64,
    payload: u64,
    /// The end of the file when it was last read to the end.
    read_to: u64,
    /// Whether damage was met, so that `payload` may be too small.
    damaged: bool,
}

/// What `find` found and `advance` has not passed yet.
#[derive(Debug)]
enum Found {
    Record { seq: u64, ts: Timestamp, stream: Stream, bytes: Range<usize> },
    Gap(Dropped),
}

/// What lies at the current place of the current segment.
#[derive(Debug, PartialEq, Eq)]
enum Here {
    Found,
    /// The end of the file.
    Clean,
    /// The beginning of what may become a record.
    Torn,
    Bad,
}

/// How entering a segment came out.
#[derive(Debug, PartialEq, Eq)]
enum Entered {
    Yes,
    Missing,
    NotReady,
}

impl Scanner {
    /// At the start of a segment, as if everything before had been passed.
    pub(crate) fn at_segment(name: u64, file: OwnedFd, header: SegmentHeader) -> Self {
        Self {
            last: header.first_seq.saturating_sub(1),
            total: header.total_before(),
            segment: Some(Current::new(name, file, Some(header))),
            ..Self::default()
        }
    }

    /// The last seq passed.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Bytes of all streams up to there, those that were not kept included.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Whether everything before an end was passed.
    pub(crate) fn is_at(&self, end: LogEnd) -> bool {
        self.segment.as_ref().is_some_and(|segment| {
            segment.name > end.name || (segment.name == end.name && segment.offset >= end.size)
        })
    }

    /// The header of the current segment.
    pub(crate) fn header(&self) -> Option<&SegmentHeader> {
        self.segment.as_ref().and_then(|segment| segment.header.as_ref())
    }

    /// What comes next; it is passed by [`Scanner::advance`].
    pub(crate) fn peek(&mut self, place: &LogPlace, ended: Ended) -> io::Result<Step<'_>> {
        if self.found.is_none() {
            self.find(place, ended)?;
        }
        Ok(match &self.found {
            Some(Found::Record { seq, ts, stream, bytes }) => {
                let bytes = &self.buffer[bytes.clone()];
                Step::Record(View { seq: *seq, ts: *ts, stream: *stream, bytes })
            }
            Some(Found::Gap(dropped)) => Step::Gap(*dropped),
            None => Step::End,
        })
    }

    /// Passes what was found.
    pub(crate) fn advance(&mut self) {
        match self.found.take() {
            Some(Found::Record { seq, bytes, .. }) => {
                self.last = self.last.max(seq);
                self.total = self.total.saturating_add(bytes.len() as u64);
                if let Some(segment) = &mut self.segment {
                    segment.offset += (HEAD_BYTES + bytes.len()) as u64;
                    segment.payload += bytes.len() as u64;
                }
            }
            Some(Found::Gap(dropped)) => {
                self.last = self.last.max(dropped.to_seq);
                self.total = self.total.saturating_add(dropped.dropped_bytes);
            }
            None => {}
        }
    }

    /// Frees the buffer until the next use.
    pub(crate) fn release(&mut self) {
        if matches!(self.found, Some(Found::Record { .. })) {
            self.found = None;
        }
        self.buffer = Vec::new();
    }

    /// Finds the statement that a full disk kept out of the segments.
    pub(crate) fn find_note(&mut self, place: &LogPlace) -> io::Result<Option<Dropped>> {
        let note = place.find_note()?.filter(|note| note.to_seq > self.last);
        Ok(note.map(|note| Dropped {
            dropped_bytes: note.total_bytes.saturating_sub(self.total),
            from_seq: self.last + 1,
            to_seq: note.to_seq,
        }))
    }

    fn find(&mut self, place: &LogPlace, ended: Ended) -> io::Result<()> {
        while self.found.is_none() {
            if self.segment.is_none() {
                let onwards = match self.enter(place, self.last + 1)? {
                    Entered::Yes => true,
                    Entered::NotReady => self.skip_to_later(place)?,
                    Entered::Missing => false,
                };
                if onwards {
                    continue;
                }
                return self.find_at_end(place, ended);
            }
            let onwards = match self.read_current()? {
                Here::Found => true,
                Here::Clean => self.may_be_followed(ended) && self.cross(place)?,
                Here::Torn => {
                    let sealed = ended == Ended::Yes
                        || (self.may_be_sealed()? && self.later(place)?.is_some());
                    // It may have been torn only because it was just being written.
                    sealed
                        && (self.read_current()? == Here::Found
                            || self.resync()?
                            || self.cross(place)?)
                }
                Here::Bad => self.resync()? || self.cross(place)?,
            };
            if !onwards {
                return self.find_at_end(place, ended);
            }
        }
        Ok(())
    }

    /// Looks at the current place, three times before it calls it bad: the writer may be writing a
    /// record again that a full disk tore.
    fn read_current(&mut self) -> io::Result<Here> {
        let mut here = self.parse_buffer();
        if here == Here::Clean && (1..CHUNK_BYTES).contains(&self.buffer.len()) {
            // The buffer ended where the file did, moments ago.
            return Ok(here);
        }
        for _ in 0..2 {
            if here == Here::Found {
                break;
            }
            self.fill()?;
            here = self.parse_buffer();
            if here == Here::Clean {
                break;
            }
        }
        Ok(here)
    }

    fn fill(&mut self) -> io::Result<()> {
        let Some(segment) = &mut self.segment else { return Ok(()) };
        self.buffer.clear();
        self.buffer.reserve_exact(CHUNK_BYTES);
        self.buffer_offset = segment.offset;
        let read = read_segment(&segment.file, &mut self.buffer, segment.offset)?;
        segment.read_to = segment.offset + read as u64;
        Ok(())
    }

    fn parse_buffer(&mut self) -> Here {
        let Some(segment) = &mut self.segment else { return Here::Clean };
        let start = usize::try_from(segment.offset - self.buffer_offset).unwrap_or(usize::MAX);
        let window = self.buffer.get(start..).unwrap_or_default();
        if window.is_empty() {
            return Here::Clean;
        }
        let record = match parse(window) {
            Parsed::Whole(record) => record,
            Parsed::Torn => return Here::Torn,
            Parsed::Bad => return Here::Bad,
        };
        let next = self.last + 1;
        self.found = Some(match record.body {
            Body::Gap { dropped_bytes, .. } => {
                segment.offset += record.size as u64;
                Found::Gap(Dropped { dropped_bytes, from_seq: next, to_seq: record.seq })
            }
            // Only after a header that cannot be read: how much is missing is not known.
            Body::Output(_) if record.seq > next => {
                Found::Gap(Dropped { dropped_bytes: 0, from_seq: next, to_seq: record.seq - 1 })
            }
            Body::Output(stream) => Found::Record {
                seq: record.seq,
                ts: record.ts,
                stream,
                bytes: start + HEAD_BYTES..start + record.size,
            },
        });
        Here::Found
    }

    /// Finds the next whole record after damage, in the current segment.
    fn resync(&mut self) -> io::Result<bool> {
        let Some(segment) = &mut self.segment else { return Ok(false) };
        segment.damaged = true;
        let damage = segment.offset;
        let mut base = damage + 1;
        let mut window = Vec::with_capacity(CHUNK_BYTES);
        let at = loop {
            window.clear();
            let read = read_segment(&segment.file, &mut window, base)?;
            segment.read_to = base + read as u64;
            let last_window = window.len() < CHUNK_BYTES;
            let limit = if last_window { window.len() } else { CHUNK_BYTES - MAX_RECORD_BYTES };
            if let Some(at) = find_record(&window, limit, self.last) {
                break at;
            }
            if last_window {
                return Ok(false);
            }
            base += limit as u64;
        };
        let Parsed::Whole(record) = parse(&window[at..]) else { return Ok(false) };
        segment.offset = base + at as u64;
        let resumes = match record.body {
            Body::Output(_) => record.seq,
            Body::Gap { from_seq, .. } => from_seq,
        };
        let missing = resumes.saturating_sub(self.last + 1);
        if missing > 0 {
            let heads = missing.saturating_mul(HEAD_BYTES as u64);
            let dropped_bytes = (segment.offset - damage).saturating_sub(heads);
            self.found = Some(Found::Gap(Dropped {
                dropped_bytes,
                from_seq: self.last + 1,
                to_seq: resumes - 1,
            }));
        }
        Ok(true)
    }

    /// Whether a next segment can exist, judged by what was read of this one. When the output has
    /// ended, a later segment is looked for even after one that was cut short; not after the
    /// first, because that would cost every small log a listing.
    fn may_be_followed(&self, ended: Ended) -> bool {
        let Some(segment) = &self.segment else { return false };
        segment.damaged
            || (ended == Ended::Yes && segment.name > 1)
            || segment.header.is_none_or(|header| {
                segment.payload >= header.payload_bound || segment.offset >= header.file_bound
            })
    }

    /// The same, judged by the file's size alone.
    fn may_be_sealed(&self) -> io::Result<bool> {
        let Some(segment) = &self.segment else { return Ok(false) };
        let Some(header) = segment.header else { return Ok(true) };
        Ok(size_of(&segment.file)? >= header.payload_bound)
    }

    /// Goes on to the next segment, if there is one.
    fn cross(&mut self, place: &LogPlace) -> io::Result<bool> {
        let Some(segment) = &self.segment else { return Ok(false) };
        if segment.name <= self.last && self.enter(place, self.last + 1)? == Entered::Yes {
            return Ok(true);
        }
        self.skip_to_later(place)
    }

    /// Goes on to the first segment that is left after the current one.
    fn skip_to_later(&mut self, place: &LogPlace) -> io::Result<bool> {
        // A listing may miss a file that was made while it went on and show a later one. Whatever
        // is there before the one that was seen is older, and so in a second listing.
        if self.later(place)?.is_none() {
            return Ok(false);
        }
        let names = place.list()?;
        if let Some(segment) = &self.segment
            && size_of(&segment.file)? > segment.read_to
        {
            // It grew, and was filled, after its end had been read: there is more to read first.
            return Ok(true);
        }
        let current = self.segment.as_ref().map_or(0, |segment| segment.name);
        for name in names {
            if name > current && self.enter(place, name)? == Entered::Yes {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The last segment, if it is past the current one, or past the first when there is none.
    fn later(&self, place: &LogPlace) -> io::Result<Option<u64>> {
        let current = self.segment.as_ref().map_or(1, |segment| segment.name);
        Ok(place.list()?.last().copied().filter(|&name| name > current))
    }

    fn enter(&mut self, place: &LogPlace, name: u64) -> io::Result<Entered> {
        let Some(file) = place.find(name)? else { return Ok(Entered::Missing) };
        let header = match place.header(&file)? {
            HeaderRead::Known(header) => Some(header),
            HeaderRead::Bad | HeaderRead::Newer(_) => None,
            HeaderRead::Torn => return Ok(Entered::NotReady),
        };
        if let Some(header) = header
            && header.first_seq > self.last + 1
        {
            self.found = Some(Found::Gap(Dropped {
                dropped_bytes: header.total_before().saturating_sub(self.total),
                from_seq: self.last + 1,
                to_seq: header.first_seq - 1,
            }));
        }
        self.segment = Some(Current::new(name, file, header));
        self.buffer.clear();
        self.buffer_offset = HEADER_BYTES as u64;
        Ok(Entered::Yes)
    }

    /// What is still to be said when there are no more records.
    fn find_at_end(&mut self, place: &LogPlace, ended: Ended) -> io::Result<()> {
        match ended {
            Ended::NotYet => return Ok(()),
            Ended::Yes => {}
        }
        let mut dropped = self.find_note(place)?;
        if let Some(segment) = &mut self.segment {
            let left = size_of(&segment.file)?.saturating_sub(segment.offset);
            if left > 0 {
                segment.offset += left;
                segment.read_to = segment.offset;
                segment.damaged = true;
                // How many records were torn is not known; it was one at least.
                dropped = dropped.or(Some(Dropped {
                    dropped_bytes: left.saturating_sub(HEAD_BYTES as u64).max(1),
                    from_seq: self.last + 1,
                    to_seq: self.last + 1,
                }));
            }
        }
        self.found = dropped.map(Found::Gap);
        Ok(())
    }
}

/// Reads a part of a segment, which ends at the largest size that one has.
fn read_segment(file: &OwnedFd, buffer: &mut Vec<u8>, offset: u64) -> io::Result<usize> {
    if offset >= MAX_SEGMENT_BYTES { Ok(0) } else { read_at(file.as_fd(), buffer, offset) }
}

impl Current {
    fn new(name: u64, file: OwnedFd, header: Option<SegmentHeader>) -> Self {
        let offset = HEADER_BYTES as u64;
        let damaged = header.is_none();
        Self { name, file, header, offset, payload: 0, read_to: offset, damaged }
    }
}

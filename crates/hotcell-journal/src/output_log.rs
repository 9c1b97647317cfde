//! The writer of one exec's output log.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hotcell_model::{ExecId, Record, Stream, Timestamp};
use rustix::io::Errno;

use crate::align::Held;
use crate::disk;
use crate::log_place::{GapNote, LogPlace};
use crate::segment::{
    GAP_BYTES, HEAD_BYTES, HEADER_BYTES, LINE_PIECE_BYTES, SegmentHeader, gap_record, record_head,
    stream_index,
};

/// Into how many segments the bound is divided; half of them hold the head, half the tail.
const SEGMENTS: u64 = 16;
const HEAD_SEGMENTS: u64 = SEGMENTS / 2;
const TAIL_SEGMENTS: usize = (SEGMENTS / 2) as usize;
/// Records that are written at once at most.
const PART_RECORDS: usize = 32;
/// What may come before them: a segment's header or the statement of a gap.
const PREFIX_BYTES: usize = HEADER_BYTES;
const _: () = assert!(GAP_BYTES <= PREFIX_BYTES);

/// Writes what an exec prints. When the disk refuses, output is dropped and the gap is stated as
/// soon as the disk takes it; an exec never waits for its log.
#[derive(Debug)]
pub struct OutputLog {
    place: LogPlace,
    payload_bound: u64,
    file_bound: u64,
    last_seq: u64,
    /// The last seq that the files account for; behind `last_seq` while the disk refuses.
    stated_seq: u64,
    /// Bytes up to `stated_seq`.
    stated_bytes: u64,
    /// Everything ever appended, by stream.
    totals: [u64; 3],
    line_starts: [u64; 3],
    held: [Held; 3],
    segment: Option<Segment>,
    /// Segments begun so far.
    begun: u64,
    /// Segments of the tail, the one being written included.
    tail: VecDeque<u64>,
}

/// The segment that is being written.
#[derive(Debug)]
struct Segment {
    name: u64,
    file: Option<OwnedFd>,
    /// The end of what is whole in the file; zero before the header is.
    offset: u64,
    payload: u64,
    /// Whether a refused write left bytes after `offset`.
    torn: bool,
}

impl OutputLog {
    /// The log of an exec below the records directory, with room for `bound_bytes` of output; the
    /// files take up to four times that where records hold only a few bytes each. Nothing touches
    /// the disk until the first append.
    ///
    /// # Errors
    /// The descriptor cannot be duplicated.
    pub fn new(records: BorrowedFd<'_>, exec: &ExecId, bound_bytes: u64) -> io::Result<Self> {
        let payload_bound = (bound_bytes / SEGMENTS).max(1);
        Ok(Self {
            place: LogPlace::new(records.try_clone_to_owned()?, exec),
            payload_bound,
            file_bound: payload_bound.saturating_mul(4).saturating_add(64 * 1024),
            last_seq: 0,
            stated_seq: 0,
            stated_bytes: 0,
            totals: [0; 3],
            line_starts: [0; 3],
            held: [Held::default(); 3],
            segment: None,
            begun: 0,
            tail: VecDeque::new(),
        })
    }

    /// Appends output, in records of at most [`Record::MAX_BYTES`]; returns their seqs, an empty
    /// range for no bytes. What the disk refuses uses up its seqs and is dropped.
    pub fn append(&mut self, stream: Stream, ts: Timestamp, bytes: &[u8]) -> RangeInclusive<u64> {
        let first = self.last_seq + 1;
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = self.write_part(stream, ts, rest).unwrap_or(0);
            if written == 0 {
                self.drop_output(stream, rest);
                break;
            }
            rest = &rest[written..];
        }
        first..=self.last_seq
    }

    /// The seq of the last record; 0 when there is none.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Everything ever appended to a stream, dropped output included.
    #[must_use]
    pub fn bytes(&self, stream: Stream) -> u64 {
        self.totals[stream_index(stream)]
    }

    /// Whether the middle was dropped for the bound.
    #[must_use]
    pub fn has_dropped(&self) -> bool {
        self.begun > SEGMENTS
    }

    /// To be called when the output has ended: states a gap at its end. Closes the file.
    pub fn finish(&mut self) {
        if self.stated_seq < self.last_seq {
            let _ = self.write_part(Stream::Stdout, Timestamp::default(), &[]);
            self.cut_torn();
        }
        if self.stated_seq < self.last_seq {
            let total_bytes = self.totals.iter().sum();
            // Where even this is refused, the journal's byte counts still tell.
            let _ = self.place.write_note(GapNote { to_seq: self.last_seq, total_bytes });
        }
        if let Some(segment) = &mut self.segment {
            segment.file = None;
        }
    }

    /// Writes as much of `bytes` as goes into the current segment at once, with whatever has to
    /// stand before it; returns how much of `bytes` is in the file.
    fn write_part(&mut self, stream: Stream, ts: Timestamp, bytes: &[u8]) -> Result<usize, Errno> {
        self.begin_segment(bytes);
        let mut prefix = [0; PREFIX_BYTES];
        let prefix_bytes = self.write_prefix(&mut prefix);
        let next_seq = self.last_seq + 1;
        let Some(segment) = &mut self.segment else { return Ok(0) };
        let file = match &segment.file {
            Some(file) => file,
            None => segment.file.insert(self.place.create(segment.name)?),
        };

        let room = usize::try_from(self.payload_bound - segment.payload.min(self.payload_bound))
            .unwrap_or(usize::MAX);
        let part = &bytes[..bytes.len().min(room).min(PART_RECORDS * Record::MAX_BYTES)];
        let mut heads = [[0; HEAD_BYTES]; PART_RECORDS];
        for ((head, chunk), seq) in heads.iter_mut().zip(cut(part)).zip(next_seq..) {
            *head = record_head(stream, seq, ts, chunk);
        }
        let mut slices = [IoSlice::new(&[]); 1 + 2 * PART_RECORDS];
        slices[0] = IoSlice::new(&prefix[..prefix_bytes]);
        let mut used = 1;
        for (head, chunk) in heads.iter().zip(cut(part)) {
            slices[used] = IoSlice::new(head);
            slices[used + 1] = IoSlice::new(chunk);
            used += 2;
        }

        let mut written = disk::write_at(file.as_fd(), &slices[..used], segment.offset)?;
        segment.torn = true;
        if written < prefix_bytes {
            return Ok(0);
        }
        written -= prefix_bytes;
        segment.offset += prefix_bytes as u64;
        self.stated_seq = self.last_seq;
        self.stated_bytes = self.totals.iter().sum();

        // Readers may have seen every whole record, so that each counts; a torn one is written
        // again over itself.
        let mut kept = 0;
        for chunk in cut(part) {
            let Some(rest) = written.checked_sub(HEAD_BYTES + chunk.len()) else { break };
            written = rest;
            kept += chunk.len();
            segment.offset += (HEAD_BYTES + chunk.len()) as u64;
            segment.payload += chunk.len() as u64;
            self.last_seq += 1;
        }
        segment.torn = kept < part.len();
        self.count(stream, &part[..kept]);
        self.stated_seq = self.last_seq;
        self.stated_bytes += kept as u64;
        Ok(kept)
    }

    /// Makes sure that there is a segment with room for `bytes`; for none any segment will do.
    fn begin_segment(&mut self, bytes: &[u8]) {
        let room = self.segment.as_ref().is_some_and(|segment| {
            bytes.is_empty()
                || (segment.payload < self.payload_bound && segment.offset < self.file_bound)
        });
        if room {
            return;
        }
        // The name is what readers look for: the seq after all that the segments so far account
        // for.
        let name = self.stated_seq + 1;
        if self.begun >= HEAD_SEGMENTS {
            if self.tail.len() >= TAIL_SEGMENTS
                && let Some(oldest) = self.tail.pop_front()
            {
                self.place.unlink(oldest);
            }
            self.tail.push_back(name);
        }
        self.begun += 1;
        self.segment = Some(Segment { name, file: None, offset: 0, payload: 0, torn: false });
    }

    /// What has to stand before the next record: the header of a new segment, which tells a gap
    /// before it too, or the statement of a gap.
    fn write_prefix(&self, prefix: &mut [u8; PREFIX_BYTES]) -> usize {
        if self.segment.as_ref().is_some_and(|segment| segment.offset == 0) {
            *prefix = SegmentHeader {
                first_seq: self.last_seq + 1,
                payload_bound: self.payload_bound,
                file_bound: self.file_bound,
                before: self.totals,
                line_starts: self.line_starts,
                held: self.held,
            }
            .encode();
            HEADER_BYTES
        } else if self.stated_seq < self.last_seq {
            let dropped = self.totals.iter().sum::<u64>() - self.stated_bytes;
            let gap = gap_record(self.stated_seq + 1, self.last_seq, dropped);
            prefix[..GAP_BYTES].copy_from_slice(&gap);
            GAP_BYTES
        } else {
            0
        }
    }

    /// Uses up the seqs of output that the disk refused.
    fn drop_output(&mut self, stream: Stream, bytes: &[u8]) {
        self.cut_torn();
        self.last_seq += bytes.len().div_ceil(Record::MAX_BYTES) as u64;
        self.count(stream, bytes);
    }

    /// Cuts off what a refused write left, so that no reader takes it for damage. Should that
    /// fail, it is written over later.
    fn cut_torn(&mut self) {
        if let Some(segment) = &mut self.segment
            && segment.torn
            && let Some(file) = &segment.file
        {
            segment.torn = rustix::fs::ftruncate(file, segment.offset).is_err();
        }
    }

    fn count(&mut self, stream: Stream, bytes: &[u8]) {
        let index = stream_index(stream);
        let start = &mut self.line_starts[index];
        if let Some(newline) = memchr::memrchr(b'\n', bytes) {
            *start = self.totals[index] + newline as u64 + 1;
        }
        self.totals[index] += bytes.len() as u64;
        *start += (self.totals[index] - *start) / LINE_PIECE_BYTES * LINE_PIECE_BYTES;
        self.held[index] = self.held[index].then(bytes);
    }
}

/// Output as it is divided into records.
fn cut(part: &[u8]) -> std::slice::Chunks<'_, u8> {
    part.chunks(Record::MAX_BYTES)
}

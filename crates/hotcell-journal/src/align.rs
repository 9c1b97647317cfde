//! Characters that were split between two records, made whole in the later one.

use hotcell_model::{Record, Stream, Timestamp};

use crate::segment::{STREAMS, stream_index};

/// The start of a character whose rest has not come yet: none to three bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    length: u8,
    bytes: [u8; 3],
}

impl Held {
    /// What it takes on disk.
    pub(crate) const BYTES: usize = 4;

    /// The incomplete character at the end of `bytes`.
    fn at_end_of(bytes: &[u8]) -> Self {
        for length in 1..=bytes.len().min(3) {
            let end = &bytes[bytes.len() - length..];
            if end[0] & 0b1100_0000 == 0b1000_0000 {
                continue;
            }
            let incomplete = std::str::from_utf8(end)
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none());
            return if incomplete { Self::of(end) } else { Self::default() };
        }
        Self::default()
    }

    fn of(start: &[u8]) -> Self {
        let mut bytes = [0; 3];
        bytes[..start.len()].copy_from_slice(start);
        Self { length: start.len() as u8, bytes }
    }

    /// What is held after `bytes` have followed.
    pub(crate) fn then(self, bytes: &[u8]) -> Self {
        if bytes.len() >= 3 || self.length == 0 {
            return Self::at_end_of(bytes);
        }
        let mut joined = [0; 5];
        let held = self.as_slice();
        joined[..held.len()].copy_from_slice(held);
        joined[held.len()..held.len() + bytes.len()].copy_from_slice(bytes);
        Self::at_end_of(&joined[..held.len() + bytes.len()])
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    pub(crate) fn encode(self) -> [u8; Self::BYTES] {
        [self.length, self.bytes[0], self.bytes[1], self.bytes[2]]
    }

    pub(crate) fn decode(stored: [u8; Self::BYTES]) -> Self {
        let [length, bytes @ ..] = stored;
        Self { length: length.min(3), bytes }
    }
}

/// What is held of one stream, and the record it came from.
#[derive(Debug, Clone, Copy, Default)]
struct Origin {
    held: Held,
    seq: u64,
    ts: Timestamp,
}

/// Moves the start of a character from the end of a record to the front of the next record of the
/// same stream. The concatenation of a stream's records stays what it was; bytes that are no
/// UTF-8 stay where they are. A record grows by at most three bytes.
#[derive(Debug, Clone, Default)]
pub struct Utf8Aligner {
    streams: [Origin; 3],
}

impl Utf8Aligner {
    /// An aligner that holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An aligner in the state in which a log's segment begins.
    pub(crate) fn holding(held: [Held; 3]) -> Self {
        Self { streams: held.map(|held| Origin { held, ..Origin::default() }) }
    }

    /// The record with what was held in front and without what is held now; it may become empty.
    pub fn push(&mut self, mut record: Record) -> Record {
        let before = self.observe(record.stream, record.seq, record.ts, &record.bytes);
        let after = self.streams[stream_index(record.stream)].held;
        if !before.as_slice().is_empty() {
            record.bytes.splice(0..0, before.as_slice().iter().copied());
        }
        record.bytes.truncate(record.bytes.len() - after.as_slice().len());
        record
    }

    /// The bytes that are still held, when the output has ended: at most one record per stream,
    /// with the seq of the record that the bytes were taken from.
    pub fn finish(&mut self) -> Vec<Record> {
        STREAMS.into_iter().filter_map(|stream| self.take(stream)).collect()
    }

    /// Takes what is held of one stream.
    pub(crate) fn take(&mut self, stream: Stream) -> Option<Record> {
        let Origin { held, seq, ts } = std::mem::take(&mut self.streams[stream_index(stream)]);
        let bytes = held.as_slice().to_vec();
        (!bytes.is_empty()).then_some(Record { seq, ts, stream, bytes })
    }

    /// Passes over a record; returns what was held before it.
    pub(crate) fn observe(
        &mut self,
        stream: Stream,
        seq: u64,
        ts: Timestamp,
        bytes: &[u8],
    ) -> Held {
        let origin = &mut self.streams[stream_index(stream)];
        let before = origin.held;
        *origin = Origin { held: before.then(bytes), seq, ts };
        before
    }
}

//! The output that fits into a result: its head and its tail.

use std::collections::VecDeque;

use hotcell_model::{Record, Stream};

/// The most that a result holds, whatever is asked for: it is kept in memory.
const MOST_BYTES: u64 = 4 << 20;

/// Half of what a result may hold that is to hold this much.
pub(crate) fn half_of(result_bytes: u64) -> u64 {
    result_bytes.min(MOST_BYTES) / 2
}

/// Keeps the first and the last records that were offered, within a bound. A stream that prints much
/// leaves the others their first and their last records.
#[derive(Debug)]
pub(crate) struct HeadAndTail {
    half_bytes: u64,
    head: Vec<Record>,
    /// Of each stream.
    head_bytes: [u64; 3],
    tails: [Tail; 3],
    left_out: bool,
}

/// The last records of one stream.
#[derive(Debug, Default)]
struct Tail {
    records: VecDeque<Record>,
    bytes: u64,
}

impl HeadAndTail {
    /// Keeps this many bytes from each end.
    pub(crate) fn new(half_bytes: u64) -> Self {
        Self {
            half_bytes,
            head: Vec::new(),
            head_bytes: [0; 3],
            tails: Default::default(),
            left_out: false,
        }
    }

    /// Takes the next record.
    pub(crate) fn push(&mut self, record: Record) {
        let place = match record.stream {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
            Stream::Pty => 2,
        };
        let bytes = record.bytes.len() as u64;
        let has_tail = self.tails.iter().any(|tail| !tail.records.is_empty());
        let has_room = !has_tail && self.head_bytes.iter().sum::<u64>() + bytes <= self.half_bytes;
        let is_owed = self.tails[place].records.is_empty()
            && self.head_bytes[place] + bytes <= self.half_bytes / 2;
        if has_room || is_owed {
            self.head_bytes[place] += bytes;
            self.head.push(record);
            return;
        }
        let tail = &mut self.tails[place];
        tail.bytes += record.bytes.len() as u64;
        tail.records.push_back(record);
        let tail_bytes = (2 * self.half_bytes).saturating_sub(self.head_bytes.iter().sum());
        let tail_bytes = tail_bytes.min(self.half_bytes);
        while self.tails.iter().map(|tail| tail.bytes).sum::<u64>() > tail_bytes
            && let Some(longest) = self.tails.iter_mut().max_by_key(|tail| tail.bytes)
            && let Some(oldest) = longest.records.pop_front()
        {
            longest.bytes -= oldest.bytes.len() as u64;
            self.left_out = true;
        }
    }

    /// Notes that output is missing that never came here.
    pub(crate) fn note_gap(&mut self) {
        self.left_out = true;
    }

    /// The records in order, and whether any are missing.
    pub(crate) fn finish(self) -> (Vec<Record>, bool) {
        let mut tail: Vec<Record> = self.tails.into_iter().flat_map(|tail| tail.records).collect();
        let mut records = self.head;
        records.append(&mut tail);
        records.sort_by_key(|record| record.seq);
        (records, self.left_out)
    }
}

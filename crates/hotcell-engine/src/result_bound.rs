//! The output that fits into a result: its head and its tail.

use std::collections::VecDeque;

use hotcell_model::Record;

/// The most that a result holds, whatever is asked for: it is kept in memory.
const MOST_BYTES: u64 = 4 << 20;

/// Half of what a result may hold that is to hold this much.
pub(crate) fn half_of(result_bytes: u64) -> u64 {
    result_bytes.min(MOST_BYTES) / 2
}

/// Keeps the first and the last records that were offered, within a bound.
#[derive(Debug)]
pub(crate) struct HeadAndTail {
    half_bytes: u64,
    head: Vec<Record>,
    head_bytes: u64,
    tail: VecDeque<Record>,
    tail_bytes: u64,
    left_out: bool,
}

impl HeadAndTail {
    /// Keeps this many bytes from each end.
    pub(crate) fn new(half_bytes: u64) -> Self {
        Self {
            half_bytes,
            head: Vec::new(),
            head_bytes: 0,
            tail: VecDeque::new(),
            tail_bytes: 0,
            left_out: false,
        }
    }

    /// Takes the next record.
    pub(crate) fn push(&mut self, record: Record) {
        if self.tail.is_empty() && self.head_bytes + record.bytes.len() as u64 <= self.half_bytes {
            self.head_bytes += record.bytes.len() as u64;
            self.head.push(record);
            return;
        }
        self.tail_bytes += record.bytes.len() as u64;
        self.tail.push_back(record);
        while self.tail_bytes > self.half_bytes
            && let Some(oldest) = self.tail.pop_front()
        {
            self.tail_bytes -= oldest.bytes.len() as u64;
            self.left_out = true;
        }
    }

    /// Notes that output is missing that never came here.
    pub(crate) fn note_gap(&mut self) {
        self.left_out = true;
    }

    /// The records in order, and whether any are missing.
    pub(crate) fn finish(self) -> (Vec<Record>, bool) {
        let mut records = self.head;
        records.extend(self.tail);
        (records, self.left_out)
    }
}

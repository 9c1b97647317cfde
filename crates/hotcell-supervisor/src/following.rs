//! One reader of an exec's output on one channel of a connection.

use std::io;
use std::os::fd::BorrowedFd;

use hotcell_journal::{Align, Ended, LogReader};
use hotcell_link::{FrameKind, Peer, RecordHead, record_cost};
use hotcell_model::{ExecEnd, ExecId};

/// Bytes that may wait on a connection before followers stop adding to them.
const MOST_UNSENT: usize = 256 * 1024;
const BATCH_BYTES: u64 = 128 * 1024;

/// A cursor that sends what it passes, within the window the reader gave.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) exec: ExecId,
    reader: LogReader,
    after_seq: u64,
    credit: i64,
}

/// Whether a follower has more to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It waits for output, credit or room on the connection.
    Waiting,
    /// The end was sent.
    Finished,
}

impl Follower {
    pub(crate) fn new(
        records: BorrowedFd<'_>,
        exec: ExecId,
        after_seq: u64,
        window: u32,
    ) -> io::Result<Self> {
        let reader = LogReader::open(records, &exec)?;
        Ok(Self { exec, reader, after_seq, credit: i64::from(window) })
    }

    /// The last seq that was sent.
    pub(crate) fn position(&self) -> u64 {
        self.after_seq
    }

    /// Allows this many more bytes.
    pub(crate) fn add_credit(&mut self, bytes: u32) {
        self.credit += i64::from(bytes);
    }

    /// Sends what is there; `end` is how the exec ended, once it has.
    pub(crate) fn pump(
        &mut self,
        peer: &mut Peer,
        channel: u32,
        last_seq: u64,
        end: Option<&ExecEnd>,
    ) -> Progress {
        // Of what has ended, a gap at its end is passed too: nothing comes after it.
        let ended = if end.is_some() { Ended::Yes } else { Ended::NotYet };
        while self.credit > 0 && self.after_seq < last_seq && peer.unsent().len() < MOST_UNSENT {
            let most = u64::try_from(self.credit).unwrap_or(0).min(BATCH_BYTES);
            // A log that cannot be read is a gap: what is after it can be.
            let Ok(batch) = self.reader.read_after(self.after_seq, most, Align::Raw, ended) else {
                self.after_seq = last_seq;
                break;
            };
            if batch.next_seq <= self.after_seq {
                break;
            }
            let mut cut_short = false;
            for record in &batch.records {
                if self.credit <= 0 {
                    cut_short = true;
                    break;
                }
                self.credit -= i64::from(record_cost(record.bytes.len()));
                let head = RecordHead { seq: record.seq, ts: record.ts, stream: record.stream };
                peer.send_with_blob(FrameKind::Record, channel, &head, &record.bytes);
                self.after_seq = record.seq;
            }
            if !cut_short {
                self.after_seq = batch.next_seq;
            }
        }
        match end {
            // With nothing more on disk, a seq that was used up but never written is a gap.
            Some(end) if self.after_seq >= last_seq || self.at_end() => {
                peer.send(FrameKind::Ended, channel, end);
                Progress::Finished
            }
            Some(_) | None => Progress::Waiting,
        }
    }

    fn at_end(&mut self) -> bool {
        self.credit > 0
            && self
                .reader
                .read_after(self.after_seq, 1, Align::Raw, Ended::Yes)
                .is_ok_and(|batch| batch.next_seq <= self.after_seq)
    }
}

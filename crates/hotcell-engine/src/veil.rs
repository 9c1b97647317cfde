//! What of an exec's output is shown to whoever must not see secrets.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hotcell_journal::Batch;
use hotcell_masking::{Finder, Shapes};
use hotcell_model::{Command, Record, Stream, Timestamp};
use tokio::time::Instant;

use crate::glass::Glass;

/// How long what may be the beginning of a secret is held back.
const PATIENCE: Duration = Duration::from_millis(200);

/// Output on its way to be shown, in order. What may be the beginning of a secret waits for what
/// comes after it, and with it all that came later.
#[derive(Debug)]
pub(crate) struct Veil {
    shapes: Arc<Shapes>,
    streams: [Finder; 3],
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    record: Record,
    /// Where it begins in its stream.
    start: u64,
    since: Instant,
}

/// A record as it is shown, and where in its stream it began.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) record: Record,
    pub(crate) start: u64,
}

impl Veil {
    pub(crate) fn new(shapes: &Arc<Shapes>) -> Self {
        Self { shapes: Arc::clone(shapes), streams: Default::default(), waiting: VecDeque::new() }
    }

    /// Takes the next record.
    pub(crate) fn push(&mut self, record: Record) {
        let finder = &mut self.streams[index(record.stream)];
        let start = finder.end();
        finder.feed(&self.shapes, &record.bytes);
        self.waiting.push_back(Waiting { record, start, since: Instant::now() });
    }

    /// Looks at what lies before what is shown, or after.
    pub(crate) fn feed_all(&mut self, batch: Batch) {
        let Batch { records, dropped, .. } = batch;
        let mut gaps = dropped.into_iter().peekable();
        // Many small records cost less together.
        let mut together: [Vec<u8>; 3] = Default::default();
        for record in records {
            while gaps.next_if(|gap| gap.from_seq < record.seq).is_some() {
                self.feed_together(&mut together);
                self.gap();
            }
            together[index(record.stream)].extend_from_slice(&record.bytes);
        }
        self.feed_together(&mut together);
        gaps.for_each(|_| self.gap());
    }

    fn feed_together(&mut self, streams: &mut [Vec<u8>; 3]) {
        for (finder, bytes) in self.streams.iter_mut().zip(streams) {
            finder.feed(&self.shapes, &std::mem::take(bytes));
        }
    }

    /// Something is missing here.
    pub(crate) fn gap(&mut self) {
        self.streams.iter_mut().for_each(|finder| finder.gap(&self.shapes));
    }

    /// What follows is further on; its beginning will not be shown.
    pub(crate) fn skip(&mut self) {
        self.streams.iter_mut().for_each(|finder| finder.cut(&self.shapes));
    }

    /// Nothing comes any more.
    pub(crate) fn finish(&mut self) {
        self.streams.iter_mut().for_each(|finder| finder.finish(&self.shapes));
    }

    /// Hides what has the form of a secret in what was run.
    pub(crate) fn cover(&self, command: &mut Command) {
        Glass::new(Some(Arc::clone(&self.shapes)), Vec::new()).command(command);
    }

    /// Nobody is to wait any longer.
    pub(crate) fn release(&mut self) {
        self.streams.iter_mut().for_each(Finder::release);
    }

    /// The next record, if all is known about it. It is empty where it is part of a secret.
    pub(crate) fn pop(&mut self) -> Option<Shown> {
        let Waiting { record, start, .. } = self.waiting.front()?;
        let finder = &mut self.streams[index(record.stream)];
        let end = start + record.bytes.len() as u64;
        if finder.settled() < end {
            return None;
        }
        let Waiting { mut record, start, .. } = self.waiting.pop_front()?;
        let mut shown = Vec::with_capacity(record.bytes.len());
        finder.show(start, &record.bytes, &mut shown);
        finder.forget(end);
        record.bytes = shown;
        Some(Shown { record, start })
    }

    /// Whether all is known about what was taken.
    pub(crate) fn is_settled(&self) -> bool {
        self.first_unsettled().is_none()
    }

    /// The first record that waits for what comes after it.
    pub(crate) fn first_unsettled(&self) -> Option<&Record> {
        let waits = |waiting: &&Waiting| {
            let end = waiting.start + waiting.record.bytes.len() as u64;
            self.streams[index(waiting.record.stream)].settled() < end
        };
        self.waiting.iter().find(waits).map(|waiting| &waiting.record)
    }

    /// When it is no longer waited for, if something waits.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|waiting| waiting.since + PATIENCE)
    }
}

/// How long a record that was written then is still held back; nothing if its time is over, or if
/// clocks disagree.
pub(crate) fn patience_with(written: Timestamp) -> Option<Duration> {
    let age = Duration::from_millis(Timestamp::now().0.checked_sub(written.0)?);
    PATIENCE.checked_sub(age).filter(|left| !left.is_zero())
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
        Stream::Pty => 2,
    }
}

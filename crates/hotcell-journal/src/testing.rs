//! A directory for a test, and a check of what is read against what was appended.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use hotcell_model::{Dropped, ExecId, Record, Stream, Timestamp};

use crate::{Align, Batch, Ended, LogReader, OutputLog};

/// The exec that tests write about.
pub(crate) fn exec() -> ExecId {
    ExecId::from_random(7)
}

/// A records directory that goes away with the test.
pub(crate) struct Records {
    directory: tempfile::TempDir,
    file: File,
}

impl Records {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = File::open(directory.path()).unwrap();
        Self { directory, file }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn log(&self, bound: u64) -> OutputLog {
        OutputLog::new(self.fd(), &exec(), bound).unwrap()
    }

    pub(crate) fn reader(&self) -> LogReader {
        LogReader::at(self.path(), &exec()).unwrap()
    }

    /// The segment files, in order.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let Ok(entries) = self.path().join("log").read_dir() else { return Vec::new() };
        let mut paths: Vec<_> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| !path.to_string_lossy().ends_with(".gap"))
            .collect();
        paths.sort();
        paths
    }
}

/// Everything that was appended.
#[derive(Debug, Default, Clone)]
pub(crate) struct Model {
    pub(crate) bytes: Vec<u8>,
    /// Where each append ends, its last seq and its stream.
    pub(crate) appends: Vec<(usize, u64, Stream)>,
}

impl Model {
    pub(crate) fn append(&mut self, log: &mut OutputLog, stream: Stream, bytes: &[u8]) {
        let ts = Timestamp(self.appends.len() as u64);
        let last = self.last_seq();
        let seqs = log.append(stream, ts, bytes);
        assert_eq!(*seqs.start(), last + 1);
        assert_eq!(*seqs.end(), log.last_seq());
        self.bytes.extend_from_slice(bytes);
        self.appends.push((self.bytes.len(), log.last_seq(), stream));
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.appends.last().map_or(0, |append| append.1)
    }

    fn append_of(&self, seq: u64) -> (usize, &(usize, u64, Stream)) {
        let place = self.appends.partition_point(|append| append.1 < seq);
        (place, &self.appends[place])
    }

    /// Checks that this is what was appended, in order and with nothing twice; returns the bytes
    /// that are missing without a word.
    pub(crate) fn check(&self, records: &[Record], dropped: &[Dropped]) -> usize {
        let mut gaps = dropped.iter().peekable();
        let (mut seq, mut at) = (0, 0);
        for record in records {
            while let Some(gap) = gaps.next_if(|gap| gap.from_seq == seq + 1) {
                seq = gap.to_seq;
                at += usize::try_from(gap.dropped_bytes).unwrap();
            }
            seq += 1;
            assert_eq!(record.seq, seq, "a hole or a repeat");
            let (place, (end, _, stream)) = self.append_of(seq);
            assert_eq!(record.stream, *stream, "the stream of {seq}");
            assert_eq!(record.ts, Timestamp(place as u64), "the time of {seq}");
            assert!(record.bytes.len() <= Record::MAX_BYTES && !record.bytes.is_empty());
            assert!(self.bytes[at..].starts_with(&record.bytes), "the bytes of {seq}");
            at += record.bytes.len();
            assert!(at <= *end);
        }
        for gap in gaps {
            assert_eq!(gap.from_seq, seq + 1, "a gap out of place");
            seq = gap.to_seq;
            at += usize::try_from(gap.dropped_bytes).unwrap();
        }
        self.bytes.len() - at
    }
}

/// Reads on until there is nothing more.
pub(crate) fn read_on(
    reader: &mut LogReader,
    after: u64,
    max: u64,
    align: Align,
    ended: Ended,
) -> Batch {
    let mut all = Batch { next_seq: after, ..Batch::default() };
    loop {
        let batch = reader.read_after(all.next_seq, max, align, ended).unwrap();
        let moved = batch.next_seq > all.next_seq;
        assert!(moved || batch.at_end, "no progress");
        all.records.extend(batch.records);
        for gap in batch.dropped {
            all.add_gap(gap, 0);
        }
        all.next_seq = batch.next_seq;
        all.at_end = batch.at_end;
        if all.at_end {
            return all;
        }
    }
}

/// Everything, with a new reader.
pub(crate) fn read_all(records: &Records, ended: Ended) -> Batch {
    read_on(&mut records.reader(), 0, 100_000, Align::Raw, ended)
}

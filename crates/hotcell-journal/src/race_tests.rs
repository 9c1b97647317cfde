//! Tests of readers that race the writer.

use std::sync::atomic::{AtomicBool, Ordering};

use hotcell_model::{Dropped, Stream, Timestamp};

use crate::testing::Records;
use crate::{Align, Batch, Ended, LogReader};

const APPENDS: u64 = 30_000;

/// What the writer appends: the size and the byte can be told from the number.
fn output(number: u64) -> Vec<u8> {
    vec![(number % 251) as u8; (number * 7919 % 600) as usize + 1]
}

enum Reader {
    Stays(Box<LogReader>),
    MadeAnew,
}

/// Reads until the end and checks that every seq comes once, as a record or as missing.
fn follow(records: &Records, mut reader: Reader, finished: &AtomicBool) -> (u64, Vec<Dropped>) {
    let (mut seq, mut bytes, mut gaps) = (0, 0, Vec::new());
    loop {
        let ended = if finished.load(Ordering::Acquire) { Ended::Yes } else { Ended::NotYet };
        let batch: Batch = match &mut reader {
            Reader::Stays(reader) => reader.read_after(seq, 20_000, Align::Raw, ended),
            Reader::MadeAnew => records.reader().read_after(seq, 20_000, Align::Raw, ended),
        }
        .unwrap();
        let mut dropped = batch.dropped.iter().peekable();
        let mut pass_gaps = |seq: &mut u64, bytes: &mut u64| {
            while let Some(gap) = dropped.next_if(|gap| gap.from_seq == *seq + 1) {
                *seq = gap.to_seq;
                *bytes += gap.dropped_bytes;
                gaps.push(*gap);
            }
        };
        for record in &batch.records {
            pass_gaps(&mut seq, &mut bytes);
            seq += 1;
            assert_eq!(record.seq, seq, "a hole or a repeat");
            bytes += record.bytes.len() as u64;
            let number = record.ts.0;
            assert!(record.bytes.iter().all(|byte| u64::from(*byte) == number % 251));
        }
        pass_gaps(&mut seq, &mut bytes);
        assert_eq!(batch.next_seq, seq);
        if batch.at_end && ended == Ended::Yes {
            return (bytes, gaps);
        }
        std::thread::yield_now();
    }
}

#[test]
fn readers_see_no_repeats_and_no_holes() {
    let records = Records::new();
    let mut log = records.log(300_000);
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stays: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    follow(&records, Reader::Stays(Box::new(records.reader())), &finished)
                })
            })
            .collect();
        let anew = scope.spawn(|| follow(&records, Reader::MadeAnew, &finished));
        for number in 0..APPENDS {
            log.append(Stream::Stdout, Timestamp(number), &output(number));
        }
        log.finish();
        finished.store(true, Ordering::Release);
        for reader in stays {
            let (bytes, _) = reader.join().unwrap();
            assert_eq!(bytes, log.bytes(Stream::Stdout), "every byte is there or stated");
        }
        anew.join().unwrap();
    });
    let (bytes, gaps) = follow(&records, Reader::Stays(Box::new(records.reader())), &finished);
    assert_eq!((bytes, gaps.len()), (log.bytes(Stream::Stdout), 1));
}

//! Tests of what fits into a result.

use hotcell_model::{Record, Stream, Timestamp};

use crate::result_bound::{HeadAndTail, half_of};

const HALF_BYTES: u64 = 512 * 1024;

fn record(seq: u64) -> Record {
    let bytes = vec![b'x'; Record::MAX_BYTES];
    Record { seq, ts: Timestamp(0), stream: Stream::Stdout, bytes }
}

fn kept(count: u64) -> (Vec<u64>, bool) {
    let mut bound = HeadAndTail::new(HALF_BYTES);
    (1..=count).for_each(|seq| bound.push(record(seq)));
    let (records, left_out) = bound.finish();
    (records.iter().map(|record| record.seq).collect(), left_out)
}

#[test]
fn what_fits_is_kept_whole() {
    assert_eq!(kept(64), ((1..=64).collect(), false));
}

#[test]
fn past_the_bound_head_and_tail_are_kept() {
    let expected: Vec<u64> = (1..=32).chain(169..=200).collect();
    assert_eq!(kept(200), (expected, true));
}

#[test]
fn a_stream_that_prints_much_leaves_the_other_its_end() {
    let mut bound = HeadAndTail::new(HALF_BYTES);
    let of = |stream, seq| Record { stream, ..record(seq) };
    (1..=100).for_each(|seq| bound.push(of(Stream::Stdout, seq)));
    (101..=300).for_each(|seq| bound.push(of(Stream::Stderr, seq)));
    let (records, left_out) = bound.finish();
    assert!(left_out && records.is_sorted_by_key(|record| record.seq));
    let last = |stream| records.iter().rfind(|record| record.stream == stream).unwrap().seq;
    assert_eq!((last(Stream::Stdout), last(Stream::Stderr)), (100, 300));
    let bytes: usize = records.iter().map(|record| record.bytes.len()).sum();
    assert!(bytes as u64 <= 2 * HALF_BYTES, "{bytes}");
}

#[test]
fn a_stream_that_begins_late_keeps_its_beginning() {
    // As large as `exec_run` asks for.
    let mut bound = HeadAndTail::new(64_000);
    let of = |stream, seq| Record { stream, ..record(seq) };
    (1..=10).for_each(|seq| bound.push(of(Stream::Stdout, seq)));
    (11..=20).for_each(|seq| bound.push(of(Stream::Stderr, seq)));
    let (records, left_out) = bound.finish();
    assert!(left_out && records.is_sorted_by_key(|record| record.seq));
    let seqs = |stream| {
        let own = records.iter().filter(|record| record.stream == stream);
        own.map(|record| record.seq).collect::<Vec<_>>()
    };
    assert!(seqs(Stream::Stdout).starts_with(&[1]) && seqs(Stream::Stdout).ends_with(&[10]));
    assert!(seqs(Stream::Stderr).starts_with(&[11]) && seqs(Stream::Stderr).ends_with(&[20]));
}

#[test]
fn a_gap_elsewhere_counts_as_left_out() {
    let mut bound = HeadAndTail::new(HALF_BYTES);
    bound.push(record(1));
    bound.note_gap();
    assert!(bound.finish().1);
}

#[test]
fn no_caller_gets_all_of_our_memory() {
    assert_eq!(half_of(64_000), 32_000);
    assert_eq!(half_of(u64::MAX), 2 << 20);
}

//! Tests of tail and grep against what a plain reading of the text gives.

use hotcell_model::{Record, Stream, Timestamp};
use proptest::prelude::*;
use regex::bytes::Regex;

use crate::segment::STREAMS;
use crate::testing::{Model, Records, exec, read_all};
use crate::{Align, Ended, LogReader};

fn text(records: &[Record]) -> Vec<u8> {
    records.iter().flat_map(|record| record.bytes.clone()).collect()
}

fn of(stream: Option<Stream>, records: &[Record]) -> Vec<Record> {
    let wanted = |record: &&Record| stream.is_none_or(|stream| record.stream == stream);
    records.iter().filter(wanted).cloned().collect()
}

fn naive_tail(all: &[u8], lines: usize, max: usize) -> Vec<u8> {
    let pieces: Vec<_> = all.split_inclusive(|byte| *byte == b'\n').collect();
    let tail = pieces[pieces.len() - lines.min(pieces.len())..].concat();
    tail[tail.len() - max.min(tail.len())..].to_vec()
}

#[test]
fn tail_counts_an_unfinished_line() {
    let records = Records::new();
    let mut log = records.log(1 << 20);
    log.append(Stream::Stdout, Timestamp(1), b"one\ntwo\nth");
    log.append(Stream::Stderr, Timestamp(2), b"!\n");
    log.append(Stream::Stdout, Timestamp(3), b"ree");
    let mut reader = records.reader();
    let tail = |reader: &mut LogReader, lines, stream| {
        let batch = reader.tail_lines(lines, stream, 1000).unwrap();
        assert_eq!(batch.next_seq, 3);
        String::from_utf8(text(&batch.records)).unwrap()
    };
    assert_eq!(tail(&mut reader, 0, None), "");
    assert_eq!(tail(&mut reader, 1, None), "ree");
    assert_eq!(tail(&mut reader, 2, None), "th!\nree");
    assert_eq!(tail(&mut reader, 2, Some(Stream::Stdout)), "two\nthree");
    assert_eq!(tail(&mut reader, 9, Some(Stream::Stderr)), "!\n");
    assert_eq!(tail(&mut reader, 9, Some(Stream::Pty)), "");
}

#[test]
fn tail_across_the_gap_states_it() {
    let records = Records::new();
    let mut log = records.log(16_000);
    for number in 0..10_000 {
        log.append(Stream::Stdout, Timestamp(0), format!("{number}\n").as_bytes());
    }
    let mut reader = records.reader();
    let few = reader.tail_lines(10, None, 1 << 20).unwrap();
    assert_eq!(
        text(&few.records),
        (9990..10_000).map(|n| format!("{n}\n")).collect::<String>().into_bytes()
    );
    assert_eq!((few.dropped.len(), few.next_seq), (0, log.last_seq()));
    let all = reader.tail_lines(1 << 40, None, 1 << 20).unwrap();
    assert_eq!((all.dropped.len(), all.records[0].seq), (1, 1));
    assert_eq!(all.records, read_all(&records, Ended::NotYet).records);
}

#[test]
fn grep_waits_for_the_end_of_a_line_and_repeats_none() {
    let records = Records::new();
    let mut log = records.log(1 << 20);
    let pattern = Regex::new("^a.*z$").unwrap();
    let mut reader = records.reader();
    let mut grep = |after, ended| {
        let batch = reader.grep(&pattern, None, after, 1 << 20, ended).unwrap();
        let lines: Vec<_> = batch
            .records
            .iter()
            .map(|line| (line.seq, String::from_utf8(line.bytes.clone()).unwrap()))
            .collect();
        (lines, batch.next_seq)
    };
    log.append(Stream::Stdout, Timestamp(1), b"a1z\r\nno\na2");
    assert_eq!(grep(0, Ended::NotYet), (vec![(1, "a1z\r\n".to_owned())], 1));
    log.append(Stream::Stderr, Timestamp(2), b"a3z\naz");
    assert_eq!(grep(1, Ended::NotYet), (vec![(2, "a3z\n".to_owned())], 2));
    log.append(Stream::Stdout, Timestamp(3), b"z\n");
    assert_eq!(grep(2, Ended::NotYet), (vec![(3, "a2z\n".to_owned())], 3));
    assert_eq!(grep(3, Ended::Yes), (vec![(2, "az".to_owned())], 3));
    assert_eq!(grep(3, Ended::Yes), (vec![], 3));
    let all = ["a1z\r\n", "a3z\n", "a2z\n", "az"].map(str::to_owned);
    assert_eq!(grep(0, Ended::Yes).0.into_iter().map(|(_, line)| line).collect::<Vec<_>>(), all);
}

#[test]
fn a_line_without_end_takes_little_memory_and_is_searched_in_pieces() {
    let records = Records::new();
    let mut log = records.log(4 << 20);
    for _ in 0..64 {
        log.append(Stream::Stdout, Timestamp(0), &vec![b'x'; 1 << 20]);
    }
    let pattern = Regex::new("x").unwrap();
    let mut reader = records.reader();
    let (mut after, mut found) = (0, 0);
    loop {
        let batch = reader.grep(&pattern, None, after, 200_000, Ended::Yes).unwrap();
        assert!(batch.records.iter().all(|line| line.bytes.len() <= 64 * 1024));
        let bytes: usize = batch.records.iter().map(|line| line.bytes.len()).sum();
        assert!(bytes <= 200_000);
        found += bytes;
        after = batch.next_seq;
        if batch.at_end {
            break;
        }
    }
    let kept: usize = read_all(&records, Ended::Yes).records.iter().map(|r| r.bytes.len()).sum();
    assert_eq!(found, kept);
    let tail = reader.tail_lines(1, None, 5000).unwrap();
    assert_eq!(text(&tail.records).len(), 5000);
}

fn liney() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        5 => "[a-c]{0,6}".prop_map(String::into_bytes),
        3 => Just(b"\n".to_vec()),
        1 => (0..70_000_usize).prop_map(|n| vec![b'b'; n]),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

/// Each line or piece with the seq in which it ends; the unfinished one at the end has none.
fn naive_lines(records: &[Record]) -> Vec<(Option<u64>, Vec<u8>)> {
    let mut lines = Vec::new();
    for stream in STREAMS {
        let mut line = Vec::new();
        for record in of(Some(stream), records) {
            for byte in &record.bytes {
                line.push(*byte);
                if *byte == b'\n' || line.len() == 64 * 1024 {
                    lines.push((Some(record.seq), std::mem::take(&mut line)));
                }
            }
        }
        if !line.is_empty() {
            lines.push((None, line));
        }
    }
    lines.sort_by_key(|(seq, _)| seq.unwrap_or(u64::MAX));
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn tail_is_what_a_plain_reading_gives(
        appends in prop::collection::vec((0..3_usize, liney()), 0..40),
        bound in prop::sample::select(vec![20_000_u64, 64 << 20]),
        lines in 0..30_u64,
        max in 1..100_000_u64,
        stream in prop::option::of(0..3_usize),
    ) {
        let records = Records::new();
        let mut log = records.log(bound);
        for (stream, bytes) in &appends {
            log.append(STREAMS[*stream], Timestamp(0), bytes);
        }
        let stream = stream.map(|index| STREAMS[index]);
        let all = read_all(&records, Ended::NotYet);
        let expected = naive_tail(&text(&of(stream, &all.records)), lines as usize, max as usize);
        let tail = records.reader().tail_lines(lines, stream, max).unwrap();
        prop_assert_eq!(tail.next_seq, log.last_seq());
        prop_assert!(tail.records.iter().all(|record| !record.bytes.is_empty()));
        prop_assert!(text(&tail.records) == expected);
        prop_assert!(tail.dropped.iter().all(|gap| all.dropped.contains(gap)));
    }

    #[test]
    fn grep_is_what_a_plain_reading_gives(
        appends in prop::collection::vec((0..3_usize, liney(), any::<bool>()), 0..40),
        bound in prop::sample::select(vec![3_000_000_u64, 64 << 20]),
        max in 0..100_000_u64,
        only in prop::option::of(0..3_usize),
    ) {
        let records = Records::new();
        let mut log = records.log(bound);
        let mut model = Model::default();
        let only = only.map(|index| STREAMS[index]);
        let pattern = Regex::new("^(a|b+$)").unwrap();
        let mut stayed = records.reader();
        let (mut by_stayed, mut by_new) = ((0, Vec::new()), (0, Vec::new()));
        let go_on = |reader: &mut LogReader, so_far: &mut (u64, Vec<Record>), ended| {
            let batch = reader.grep(&pattern, only, so_far.0, max, ended).unwrap();
            so_far.0 = batch.next_seq;
            so_far.1.extend(batch.records);
            batch.at_end
        };
        for (stream, bytes, poll) in &appends {
            model.append(&mut log, STREAMS[*stream], bytes);
            if *poll {
                go_on(&mut stayed, &mut by_stayed, Ended::NotYet);
                go_on(&mut records.reader(), &mut by_new, Ended::NotYet);
            }
        }
        while !go_on(&mut stayed, &mut by_stayed, Ended::Yes) {}
        while !go_on(&mut records.reader(), &mut by_new, Ended::Yes) {}

        let all = read_all(&records, Ended::Yes);
        prop_assume!(all.dropped.is_empty());
        let expected: Vec<_> = naive_lines(&of(only, &all.records))
            .into_iter()
            .filter(|(_, line)| pattern.is_match(line.strip_suffix(b"\n").unwrap_or(line)))
            .collect();
        for found in [&by_stayed.1, &by_new.1] {
            prop_assert_eq!(found.len(), expected.len());
            for (line, (seq, bytes)) in found.iter().zip(&expected) {
                prop_assert!(line.bytes == *bytes);
                prop_assert!(seq.is_none_or(|seq| seq == line.seq));
            }
        }
    }
}

#[test]
fn a_reader_is_small_between_calls() {
    let records = Records::new();
    let mut log = records.log(1 << 20);
    log.append(Stream::Stdout, Timestamp(0), b"x");
    let mut readers: Vec<_> =
        (0..1000).map(|_| LogReader::open(records.fd(), &exec()).unwrap()).collect();
    for reader in &mut readers {
        let batch = reader.read_after(0, 10, Align::Raw, Ended::NotYet).unwrap();
        assert_eq!(batch.records.len(), 1);
    }
}

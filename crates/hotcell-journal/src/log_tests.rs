//! Tests of the output log against everything that was appended.

use hotcell_model::{Dropped, Record, Stream, Timestamp};
use proptest::prelude::*;

use crate::disk::full;
use crate::segment::STREAMS;
use crate::testing::{Model, Records, exec, read_all, read_on};
use crate::{Align, Batch, Ended, forget_output, list_logs};

#[test]
fn nothing_printed_touches_nothing() {
    let records = Records::new();
    let mut log = records.log(1 << 20);
    assert!(log.append(Stream::Stdout, Timestamp(0), b"").is_empty());
    log.finish();
    assert_eq!(records.path().read_dir().unwrap().count(), 0);
    let read = read_all(&records, Ended::Yes);
    assert_eq!(read, Batch { at_end: true, ..Batch::default() });
    assert_eq!(records.reader().read_after(5, 9, Align::Utf8, Ended::NotYet).unwrap().next_seq, 5);
}

#[test]
fn a_long_read_becomes_records_of_the_largest_size() {
    let records = Records::new();
    let mut log = records.log(64 << 20);
    let bytes = vec![b'x'; 3 * Record::MAX_BYTES + 5];
    assert_eq!(log.append(Stream::Stderr, Timestamp(4), &bytes), 1..=4);
    assert_eq!((log.last_seq(), log.bytes(Stream::Stderr)), (4, bytes.len() as u64));
    let mut reader = records.reader();
    let one = reader.read_after(0, 0, Align::Raw, Ended::NotYet).unwrap();
    assert_eq!((one.records.len(), one.next_seq, one.at_end), (1, 1, false));
    let two = reader.read_after(1, 2 * 16384, Align::Raw, Ended::NotYet).unwrap();
    assert_eq!((two.records.len(), two.next_seq, two.at_end), (2, 3, false));
    let rest = reader.read_after(3, 1 << 20, Align::Raw, Ended::NotYet).unwrap();
    assert_eq!((rest.records[0].bytes.len(), rest.at_end), (5, true));
}

#[test]
fn head_and_tail_are_kept_and_the_middle_is_stated() {
    let records = Records::new();
    let bound = 160_000;
    let mut log = records.log(bound);
    let mut model = Model::default();
    for number in 0..100_000_u64 {
        model.append(&mut log, Stream::Stdout, format!("line {number}\n").as_bytes());
    }
    let read = read_all(&records, Ended::NotYet);
    assert_eq!(model.check(&read.records, &read.dropped), 0);
    assert_eq!(read.dropped.len(), 1);
    let gap = read.dropped[0];
    let head: usize =
        read.records.iter().take_while(|r| r.seq < gap.from_seq).map(|r| r.bytes.len()).sum();
    let tail: usize =
        read.records.iter().skip_while(|r| r.seq < gap.to_seq).map(|r| r.bytes.len()).sum();
    assert_eq!(head, 80_000);
    assert!((70_000..=80_000).contains(&tail), "{tail}");
    assert_eq!(read.next_seq, log.last_seq());
    assert!(records.segments().len() <= 16);
}

#[test]
fn as_much_as_the_bound_is_kept_whole() {
    let records = Records::new();
    let mut log = records.log(1 << 20);
    let mut model = Model::default();
    for _ in 0..1 << 10 {
        model.append(&mut log, Stream::Stdout, &[b'x'; 1 << 10]);
    }
    assert_eq!(read_all(&records, Ended::NotYet).dropped, []);
    model.append(&mut log, Stream::Stdout, b"!");
    let read = read_all(&records, Ended::NotYet);
    assert_eq!(read.dropped.len(), 1);
    assert_eq!(model.check(&read.records, &read.dropped), 0);
}

#[test]
fn tiny_records_do_not_fill_the_disk() {
    let records = Records::new();
    let mut log = records.log(64 * 1024);
    let mut model = Model::default();
    for _ in 0..80_000 {
        model.append(&mut log, Stream::Stdout, b".");
    }
    let on_disk: u64 = records.segments().iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(on_disk <= 16 * (4 * 4096 + 64 * 1024 + 64), "{on_disk}");
    let read = read_all(&records, Ended::NotYet);
    assert_eq!(model.check(&read.records, &read.dropped), 0);
}

#[test]
fn output_that_is_let_go_of_is_stated_and_that_of_others_stays() {
    let records = Records::new();
    assert_eq!(list_logs(records.path()).unwrap(), []);
    let other = hotcell_model::ExecId::from_random(8);
    let mut kept = crate::OutputLog::new(records.fd(), &other, 100).unwrap();
    kept.append(Stream::Stdout, Timestamp(0), b"kept");
    let mut log = records.log(100);
    log.append(Stream::Stdout, Timestamp(0), &[0; 90]);
    log.append(Stream::Stderr, Timestamp(0), &[0; 80]);
    let mut execs: Vec<_> =
        list_logs(records.path()).unwrap().into_iter().map(|log| log.exec).collect();
    execs.sort_by_key(|exec| *exec != other);
    assert_eq!(execs, [other.clone(), exec()]);
    for _ in 0..2 {
        forget_output(records.path(), &exec()).unwrap();
        let read = read_all(&records, Ended::Yes);
        assert_eq!(read.records, []);
        let dropped: Vec<_> =
            read.dropped.iter().map(|it| (it.from_seq, it.to_seq, it.dropped_bytes)).collect();
        assert_eq!(dropped, [(1, log.last_seq(), 170)]);
    }
    let left: Vec<_> = list_logs(records.path()).unwrap().into_iter().map(|log| log.exec).collect();
    assert_eq!(left, [other]);
}

#[test]
fn a_log_goes_on_after_finish() {
    let records = Records::new();
    let mut log = records.log(1 << 20);
    let mut model = Model::default();
    model.append(&mut log, Stream::Stdout, b"one");
    log.finish();
    model.append(&mut log, Stream::Stdout, b"two");
    let read = read_all(&records, Ended::Yes);
    assert_eq!(model.check(&read.records, &read.dropped), 0);
}

/// What a test does to a log.
#[derive(Debug, Clone)]
enum Act {
    Append(Stream, Vec<u8>),
    /// The disk takes so many more bytes; none for no bound.
    Disk(Option<usize>),
    /// A reader that was there before reads on.
    Read(u64),
    Finish,
}

fn stream() -> impl Strategy<Value = Stream> {
    prop::sample::select(STREAMS.to_vec())
}

fn act(longest: usize) -> impl Strategy<Value = Act> {
    let short = crate::align_tests::texty();
    let long = (any::<u8>(), 0..longest).prop_map(|(byte, n)| vec![byte; n]);
    prop_oneof![
        6 => (stream(), short).prop_map(|(stream, bytes)| Act::Append(stream, bytes)),
        2 => (stream(), long).prop_map(|(stream, bytes)| Act::Append(stream, bytes)),
        2 => prop::option::of(0..5000_usize).prop_map(Act::Disk),
        3 => (0..40_000_u64).prop_map(Act::Read),
        1 => Just(Act::Finish),
    ]
}

/// A bound, and acts that go past it without making thousands of files.
fn bound_and_acts() -> impl Strategy<Value = (u64, Vec<Act>)> {
    prop::sample::select(vec![16, 1000, 20_000, 400_000, 64 << 20]).prop_flat_map(|bound: u64| {
        let longest = usize::try_from(bound * 3).unwrap().min(60_000);
        (Just(bound), prop::collection::vec(act(longest), 1..60))
    })
}

/// What a cold reader has to find after `after`, given everything.
fn suffix(all: &Batch, after: u64) -> (Vec<Record>, Vec<(u64, u64)>) {
    let records = all.records.iter().filter(|record| record.seq > after).cloned().collect();
    let gaps = all.dropped.iter().filter(|gap| gap.to_seq > after);
    (records, gaps.map(|gap| (gap.from_seq.max(after + 1), gap.to_seq)).collect())
}

fn ranges(gaps: &[Dropped]) -> Vec<(u64, u64)> {
    gaps.iter().map(|gap| (gap.from_seq, gap.to_seq)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn every_reader_finds_all_there_is_or_its_absence(
        (bound, acts) in bound_and_acts(),
        points in prop::collection::vec(any::<prop::sample::Index>(), 4),
    ) {
        full::leave(None);
        let records = Records::new();
        let mut log = records.log(bound);
        let mut model = Model::default();
        let mut follower = records.reader();
        let mut followed = Batch::default();
        for act in acts {
            match act {
                Act::Append(stream, bytes) => model.append(&mut log, stream, &bytes),
                Act::Disk(left) => full::leave(left),
                Act::Read(max) => {
                    let batch = follower
                        .read_after(followed.next_seq, max, Align::Raw, Ended::NotYet)
                        .unwrap();
                    followed.records.extend(batch.records);
                    batch.dropped.into_iter().for_each(|gap| followed.add_gap(gap, 0));
                    followed.next_seq = batch.next_seq;
                }
                Act::Finish => log.finish(),
            }
        }
        log.finish();
        full::leave(None);

        let all = read_all(&records, Ended::Yes);
        prop_assert_eq!(model.check(&all.records, &all.dropped), 0);
        prop_assert_eq!(all.next_seq, log.last_seq());
        let kept: usize = all.records.iter().map(|record| record.bytes.len()).sum();
        prop_assert!(kept as u64 <= bound);

        let rest = read_on(&mut follower, followed.next_seq, 50_000, Align::Raw, Ended::Yes);
        followed.records.extend(rest.records);
        rest.dropped.into_iter().for_each(|gap| followed.add_gap(gap, 0));
        prop_assert_eq!(model.check(&followed.records, &followed.dropped), 0);

        for point in points {
            let after = point.index(log.last_seq() as usize + 3) as u64;
            let cold = read_on(&mut records.reader(), after, 9_000, Align::Raw, Ended::Yes);
            let (records_after, gaps_after) = suffix(&all, after);
            prop_assert_eq!(&cold.records, &records_after);
            prop_assert_eq!(ranges(&cold.dropped), gaps_after.clone());
            // The same from a reader that has to go back or skip.
            let moved = read_on(&mut follower, after, 9_000, Align::Raw, Ended::Yes);
            prop_assert_eq!(moved.records, records_after);
            prop_assert_eq!(ranges(&moved.dropped), gaps_after);
        }
    }

    #[test]
    fn alignment_never_changes_the_concatenation(
        appends in prop::collection::vec((stream(), crate::align_tests::texty(), any::<bool>()), 1..80),
        bound in prop::sample::select(vec![4_000_u64, 64 << 20]),
        max in 1..300_u64,
    ) {
        let records = Records::new();
        let mut log = records.log(bound);
        let mut model = Model::default();
        let mut warm = records.reader();
        // One reader that stays, and one made anew for each poll.
        let (mut stayed, mut polled) = (Batch::default(), Batch::default());
        for (stream, bytes, poll) in &appends {
            model.append(&mut log, *stream, bytes);
            if *poll {
                let cold = records.reader().read_after(polled.next_seq, max, Align::Utf8, Ended::NotYet).unwrap();
                polled.records.extend(cold.records);
                polled.next_seq = cold.next_seq;
                let more = warm.read_after(stayed.next_seq, max, Align::Utf8, Ended::NotYet).unwrap();
                stayed.records.extend(more.records);
                stayed.next_seq = more.next_seq;
            }
        }
        let all = read_all(&records, Ended::Yes);
        prop_assume!(all.dropped.is_empty());
        stayed.records.extend(read_on(&mut warm, stayed.next_seq, max, Align::Utf8, Ended::Yes).records);
        loop {
            let cold = records.reader().read_after(polled.next_seq, max, Align::Utf8, Ended::Yes).unwrap();
            polled.records.extend(cold.records);
            polled.next_seq = cold.next_seq;
            if cold.at_end {
                break;
            }
        }
        for stream in STREAMS {
            let of = |batch: &Batch| -> Vec<u8> {
                let mine = batch.records.iter().filter(|record| record.stream == stream);
                mine.flat_map(|record| record.bytes.clone()).collect()
            };
            prop_assert_eq!(of(&stayed), of(&all));
            prop_assert_eq!(of(&polled), of(&all));
        }
        prop_assert_eq!(warm.read_after(stayed.next_seq.max(log.last_seq()), max, Align::Utf8, Ended::Yes).unwrap().records, vec![]);
    }
}

//! Tests of reading back: the last of each stream before a place, across segments and gaps.

use hotcell_model::{Record, Stream};
use proptest::prelude::*;

use crate::testing::{Model, Records, read_all};
use crate::{Align, Ended};

/// What was kept of a stream before a seq, since the last gap.
fn kept(all: &[Record], gaps: &[hotcell_model::Dropped], seq: u64, stream: Stream) -> Vec<u8> {
    let after =
        gaps.iter().filter(|gap| gap.to_seq <= seq).map(|gap| gap.to_seq).max().unwrap_or(0);
    let wanted =
        |record: &&Record| record.seq > after && record.seq <= seq && record.stream == stream;
    all.iter().filter(wanted).flat_map(|record| record.bytes.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_last_of_each_stream_is_read_back(
        appends in proptest::collection::vec((0usize..2, 1usize..700), 1..120),
        bound in prop_oneof![Just(16_000u64), Just(1 << 20)],
        bytes in 1u64..3000,
    ) {
        let records = Records::new();
        let mut log = records.log(bound);
        let mut model = Model::default();
        for (place, (stream, length)) in appends.iter().enumerate() {
            let stream = [Stream::Stdout, Stream::Stderr][*stream];
            let text: Vec<u8> = (0..*length).map(|at| ((place * 31 + at) % 251) as u8).collect();
            model.append(&mut log, stream, &text);
        }
        let whole = read_all(&records, Ended::Yes);
        let (all, gaps) = (whole.records, whole.dropped);
        for seq in 1..=model.last_seq() {
            let mut reader = records.reader();
            let before = reader.read_before(seq, bytes, Align::Raw).unwrap();
            prop_assert!(before.records.iter().all(|record| record.seq <= seq));
            prop_assert!(before.records.is_sorted_by_key(|record| record.seq));
            for stream in [Stream::Stdout, Stream::Stderr] {
                let read: Vec<u8> = before.records.iter().filter(|record| record.stream == stream)
                    .flat_map(|record| record.bytes.clone()).collect();
                let expected = kept(&all, &gaps, seq, stream);
                // It goes back as far as is wanted, or as far as there is anything in one segment
                // before: a stream that is seldom written to may begin further back.
                let common = read.len().min(expected.len());
                prop_assert_eq!(&read[read.len() - common..], &expected[expected.len() - common..]);
                if bound > 16_000 {
                    prop_assert!(read.len() as u64 >= bytes.min(expected.len() as u64), "{}", seq);
                }
            }
            // Reading on continues right after it.
            let next = reader.read_after(seq, 1, Align::Raw, Ended::Yes).unwrap();
            let expected = all.iter().find(|record| record.seq > seq);
            prop_assert_eq!(next.records.first(), expected);
        }
    }
}

//! Tests of characters split between records.

use hotcell_model::{Record, Stream, Timestamp};
use proptest::prelude::*;

use crate::Utf8Aligner;
use crate::align::Held;

fn record(seq: u64, stream: Stream, bytes: &[u8]) -> Record {
    Record { seq, ts: Timestamp(seq), stream, bytes: bytes.to_vec() }
}

#[test]
fn a_character_is_whole_in_the_later_record() {
    let mut aligner = Utf8Aligner::new();
    let euro = "€".as_bytes();
    assert_eq!(aligner.push(record(1, Stream::Stdout, &euro[..1])).bytes, b"");
    assert_eq!(aligner.push(record(2, Stream::Stderr, b"x")).bytes, b"x");
    assert_eq!(aligner.push(record(3, Stream::Stdout, &euro[1..2])).bytes, b"");
    let whole = aligner.push(record(4, Stream::Stdout, &[euro[2], b'!', 0xf0]));
    assert_eq!((whole.seq, whole.bytes.as_slice()), (4, "€!".as_bytes()));
    assert_eq!(aligner.finish(), [record(4, Stream::Stdout, &[0xf0])]);
    assert_eq!(aligner.finish(), []);
}

#[test]
fn bytes_that_can_become_no_character_are_not_held() {
    for bytes in [&b"\x80"[..], b"\xc0", b"\xf5", b"\xe0\x80", b"\xed\xa0", b"\xf4\x90", b"\xff"] {
        let mut aligner = Utf8Aligner::new();
        assert_eq!(aligner.push(record(1, Stream::Pty, bytes)).bytes, bytes, "{bytes:?}");
    }
}

/// Bytes with many starts and ends of characters among them.
pub(crate) fn texty() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop_oneof![
        4 => any::<char>().prop_map(|c| c.to_string().into_bytes()),
        2 => Just(b"\n".to_vec()),
        1 => any::<u8>().prop_map(|b| vec![b]),
    ];
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn the_concatenation_stays(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 0..40)) {
        let mut aligner = Utf8Aligner::new();
        let mut out = Vec::new();
        for (seq, part) in (1..).zip(&parts) {
            out.extend(aligner.push(record(seq, Stream::Stdout, part)).bytes);
        }
        out.extend(aligner.finish().into_iter().flat_map(|record| record.bytes));
        prop_assert_eq!(out, parts.concat());
    }

    #[test]
    fn text_stays_text_however_it_is_cut(text in any::<String>(), cuts in prop::collection::vec(1..5_usize, 1..60)) {
        let mut aligner = Utf8Aligner::new();
        let mut out = String::new();
        let mut rest = text.as_bytes();
        for (seq, cut) in (1..).zip(cuts.iter().cycle()) {
            if rest.is_empty() {
                break;
            }
            let (part, after) = rest.split_at(rest.len().min(*cut));
            rest = after;
            out.push_str(std::str::from_utf8(&aligner.push(record(seq, Stream::Stdout, part)).bytes).unwrap());
        }
        prop_assert_eq!(out, text);
        prop_assert!(aligner.finish().is_empty());
    }

    #[test]
    fn what_is_held_does_not_depend_on_the_cuts(bytes in texty(), cut in any::<prop::sample::Index>()) {
        let (head, tail) = bytes.split_at(cut.index(bytes.len() + 1));
        prop_assert_eq!(Held::default().then(head).then(tail), Held::default().then(&bytes));
    }
}

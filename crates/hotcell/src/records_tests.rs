//! What is printed for records of output.

use hotcell_model::{Dropped, Record, Stream, Timestamp};

use crate::printer::{Piece, Target};
use crate::records::{Format, RecordPrinter};

fn record(seq: u64, stream: Stream, bytes: &[u8]) -> Record {
    Record { seq, ts: Timestamp(1000), stream, bytes: bytes.to_vec() }
}

fn text(piece: Option<Piece>) -> String {
    piece.map_or_else(String::new, |piece| String::from_utf8(piece.bytes).unwrap())
}

fn data(piece: Option<Piece>) -> Option<(u64, String)> {
    let line = text(piece);
    if line.is_empty() {
        return None;
    }
    let message: hotcell_model::Message = serde_json::from_str(&line).unwrap();
    Some((message.seq, message.data))
}

#[test]
fn raw_output_stays_as_it_is() {
    let mut printer = RecordPrinter::new(Format::Raw);
    for (stream, target) in
        [(Stream::Stdout, Target::Out), (Stream::Stderr, Target::Err), (Stream::Pty, Target::Out)]
    {
        let piece = printer.record(record(1, stream, b"\xff\x00\n")).unwrap().unwrap();
        assert_eq!((piece.target, piece.bytes.as_slice()), (target, b"\xff\x00\n".as_slice()));
    }
    assert!(printer.finish().unwrap().is_none());
}

#[test]
fn messages_have_the_shape_of_the_wire() {
    let mut printer = RecordPrinter::new(Format::Json);
    let piece = printer.record(record(7, Stream::Stderr, b"a\n")).unwrap();
    insta::assert_snapshot!(text(piece), @r#"{"seq":7,"stream":"stderr","data":"a\n","ts":"1970-01-01T00:00:01.000Z"}"#);
}

#[test]
fn a_split_character_is_whole_in_the_later_message() {
    let mut printer = RecordPrinter::new(Format::Json);
    let euro = "€".as_bytes();
    assert_eq!(
        data(printer.record(record(1, Stream::Stdout, b"a\xe2")).unwrap()),
        Some((1, "a".into()))
    );
    assert_eq!(
        data(printer.record(record(2, Stream::Stderr, b"b")).unwrap()),
        Some((2, "b".into()))
    );
    assert_eq!(data(printer.record(record(3, Stream::Stdout, &euro[1..2])).unwrap()), None);
    assert_eq!(
        data(printer.record(record(4, Stream::Stdout, &euro[2..])).unwrap()),
        Some((4, "€".into()))
    );
    assert!(printer.finish().unwrap().is_none());
}

#[test]
fn what_never_becomes_a_character_is_shown_as_such() {
    let mut printer = RecordPrinter::new(Format::Json);
    assert_eq!(
        data(printer.record(record(1, Stream::Pty, b"\xff\x80")).unwrap()),
        Some((1, "\u{fffd}\u{fffd}".into()))
    );
    assert_eq!(data(printer.record(record(2, Stream::Pty, b"\xf0\x9f")).unwrap()), None);
    assert_eq!(data(printer.finish().unwrap()), Some((2, "\u{fffd}".into())));
}

#[test]
fn gaps_are_stated() {
    let dropped = Dropped { dropped_bytes: 2048, from_seq: 3, to_seq: 9 };
    let mut printer = RecordPrinter::new(Format::Json);
    for _ in 0..2 {
        let json = printer.dropped(dropped).unwrap().unwrap();
        assert_eq!(json.target, Target::Out);
        insta::allow_duplicates! {
            insta::assert_snapshot!(text(Some(json)), @r#"{"dropped":{"dropped_bytes":2048,"from_seq":3,"to_seq":9}}"#);
        }
    }
    assert!(printer.finish().unwrap().is_none());
}

#[test]
fn many_gaps_are_stated_once_and_summed_up() {
    let dropped = Dropped { dropped_bytes: 2048, from_seq: 3, to_seq: 9 };
    let mut printer = RecordPrinter::new(Format::Raw);
    let first = printer.dropped(dropped).unwrap().unwrap();
    assert_eq!(first.target, Target::Err);
    insta::assert_snapshot!(text(Some(first)), @"note: 2 KiB of output were not kept (seq 3 to 9)");
    assert!(printer.dropped(Dropped { from_seq: 12, to_seq: 13, ..dropped }).unwrap().is_none());
    let sum = printer.finish().unwrap();
    insta::assert_snapshot!(text(sum), @"note: 4 KiB of output were not kept in all, in 2 places");
}

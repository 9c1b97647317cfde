//! Tests of what is said over the stream.

use bytes::{BufMut, BytesMut};

use crate::frame::{Decoder, Frame, Head};

#[test]
fn frames_come_out_as_they_went_in_however_they_are_cut() {
    let frames = [
        Frame::bare(Head::Begin),
        Frame::new(Head::Data { channel: 7 }, vec![0, 255, b'\n']),
        Frame::new(Head::Put { file: "network.json".to_owned() }, "{}"),
    ];
    let mut bytes = BytesMut::new();
    for frame in &frames {
        frame.encode(&mut bytes).expect("it fits");
    }
    for cut in 1..bytes.len() {
        let mut decoder = Decoder::default();
        let mut found = Vec::new();
        for part in bytes.chunks(cut) {
            decoder.feed(part);
            while let Some(frame) = decoder.next().expect("it is right") {
                found.push(frame);
            }
        }
        assert_eq!(found, frames, "in pieces of {cut}");
    }
}

#[test]
fn what_is_too_long_or_nonsense_is_refused_before_memory_is_taken() {
    let mut decoder = Decoder::default();
    decoder.feed(&[255; 6]);
    assert!(decoder.next().is_err());

    let mut bytes = BytesMut::new();
    bytes.put_u32_le(3);
    bytes.put_u16_le(9);
    let mut decoder = Decoder::default();
    decoder.feed(&bytes);
    assert!(decoder.next().is_err(), "a head that is longer than all of it");

    let mut bytes = BytesMut::new();
    bytes.put_u32_le(2);
    bytes.put_u16_le(2);
    bytes.put_slice(b"{]");
    let mut decoder = Decoder::default();
    decoder.feed(&bytes);
    assert!(decoder.next().is_err(), "a head that is no JSON");
}

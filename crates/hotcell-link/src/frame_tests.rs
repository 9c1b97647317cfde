//! Tests of frames and of the buffers they pass through.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{Frame, FrameError, FrameKind, MAX_FRAME_BYTES, Peer, PeerError, decode, encode};

const KINDS: [FrameKind; 10] = [
    FrameKind::Hello,
    FrameKind::Ask,
    FrameKind::Tell,
    FrameKind::Record,
    FrameKind::Ended,
    FrameKind::Activity,
    FrameKind::Credit,
    FrameKind::Forget,
    FrameKind::File,
    FrameKind::Data,
];
const REQUIRED: u8 = 1;

fn any_frame() -> impl Strategy<Value = Frame> {
    let kind = proptest::sample::select(&KINDS[..]);
    (kind, any::<u32>(), vec(any::<u8>(), 0..20), vec(any::<u8>(), 0..100))
        .prop_map(|(kind, channel, head, blob)| Frame { kind, channel, head, blob })
}

/// A long blob costs little to make when its bytes are alike.
fn blob_of(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), length).prop_map(|(byte, length)| vec![byte; length])
}

fn bytes_of(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(frame.kind, frame.channel, &frame.head, &frame.blob, &mut bytes);
    bytes
}

/// A frame of any kind, with flags, as another version might send it.
fn foreign(kind: u8, flags: u8, channel: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(10 + payload.len()).unwrap();
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(channel.to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// The other end after its greeting.
fn greeted() -> Peer {
    let mut peer = Peer::new();
    peer.receive(Peer::new().unsent());
    peer.greet().unwrap();
    peer
}

/// All that can be taken from a peer, and why no more can.
fn drain(peer: &mut Peer) -> (Vec<Frame>, Option<PeerError>) {
    let mut frames = Vec::new();
    loop {
        match peer.next_frame() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return (frames, None),
            Err(error) => return (frames, Some(error)),
        }
    }
}

proptest! {
    #[test]
    fn every_frame_comes_back_as_it_was(frame in any_frame(), after in vec(any::<u8>(), 0..20)) {
        let mut bytes = bytes_of(&frame);
        let length = bytes.len();
        bytes.extend(after);
        prop_assert_eq!(decode(&bytes), Ok(Some((length, Some(frame)))));
    }

    #[test]
    fn part_of_a_frame_is_none(frame in any_frame(), cut in any::<prop::sample::Index>()) {
        let bytes = bytes_of(&frame);
        prop_assert_eq!(decode(&bytes[..cut.index(bytes.len())]), Ok(None));
    }

    #[test]
    fn frames_pass_in_pieces_of_any_size(
        frames in vec(any_frame(), 1..20),
        sizes in vec(1_usize..300, 1..20),
    ) {
        let stream: Vec<u8> = frames.iter().flat_map(bytes_of).collect();
        let mut peer = greeted();
        let mut came = Vec::new();
        let mut sizes = sizes.iter().cycle();
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let (piece, more) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
            peer.receive(piece);
            let (taken, error) = drain(&mut peer);
            prop_assert!(error.is_none());
            came.extend(taken);
            rest = more;
        }
        prop_assert_eq!(came, frames);
    }

    #[test]
    fn what_is_sent_in_part_goes_on_where_it_stopped(
        blobs in vec(blob_of(0..90_000), 1..8),
        sizes in vec(1_usize..70_000, 1..20),
    ) {
        let (mut sender, mut receiver) = (Peer::new(), Peer::new());
        let mut sizes = sizes.iter().cycle();
        for (channel, blob) in (1..).zip(&blobs) {
            sender.send_with_blob(FrameKind::Record, channel, &(), blob);
            // Only part of it leaves before the next comes.
            let size = (*sizes.next().unwrap()).min(sender.unsent().len());
            receiver.receive(&sender.unsent()[..size]);
            sender.mark_sent(size);
        }
        while !sender.unsent().is_empty() {
            let size = (*sizes.next().unwrap()).min(sender.unsent().len());
            receiver.receive(&sender.unsent()[..size]);
            sender.mark_sent(size);
        }
        let (frames, error) = drain(&mut receiver);
        prop_assert!(error.is_none());
        prop_assert!(frames.iter().map(|frame| &frame.blob).eq(&blobs));
        prop_assert!((1..).zip(&frames).all(|(channel, frame)| frame.channel == channel));
    }

    #[test]
    fn garbage_is_an_error_or_nothing_and_never_more(bytes in vec(any::<u8>(), 0..400)) {
        if let Ok(Some((length, _))) = decode(&bytes) {
            prop_assert!(length <= bytes.len());
        }
        for mut peer in [Peer::new(), greeted()] {
            peer.receive(&bytes);
            drain(&mut peer);
        }
    }

    #[test]
    fn a_frame_with_wrong_bytes_does_no_harm(
        frame in any_frame(),
        wrong in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = bytes_of(&frame);
        for (at, byte) in wrong {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut peer = greeted();
        peer.receive(&bytes);
        let (frames, _) = drain(&mut peer);
        for frame in frames {
            // Whether the head can be read is another question than whether it was framed.
            let _ = frame.head::<crate::Ask>();
            let _ = frame.head::<crate::Tell>();
        }
    }

    #[test]
    fn unknown_frames_are_skipped(kind in 10_u8.., payload in vec(any::<u8>(), 0..100), next in any_frame()) {
        // Flags that mean nothing here do not make it required.
        for flags in [0, 0xFE] {
            let mut peer = greeted();
            peer.receive(&foreign(kind, flags, 3, &payload));
            peer.receive(&bytes_of(&next));
            let (frames, error) = drain(&mut peer);
            prop_assert!(error.is_none());
            prop_assert_eq!(frames, vec![next.clone()]);
        }
    }

    #[test]
    fn unknown_frames_that_are_required_are_refused(kind in 10_u8.., flags: u8) {
        let mut peer = greeted();
        peer.receive(&foreign(kind, flags | REQUIRED, 3, b"new"));
        let error = peer.next_frame().unwrap_err();
        prop_assert!(matches!(error, PeerError::Frame(FrameError::UnknownRequired(it)) if it == kind));
    }
}

#[test]
fn known_frames_may_be_marked_as_required() {
    for (kind, byte) in KINDS.into_iter().zip(0..) {
        let mut bytes = bytes_of(&Frame { kind, channel: 1, head: vec![1], blob: vec![2] });
        assert_eq!(bytes[4], byte, "the numbers of the kinds never change");
        bytes[5] = REQUIRED;
        let (_, frame) = decode(&bytes).unwrap().unwrap();
        assert_eq!(frame.unwrap().kind, kind);
    }
}

#[test]
fn a_frame_beyond_the_bound_is_refused_before_it_has_come() {
    let most = u32::try_from(MAX_FRAME_BYTES).unwrap();
    assert_eq!(decode(&most.to_le_bytes()), Ok(None));
    let refused = Err(FrameError::TooLong(MAX_FRAME_BYTES + 1));
    assert_eq!(decode(&(most + 1).to_le_bytes()), refused);
}

#[test]
fn a_frame_that_contradicts_itself_is_refused() {
    for length in 0..10_u8 {
        let mut bytes = u32::from(length).to_le_bytes().to_vec();
        bytes.resize(4 + usize::from(length), 0);
        assert_eq!(decode(&bytes), Err(FrameError::Malformed), "too short for a frame: {length}");
    }
    let mut bytes = bytes_of(&Frame {
        kind: FrameKind::Tell,
        channel: 1,
        head: b"{}".to_vec(),
        blob: Vec::new(),
    });
    bytes[10..14].copy_from_slice(&3_u32.to_le_bytes());
    assert_eq!(decode(&bytes), Err(FrameError::Malformed));
    bytes[10..14].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(decode(&bytes), Err(FrameError::Malformed));
}

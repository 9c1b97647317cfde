//! The keys that leave an exec.

use crate::stdin::{LeaveKeys, Typed};

fn typed(pieces: &[&[u8]]) -> Vec<Typed> {
    let mut keys = LeaveKeys::default();
    pieces.iter().map(|piece| keys.take(piece)).collect()
}

#[test]
fn the_pair_leaves() {
    assert_eq!(typed(&[b"ab\x10\x11cd"]), [Typed::Leave(b"ab".to_vec())]);
    assert_eq!(typed(&[b"\x10", b"\x11"]), [Typed::Input(vec![]), Typed::Leave(vec![])]);
    assert_eq!(typed(&[b"\x10\x10\x11"]), [Typed::Leave(b"\x10".to_vec())]);
}

#[test]
fn anything_else_goes_to_the_exec() {
    assert_eq!(typed(&[b"\x11\x10x"]), [Typed::Input(b"\x11\x10x".to_vec())]);
    assert_eq!(
        typed(&[b"a\x10", b"b\x11"]),
        [Typed::Input(b"a".to_vec()), Typed::Input(b"\x10b\x11".to_vec())]
    );
}

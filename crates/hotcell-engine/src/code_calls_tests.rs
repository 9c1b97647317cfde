//! What code sends is taken apart whatever it is.

use crate::code_calls::{Frame, Skipped, id_of, next_frame};

fn message(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    [&length, text.as_bytes()].concat()
}

#[test]
fn messages_are_taken_one_after_another() {
    let mut unread = [message("one"), message(""), message("three")].concat();
    let last = unread.split_off(unread.len() - 2);
    let mut taken = Vec::new();
    while let Frame::Whole(frame) = next_frame(&mut unread, 5) {
        taken.push(String::from_utf8(frame).unwrap());
    }
    assert_eq!(taken, ["one", ""]);
    unread.extend(last);
    assert!(matches!(next_frame(&mut unread, 5), Frame::Whole(frame) if frame == b"three"));
    assert!(matches!(next_frame(&mut unread, 5), Frame::Part));
}

#[test]
fn what_is_too_long_is_known_by_its_beginning_and_thrown_away() {
    let long = format!("{{\"id\":71,\"op\":\"call\",\"arguments\":\"{}\"}}", "x".repeat(1000));
    let mut unread = message(&long)[..20].to_vec();
    assert!(matches!(next_frame(&mut unread, 500), Frame::Part), "too little to tell whose it is");
    let whole = [message(&long), message("next")].concat();
    let mut unread = whole[..100].to_vec();
    let Frame::TooLong { length, head } = next_frame(&mut unread, 500) else { panic!("not seen") };
    assert_eq!((length, id_of(&head)), (long.len(), 71));
    let mut skipped = Skipped { left: 4 + length - unread.len() };
    unread.clear();
    for piece in whole[100..].chunks(7) {
        skipped.put(piece, &mut unread);
    }
    assert!(matches!(next_frame(&mut unread, 500), Frame::Whole(frame) if frame == b"next"));
    assert_eq!((id_of(b"{\"op\":1}"), id_of(b"")), (0, 0));
}

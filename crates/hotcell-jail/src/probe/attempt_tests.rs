//! What a child says is understood, and its silence too.

use super::{WORKED, decode, encode};
use crate::probe::{Finding, Refusal};

#[test]
fn a_refusal_comes_back_as_it_was_sent() {
    for errno in [None, Some(libc::EPERM)] {
        let said = "not permitted\n(overlay: a second line)".to_owned();
        let refusal = Refusal { step: "new proc".to_owned(), errno, said };
        assert_eq!(decode(&encode(&refusal)), Finding::Refused(refusal));
    }
    assert_eq!(decode(WORKED), Finding::Works);
}

#[test]
fn a_child_that_died_silently_has_not_succeeded() {
    let refusal = decode("");
    assert_eq!(refusal.refusal().unwrap().said, "the process died");
    assert!(!decode("o").works());
}

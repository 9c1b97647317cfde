//! The begin of a carrier.

use rustix::pipe::{PipeFlags, pipe_with};

use crate::carrier::may_begin;

#[test]
fn a_carrier_that_is_written_down_nowhere_does_not_begin() {
    let (begin, keeper) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    drop(keeper);
    assert!(!may_begin(begin));
    let (begin, keeper) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    rustix::io::write(&keeper, b"b").unwrap();
    assert!(may_begin(begin));
}

//! Which signals this process was started to ignore.

use crate::signals::ignored_mask;

#[test]
fn the_mask_is_found_among_the_rest() {
    let status = "Name:\thotcell\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
    assert_eq!(ignored_mask(status), 0x1001);
    assert_eq!(ignored_mask("Name:\thotcell\n"), 0);
}

//! How many programs there may be.

use super::Most;

#[test]
fn one_exec_leaves_room_for_others() {
    let most = Most { of_one: 2, of_all: 3 };
    assert!(most.allows(1, [1].into_iter()));
    assert!(!most.allows(1, [1, 1].into_iter()));
    assert!(most.allows(2, [1, 1].into_iter()));
    assert!(!most.allows(3, [1, 1, 2].into_iter()));
}

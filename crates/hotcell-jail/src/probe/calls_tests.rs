//! The calls on the kernel that runs the tests, and what a refusal looks like.

use super::{each, find, known};
use crate::probe::Finding;

#[test]
fn this_kernel_has_every_call() {
    let found = each();
    assert_eq!(found.len(), 5);
    for call in found {
        assert_eq!(call.finding, Finding::Works, "{}", call.name);
    }
}

#[test]
fn only_the_expected_refusal_proves_a_call() {
    // SAFETY: refused at once, and sets errno: the descriptor is not open.
    let result = unsafe { libc::syscall(libc::SYS_close, -1) };
    assert!(known(result, libc::EBADF).is_ok());
    // SAFETY: as above.
    let result = unsafe { libc::syscall(libc::SYS_close, -1) };
    let refused = find("close", known(result, libc::EINVAL));
    assert_eq!(refused.refusal().unwrap().errno, Some(libc::EBADF));
    assert_eq!(refused.refusal().unwrap().step, "close");
}

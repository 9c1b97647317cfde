//! Modes with a set-user-id bit, for cells that write to a directory of the host.
//!
//! A program with that bit, left in such a directory, would run with its owner's rights for whoever starts
//! it outside. No mount option of the cell's side stops that, so nothing in such a cell can set the
//! bit; `openat2` takes its mode from memory, where no filter sees it, and is not there.

use super::call::{both, x86};
use super::checks::{Check, DEVICES, NOT_PERMITTED, Rule, Test, Verdict};

const SET_USER_ID: u32 = libc::S_ISUID;
/// What makes a file: otherwise the mode means nothing, and may be anything.
const MAKES: u32 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)).cast_unsigned();

const fn has_bit(argument: u32) -> Test {
    Test::HasAny { argument, bits: SET_USER_ID }
}

const fn is_device(argument: u32) -> Test {
    Test::Is { argument, mask: libc::S_IFMT, values: DEVICES }
}

const fn refused(when: &'static [Test]) -> Rule {
    Rule { when, then: NOT_PERMITTED }
}

/// What takes the place of the same calls in other cells.
pub(super) const WITHOUT_SET_USER_ID: &[Check] = &[
    Check { call: x86("chmod", 90), rules: &[refused(&[has_bit(1)])], otherwise: Verdict::Allow },
    Check {
        call: both("fchmod", 91, 52),
        rules: &[refused(&[has_bit(1)])],
        otherwise: Verdict::Allow,
    },
    Check {
        call: both("fchmodat", 268, 53),
        rules: &[refused(&[has_bit(2)])],
        otherwise: Verdict::Allow,
    },
    Check {
        call: both("fchmodat2", 452, 452),
        rules: &[refused(&[has_bit(2)])],
        otherwise: Verdict::Allow,
    },
    Check {
        call: x86("open", 2),
        rules: &[refused(&[Test::HasAny { argument: 1, bits: MAKES }, has_bit(2)])],
        otherwise: Verdict::Allow,
    },
    Check {
        call: both("openat", 257, 56),
        rules: &[refused(&[Test::HasAny { argument: 2, bits: MAKES }, has_bit(3)])],
        otherwise: Verdict::Allow,
    },
    Check { call: x86("creat", 85), rules: &[refused(&[has_bit(1)])], otherwise: Verdict::Allow },
    Check {
        call: x86("mknod", 133),
        rules: &[refused(&[is_device(1)]), refused(&[has_bit(1)])],
        otherwise: Verdict::Allow,
    },
    Check {
        call: both("mknodat", 259, 33),
        rules: &[refused(&[is_device(2)]), refused(&[has_bit(2)])],
        otherwise: Verdict::Allow,
    },
    Check { call: both("openat2", 437, 437), rules: &[], otherwise: Verdict::Fail(libc::ENOSYS) },
];

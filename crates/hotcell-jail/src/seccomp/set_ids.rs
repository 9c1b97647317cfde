//! Modes with a set-user-id or set-group-id bit, for cells that write to a directory of the host.
//!
//! A program with that bit, left in such a directory, would run with its owner's rights when another user
//! starts it outside. No mount option of the cell's side stops that, so nothing in such a cell can set the
//! bit; `openat2` takes its mode from memory, where no filter sees it, and is not there.

use super::call::{both, x86};
use super::checks::{Check, DEVICES, NOT_PERMITTED, Rule, Test, Verdict};

/// What makes a file: otherwise the mode means nothing, and may be anything.
const MAKES: u32 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)).cast_unsigned();

const fn is_device(argument: u32) -> Test {
    Test::Is { argument, mask: libc::S_IFMT, values: DEVICES }
}

const fn refused(when: &'static [Test]) -> Rule {
    Rule { when, then: NOT_PERMITTED }
}

/// What takes the place of the same calls where modes may not have some bits.
macro_rules! without {
    ($bits:expr) => {
        &[
            Check {
                call: x86("chmod", 90),
                rules: &[refused(&[Test::HasAny { argument: 1, bits: $bits }])],
                otherwise: Verdict::Allow,
            },
            Check {
                call: both("fchmod", 91, 52),
                rules: &[refused(&[Test::HasAny { argument: 1, bits: $bits }])],
                otherwise: Verdict::Allow,
            },
            Check {
                call: both("fchmodat", 268, 53),
                rules: &[refused(&[Test::HasAny { argument: 2, bits: $bits }])],
                otherwise: Verdict::Allow,
            },
            Check {
                call: both("fchmodat2", 452, 452),
                rules: &[refused(&[Test::HasAny { argument: 2, bits: $bits }])],
                otherwise: Verdict::Allow,
            },
            Check {
                call: x86("open", 2),
                rules: &[refused(&[
                    Test::HasAny { argument: 1, bits: MAKES },
                    Test::HasAny { argument: 2, bits: $bits },
                ])],
                otherwise: Verdict::Allow,
            },
            Check {
                call: both("openat", 257, 56),
                rules: &[refused(&[
                    Test::HasAny { argument: 2, bits: MAKES },
                    Test::HasAny { argument: 3, bits: $bits },
                ])],
                otherwise: Verdict::Allow,
            },
            Check {
                call: x86("creat", 85),
                rules: &[refused(&[Test::HasAny { argument: 1, bits: $bits }])],
                otherwise: Verdict::Allow,
            },
            Check {
                call: x86("mknod", 133),
                rules: &[
                    refused(&[is_device(1)]),
                    refused(&[Test::HasAny { argument: 1, bits: $bits }]),
                ],
                otherwise: Verdict::Allow,
            },
            Check {
                call: both("mknodat", 259, 33),
                rules: &[
                    refused(&[is_device(2)]),
                    refused(&[Test::HasAny { argument: 2, bits: $bits }]),
                ],
                otherwise: Verdict::Allow,
            },
            Check {
                call: both("openat2", 437, 437),
                rules: &[],
                otherwise: Verdict::Fail(libc::ENOSYS),
            },
        ]
    };
}

/// Where files may belong to a user of the host.
pub(super) const WITHOUT_SET_USER_ID: &[Check] = without!(libc::S_ISUID);
/// Where they may belong to the host's root, whose group is as good as root.
pub(super) const WITHOUT_SET_IDS: &[Check] = without!(libc::S_ISUID | libc::S_ISGID);

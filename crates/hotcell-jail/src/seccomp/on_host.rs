//! What is different where programs share the host's namespaces.
//!
//! Landlock keeps them from the host's files, from signals and from debugging. It does not keep them
//! from sockets, from memory and queues that are shared by name, from the modes, times and
//! attributes of files, nor from how other processes of their user are scheduled: that is done here.

use super::assemble::Fate;
use super::call::{Call, both, x86};
use super::checks::{
    Check, NO_FAMILY, NOT_PERMITTED, Rule, TERMINAL_TRICKS, TYPE_BITS, Test, UNIX, Verdict, any_of,
};

/// What becomes of a call among the host's processes.
pub(super) fn on_host(call: &Call, otherwise: Fate) -> Fate {
    if let Some(check) = OWN_ONLY.iter().find(|check| check.call == *call) {
        return Fate::Checked(*check);
    }
    let found = FATES.iter().find(|(names, _)| names.contains(&call.name));
    found.map_or(otherwise, |(_, verdict)| Fate::Sure(*verdict))
}

/// What becomes of a call where the supervisor is a process of the same user: how it is scheduled is
/// no program's business.
pub(super) fn schedules_itself(call: &Call, otherwise: Fate) -> Fate {
    let found = OWN_ONLY.iter().find(|check| check.call == *call);
    let found = found.filter(|check| SCHEDULING.contains(&check.call.name));
    found.map_or(otherwise, |check| Fate::Checked(*check))
}

const SCHEDULING: [&str; 6] = [
    "setpriority",
    "ioprio_set",
    "sched_setaffinity",
    "sched_setparam",
    "sched_setscheduler",
    "sched_setattr",
];

/// Every name below.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let checked = OWN_ONLY.iter().map(|check| check.call.name);
    FATES.iter().flat_map(|(names, _)| names.iter().copied()).chain(checked)
}

const ABSENT: Verdict = Verdict::Fail(libc::ENOSYS);

/// By name: what becomes of calls that the host would see.
const FATES: &[(&[&str], Verdict)] = &[
    // There is no network, and a service of the host that listens at a path would do anything for
    // its user. Two processes talk through pipes and pairs.
    (&["socket"], NO_FAMILY),
    (&["bind", "connect", "listen", "accept", "accept4"], NOT_PERMITTED),
    // By the path or the descriptor of any file of the same user, which only the supervisor can
    // tell from the cell's own.
    (&["chmod", "fchmod", "fchmodat", "fchmodat2", "utimensat"], Verdict::Ask),
    (&["utime", "utimes", "futimesat"], ABSENT),
    (&["chown", "lchown", "fchown", "fchownat"], NOT_PERMITTED),
    // Landlock keeps them from no path, neither to change them nor to read them.
    (
        &[
            "setxattr",
            "lsetxattr",
            "fsetxattr",
            "setxattrat",
            "getxattr",
            "lgetxattr",
            "fgetxattr",
            "getxattrat",
            "listxattr",
            "llistxattr",
            "flistxattr",
            "listxattrat",
            "removexattr",
            "lremovexattr",
            "fremovexattr",
            "removexattrat",
        ],
        Verdict::Fail(libc::EOPNOTSUPP),
    ),
    // Names in directories that cannot be read.
    (&["inotify_init", "inotify_init1"], ABSENT),
    // Shared by all processes of the host.
    (&["shmget", "shmat", "shmdt", "shmctl"], ABSENT),
    (&["semget", "semop", "semctl", "semtimedop"], ABSENT),
    (&["msgget", "msgsnd", "msgrcv", "msgctl"], ABSENT),
    (
        &["mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr"],
        ABSENT,
    ),
];

/// `SOCK_STREAM` and `SOCK_SEQPACKET`: pairs that cannot be connected to anything else.
const BOUND_TO_EACH_OTHER: &[u32] = &[1, 5];

/// Pairs of sockets, and what may be done to oneself but not to others.
const OWN_ONLY: &[Check] = &[
    Check {
        call: both("socketpair", 53, 199),
        rules: &[Rule {
            when: &[
                any_of(0, &[UNIX]),
                Test::Is { argument: 1, mask: TYPE_BITS, values: BOUND_TO_EACH_OTHER },
            ],
            then: Verdict::Allow,
        }],
        otherwise: NO_FAMILY,
    },
    Check {
        call: both("setpriority", 141, 140),
        rules: &[Rule { when: &[any_of(0, &[0]), any_of(1, &[0])], then: Verdict::Allow }],
        otherwise: NOT_PERMITTED,
    },
    Check {
        call: both("ioprio_set", 251, 30),
        rules: &[Rule { when: &[any_of(0, &[1]), any_of(1, &[0])], then: Verdict::Allow }],
        otherwise: NOT_PERMITTED,
    },
    // What its owner cannot look into can be neither counted nor removed: who is its owner is
    // all that such a process is.
    Check {
        call: x86("mkdir", 83),
        rules: &[Rule { when: &[lets_owner_in(1)], then: Verdict::Allow }],
        otherwise: NOT_PERMITTED,
    },
    Check {
        call: both("mkdirat", 258, 34),
        rules: &[Rule { when: &[lets_owner_in(2)], then: Verdict::Allow }],
        otherwise: NOT_PERMITTED,
    },
    Check {
        call: both("umask", 95, 166),
        rules: &[Rule { when: &[Test::HasAny { argument: 0, bits: OWNER }], then: NOT_PERMITTED }],
        otherwise: Verdict::Allow,
    },
    // A signal to whoever a descriptor is said to belong to.
    Check {
        call: both("fcntl", 72, 25),
        rules: &[Rule { when: &[any_of(1, SIGNALS_OF_FILES)], then: NOT_PERMITTED }],
        otherwise: Verdict::Allow,
    },
    Check {
        call: both("ioctl", 16, 29),
        rules: &[
            Rule { when: &[any_of(1, TERMINAL_TRICKS)], then: NOT_PERMITTED },
            Rule { when: &[any_of(1, OWNERS_OF_SOCKETS)], then: NOT_PERMITTED },
        ],
        otherwise: Verdict::Allow,
    },
    of_self(both("sched_setaffinity", 203, 122)),
    of_self(both("sched_setparam", 142, 118)),
    of_self(both("sched_setscheduler", 144, 119)),
    of_self(both("sched_setattr", 314, 274)),
];

/// `F_SETOWN`, `F_SETSIG`, `F_SETOWN_EX`.
const SIGNALS_OF_FILES: &[u32] = &[8, 10, 15];
/// `FIOSETOWN`, `SIOCSPGRP`.
const OWNERS_OF_SOCKETS: &[u32] = &[0x8901, 0x8902];

/// Everything that the owner of a directory may do.
const OWNER: u32 = 0o700;

const fn lets_owner_in(argument: u32) -> Test {
    Test::Is { argument, mask: OWNER, values: &[OWNER] }
}

const fn of_self(call: Call) -> Check {
    Check { call, rules: OF_SELF, otherwise: NOT_PERMITTED }
}

const OF_SELF: &[Rule] = &[Rule { when: &[any_of(0, &[0])], then: Verdict::Allow }];

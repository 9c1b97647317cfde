//! Calls whose arguments decide.
//!
//! The kernel takes each of these arguments as 32 bits, so their upper halves are not looked at:
//! that would let through what the kernel then reads differently.

use super::call::{Call, both, x86};

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The kernel carries it out.
    Allow,
    /// It fails with this error.
    Fail(i32),
    /// The supervisor makes it instead, or not, and says how it came out.
    Ask,
}

/// What is asked of one argument.
#[derive(Debug, Clone, Copy)]
pub(super) enum Test {
    /// Whether, after a mask, it is one of these values.
    Is { argument: u32, mask: u32, values: &'static [u32] },
    /// Whether it lies in one of these ranges, ends included.
    Within { argument: u32, ranges: &'static [(u32, u32)] },
    /// Whether it has any of these bits.
    HasAny { argument: u32, bits: u32 },
    /// Whether all its 64 bits are zero: no pointer.
    IsNull { argument: u32 },
}

/// The verdict where all tests hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) when: &'static [Test],
    pub(super) then: Verdict,
}

/// A call and its rules, of which the first that fits decides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check {
    pub(super) call: Call,
    pub(super) rules: &'static [Rule],
    pub(super) otherwise: Verdict,
}

const ALL: u32 = u32::MAX;
pub(super) const NOT_PERMITTED: Verdict = Verdict::Fail(libc::EPERM);

/// Nothing is done, and success is told.
const PASSED_OVER: Verdict = Verdict::Fail(0);

/// The limit of core files stays as it is. What a crash leaves goes to a program of the host, run as
/// root there, unless that limit is one byte; whoever sets it to nothing, as agents of keys do and
/// end if they cannot, has what it wants already.
const CORE: &[u32] = &[libc::RLIMIT_CORE];

/// Every `CLONE_NEW…` but that of time, which `clone` does not know: a new namespace comes with
/// every capability in it, and with parts of the kernel that only root used to reach.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET)
    .cast_unsigned();
/// For `clone` this bit is a part of the signal at the end.
const TIME_NAMESPACE: u32 = 0x80;

pub(super) const fn any_of(argument: u32, values: &'static [u32]) -> Test {
    Test::Is { argument, mask: ALL, values }
}

/// Calls that the programs of a cell may make with some arguments.
pub(super) const CHECKED: &[Check] = &[
    Check {
        call: both("clone", 56, 220),
        rules: &[Rule {
            when: &[Test::HasAny { argument: 0, bits: NAMESPACES }],
            then: NOT_PERMITTED,
        }],
        otherwise: Verdict::Allow,
    },
    Check {
        call: both("unshare", 272, 97),
        rules: &[Rule {
            when: &[Test::HasAny { argument: 0, bits: NAMESPACES | TIME_NAMESPACE }],
            then: NOT_PERMITTED,
        }],
        otherwise: Verdict::Allow,
    },
    Check {
        call: both("ioctl", 16, 29),
        rules: &[Rule { when: &[any_of(1, TERMINAL_TRICKS)], then: NOT_PERMITTED }],
        otherwise: Verdict::Allow,
    },
    Check { call: both("socket", 41, 198), rules: SOCKETS, otherwise: NO_FAMILY },
    Check {
        call: both("socketpair", 53, 199),
        rules: &[Rule { when: &[any_of(0, &[UNIX])], then: Verdict::Allow }],
        otherwise: NO_FAMILY,
    },
    Check {
        call: both("prctl", 157, 167),
        rules: &[
            Rule {
                when: &[Test::Within { argument: 0, ranges: PROCESS_OPTIONS }],
                then: Verdict::Allow,
            },
            Rule { when: &[any_of(0, &[PR_SET_MM])], then: NOT_PERMITTED },
        ],
        // What an older kernel says.
        otherwise: Verdict::Fail(libc::EINVAL),
    },
    Check {
        call: both("personality", 135, 92),
        rules: &[Rule { when: &[any_of(0, PERSONALITIES)], then: Verdict::Allow }],
        otherwise: NOT_PERMITTED,
    },
    Check {
        call: x86("mknod", 133),
        rules: &[Rule {
            when: &[Test::Is { argument: 1, mask: libc::S_IFMT, values: DEVICES }],
            then: NOT_PERMITTED,
        }],
        otherwise: Verdict::Allow,
    },
    Check {
        call: both("mknodat", 259, 33),
        rules: &[Rule {
            when: &[Test::Is { argument: 2, mask: libc::S_IFMT, values: DEVICES }],
            then: NOT_PERMITTED,
        }],
        otherwise: Verdict::Allow,
    },
    Check {
        call: both("setrlimit", 160, 164),
        rules: &[Rule { when: &[any_of(0, CORE)], then: PASSED_OVER }],
        otherwise: Verdict::Allow,
    },
    // The limits of another process can be read. Pid 1 has the ids of root in the cell, who could
    // otherwise leave it without descriptors.
    Check {
        call: both("prlimit64", 302, 261),
        rules: &[
            Rule { when: &[Test::IsNull { argument: 2 }], then: Verdict::Allow },
            Rule { when: &[any_of(1, CORE), Test::IsNull { argument: 3 }], then: PASSED_OVER },
            // What it was would not be told.
            Rule { when: &[any_of(1, CORE)], then: NOT_PERMITTED },
            Rule { when: &[any_of(0, &[0])], then: Verdict::Allow },
        ],
        otherwise: NOT_PERMITTED,
    },
];

/// The same for a process that starts no program: it makes threads and nothing else.
pub(super) const THREADS_ONLY: Check = Check {
    call: both("clone", 56, 220),
    rules: &[Rule {
        when: &[Test::HasAny { argument: 0, bits: libc::CLONE_THREAD.cast_unsigned() }],
        then: Verdict::Allow,
    }],
    otherwise: NOT_PERMITTED,
};

pub(super) const DEVICES: &[u32] = &[libc::S_IFCHR, libc::S_IFBLK];

/// What types into a terminal for its user (`TIOCSTI`, `TIOCLINUX`), takes the console's output
/// (`TIOCCONS`), or puts a driver of the kernel's choice onto a terminal (`TIOCSETD`).
pub(super) const TERMINAL_TRICKS: &[u32] = &[0x5412, 0x541c, 0x541d, 0x5423];

pub(super) const UNIX: u32 = libc::AF_UNIX.cast_unsigned();
const INTERNET: &[u32] = &[libc::AF_INET.cast_unsigned(), libc::AF_INET6.cast_unsigned()];
const NETLINK: &[u32] = &[libc::AF_NETLINK.cast_unsigned()];
pub(super) const TYPE_BITS: u32 = 0xf;
/// `SOCK_RAW` and what came before it, `SOCK_PACKET`.
const RAW: &[u32] = &[3, 10];
/// Any, ICMP, TCP, UDP, ICMPv6 and MPTCP; every other loads a module of the kernel.
const INTERNET_PROTOCOLS: &[u32] = &[0, 1, 6, 17, 58, 262];
/// Addresses and routes (`ip`, `getifaddrs`) and sockets (`ss`).
const NETLINK_PROTOCOLS: &[u32] = &[0, 4];
pub(super) const NO_FAMILY: Verdict = Verdict::Fail(libc::EAFNOSUPPORT);
/// What programs take for a kernel without it: those that manage users open a socket of the audit,
/// and give up on any other error.
const NO_PROTOCOL: Verdict = Verdict::Fail(libc::EPROTONOSUPPORT);

const SOCKETS: &[Rule] = &[
    Rule { when: &[any_of(0, &[UNIX])], then: Verdict::Allow },
    Rule {
        when: &[any_of(0, INTERNET), Test::Is { argument: 1, mask: TYPE_BITS, values: RAW }],
        then: NOT_PERMITTED,
    },
    Rule { when: &[any_of(0, INTERNET), any_of(2, INTERNET_PROTOCOLS)], then: Verdict::Allow },
    Rule { when: &[any_of(0, INTERNET)], then: NO_PROTOCOL },
    Rule { when: &[any_of(0, NETLINK), any_of(2, NETLINK_PROTOCOLS)], then: Verdict::Allow },
    Rule { when: &[any_of(0, NETLINK)], then: NO_PROTOCOL },
];

const PR_SET_MM: u32 = 35;
/// What a process may ask about itself: not where its parts lie in memory (`PR_SET_MM`), not to be
/// spared when memory is short (`PR_SET_IO_FLUSHER`), not which processor it shares
/// (`PR_SCHED_CORE`).
const PROCESS_OPTIONS: &[(u32, u32)] = &[
    // The signal at a parent's death, whether it can be looked into, alignment, kept capabilities.
    (1, 10),
    // Timing, its name, byte order, seccomp, the bounding set, the time stamp counter, securebits,
    // timer slack, events, memory errors.
    (13, 34),
    // Subreapers, no_new_privs, huge pages, floating point, ambient capabilities.
    (36, 47),
    // Vectors, speculation, pointer authentication, tagged addresses.
    (50, 56),
    // Dispatch of its own system calls, keys of pointer authentication.
    (59, 61),
    // Matrices, write xor execute, merged memory, vectors elsewhere.
    (63, 71),
    // Shadow stacks, timers that are restored, its table of futexes.
    (74, 78),
    // Names of memory, and who may debug it.
    (0x5356_4d41, 0x5356_4d41),
    (0x5961_6d61, 0x5961_6d61),
];

/// Linux, as a 32-bit machine by name, without a random layout (debuggers), and the question.
const PERSONALITIES: &[u32] = &[0, 0x8, 0x4_0000, 0x4_0008, u32::MAX];

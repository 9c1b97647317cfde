//! Which system calls a process of a cell may make: a list of those that programs need, some of
//! them with conditions. Everything else fails, as it would on a kernel without it.

mod allowed;
mod assemble;
mod call;
mod checks;
mod on_host;
mod refused;
mod set_ids;

use allowed::{FILES, MEMORY, PROCESSES, TALKING, WAITING};
use assemble::{Fate, assemble, without, without_reaching};
use call::{Architecture, Call};
use checks::{CHECKED, Check, THREADS_ONLY, Verdict};
use libc::sock_filter;
use on_host::{on_host, schedules_itself};
use refused::{ABSENT, REFUSED};
use rustix::io::Errno;
use set_ids::{WITHOUT_SET_IDS, WITHOUT_SET_USER_ID};

use crate::direct::call;

/// The same on every architecture.
const CLONE3: u32 = 435;
const SET_MODE_FILTER: usize = 1;
const NEW_LISTENER: usize = 1 << 3;
/// Whoever waits for an answer is interrupted by nothing but its end.
const WAITS_ONLY_TO_DIE: usize = 1 << 5;

/// Whose calls are filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The programs of a cell, and what starts them: that may call `clone3`, and each program
    /// gives that up by [`no_clone3`] before it begins.
    Programs(Ground),
    /// The process that serves files: it starts nothing and talks to nobody.
    FileServer(Ground),
}

/// What the calls reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ground {
    /// Namespaces of the cell's own.
    Cell(SetIds),
    /// Those of a container, in which the supervisor is the same user.
    Container,
    /// Those of the host.
    Host,
}

/// Whether programs may give files set-user-id and set-group-id bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetIds {
    /// They may: the files are the cell's own.
    Allowed,
    /// No set-user-id bit: some of the files are a user's of the host.
    UserRefused,
    /// Neither: some of the files are the host's root's.
    Refused,
}

/// A filter, ready to be installed.
#[derive(Debug)]
pub(crate) struct Filter {
    program: Vec<sock_filter>,
}

impl Filter {
    /// The filter for a purpose on this machine.
    pub(crate) fn new(purpose: Purpose) -> Self {
        Self::on(Architecture::OWN, purpose)
    }

    fn on(architecture: Architecture, purpose: Purpose) -> Self {
        Self { program: assemble(architecture, numbered(architecture, purpose).collect()) }
    }

    /// The filter that takes `clone3` away from a program: its flags lie in memory, where no filter
    /// sees them.
    pub(crate) fn no_clone3() -> Self {
        Self { program: without(CLONE3) }
    }

    /// The same, which also keeps a program from the thread that it is born from: where both are
    /// processes of the host, nothing else does.
    pub(crate) fn no_clone3_nor_signals_to(thread: u32) -> Self {
        Self { program: without_reaching(CLONE3, thread) }
    }

    /// Puts the filter on this thread, for good; what it starts inherits it. Calls the kernel
    /// directly, so that a process may do it that shares another's memory.
    pub(crate) fn install(&self) -> Result<(), Errno> {
        self.install_with(0).map(|_| ())
    }

    /// The same, with a descriptor at which questions about calls come in.
    pub(crate) fn install_listening(&self) -> Result<i32, Errno> {
        let descriptor = self.install_with(NEW_LISTENER | WAITS_ONLY_TO_DIE)?;
        i32::try_from(descriptor).map_err(|_| Errno::OVERFLOW)
    }

    fn install_with(&self, flags: usize) -> Result<usize, Errno> {
        let program = libc::sock_fprog {
            len: u16::try_from(self.program.len()).map_err(|_| Errno::TOOBIG)?,
            filter: self.program.as_ptr().cast_mut(),
        };
        let arguments = [SET_MODE_FILTER, flags, &raw const program as usize, 0];
        // SAFETY: the kernel reads the program, which is valid for the call, and keeps a copy.
        unsafe { call(libc::SYS_seccomp, arguments) }
    }
}

/// How many calls the programs of a cell may make, with or without conditions.
pub(crate) fn allowed_to_programs(ground: Ground) -> u32 {
    let refused = |fate: &Fate| matches!(fate, Fate::Sure(Verdict::Fail(_)));
    let calls = numbered(Architecture::OWN, Purpose::Programs(ground));
    // `clone3` is there for what starts them alone.
    let allowed = calls.filter(|(number, fate)| *number != CLONE3 && !refused(fate)).count();
    u32::try_from(allowed).unwrap_or(u32::MAX)
}

/// What the supervisor of a cell calls besides what its programs may.
const FOR_SUPERVISOR: [&str; 6] = [
    "clone3",
    "landlock_add_rule",
    "landlock_create_ruleset",
    "landlock_restrict_self",
    "openat2",
    "seccomp",
];

/// The names of all calls that something in a container has to make, for the filter that its engine
/// puts on it: the supervisor's and those of programs, which get a filter of their own on top.
#[must_use]
pub fn container_calls() -> Vec<&'static str> {
    let of_programs = fates(Purpose::Programs(Ground::Container));
    let possible = of_programs.filter(|(_, fate)| !matches!(fate, Fate::Sure(Verdict::Fail(_))));
    let mut names: Vec<&str> = possible.map(|(call, _)| call.name).chain(FOR_SUPERVISOR).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn numbered(architecture: Architecture, purpose: Purpose) -> impl Iterator<Item = (u32, Fate)> {
    fates(purpose).filter_map(move |(call, fate)| Some((architecture.number(&call)?, fate)))
}

/// What becomes of each call that is known.
fn fates(purpose: Purpose) -> impl Iterator<Item = (Call, Fate)> {
    let allowed = [FILES, WAITING, MEMORY, PROCESSES, TALKING].into_iter().flatten();
    let allowed = allowed.map(|call| (*call, Fate::Sure(Verdict::Allow)));
    let checked = CHECKED.iter().map(|check| (check.call, Fate::Checked(*check)));
    let refused = REFUSED.iter().map(|call| (*call, Fate::Sure(Verdict::Fail(libc::EPERM))));
    let absent = ABSENT.iter().map(|call| (*call, Fate::Sure(Verdict::Fail(libc::ENOSYS))));
    let for_purpose = move |(call, fate): (Call, Fate)| match purpose {
        Purpose::Programs(_) if call.x86_64 == CLONE3 => (call, Fate::Sure(Verdict::Allow)),
        Purpose::Programs(Ground::Cell(_)) => (call, by_modes(purpose, &call, fate)),
        Purpose::Programs(Ground::Container) => {
            (call, schedules_itself(&call, by_modes(purpose, &call, fate)))
        }
        Purpose::Programs(Ground::Host) => (call, on_host(&call, by_modes(purpose, &call, fate))),
        Purpose::FileServer(_) => (call, for_file_server(&call, by_modes(purpose, &call, fate))),
    };
    allowed.chain(checked).chain(refused).chain(absent).map(for_purpose)
}

/// What becomes of calls that set modes.
fn by_modes(purpose: Purpose, call: &Call, fate: Fate) -> Fate {
    let (Purpose::Programs(ground) | Purpose::FileServer(ground)) = purpose;
    let checks = match ground {
        Ground::Cell(SetIds::Allowed) => return fate,
        Ground::Cell(SetIds::UserRefused) | Ground::Container | Ground::Host => WITHOUT_SET_USER_ID,
        Ground::Cell(SetIds::Refused) => WITHOUT_SET_IDS,
    };
    let found = checks.iter().find(|check| check.call == *call);
    found.map_or(fate, |check| Fate::Checked(*check))
}

fn for_file_server(call: &Call, fate: Fate) -> Fate {
    match THREADS_ONLY {
        threads @ Check { call: of_threads, .. } if of_threads == *call => Fate::Checked(threads),
        _ if NOT_FOR_FILES.contains(&call.name) => Fate::Sure(Verdict::Fail(libc::EPERM)),
        // It makes no file with such a bit, and finds no file without this call.
        _ if call.name == "openat2" => Fate::Sure(Verdict::Allow),
        _ => fate,
    }
}

/// What serving files never needs: programs, other processes, other ids, sockets.
const NOT_FOR_FILES: &[&str] = &[
    "execve",
    "execveat",
    "fork",
    "vfork",
    "ptrace",
    "kill",
    "tkill",
    "pidfd_open",
    "pidfd_send_signal",
    "rt_sigqueueinfo",
    "rt_tgsigqueueinfo",
    "setuid",
    "setgid",
    "setreuid",
    "setregid",
    "setresuid",
    "setresgid",
    "setfsuid",
    "setfsgid",
    "setgroups",
    "capset",
    "personality",
    "unshare",
    "socket",
    "socketpair",
    "bind",
    "connect",
    "listen",
    "accept",
    "accept4",
    "shmget",
    "shmat",
    "shmctl",
    "semget",
    "semctl",
    "msgget",
    "msgctl",
    "mq_open",
    "io_setup",
];

#[cfg(test)]
#[path = "filter_tests.rs"]
mod filter_tests;

//! The program is run by a machine of its own, over every number and over arguments that lie beside
//! what the lists name, and compared with the lists.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::seccomp::checks::{Rule, Test};

const ARGUMENTS: usize = 16;

/// A machine that runs filters as the kernel does.
fn run(program: &[sock_filter], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let mut data = [0_u8; 64];
    data[0..4].copy_from_slice(&number.to_le_bytes());
    data[4..8].copy_from_slice(&architecture.to_le_bytes());
    for (place, argument) in arguments.iter().enumerate() {
        let at = ARGUMENTS + 8 * place;
        data[at..at + 8].copy_from_slice(&argument.to_le_bytes());
    }
    let mut accumulator = 0_u32;
    let mut at = 0;
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        let code = u32::from(code);
        at += 1;
        let jumps = |holds: bool| usize::from(if holds { jt } else { jf });
        if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS {
            let from = k as usize;
            accumulator = u32::from_le_bytes(data[from..from + 4].try_into().unwrap());
        } else if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K {
            accumulator &= k;
        } else if code == libc::BPF_RET | libc::BPF_K {
            return k;
        } else if code == libc::BPF_JMP | libc::BPF_JA {
            at += k as usize;
        } else if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K {
            at += jumps(accumulator == k);
        } else if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K {
            at += jumps(accumulator >= k);
        } else if code == libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K {
            at += jumps(accumulator > k);
        } else if code == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K {
            at += jumps(accumulator & k != 0);
        } else {
            panic!("no such instruction: {code:#x}");
        }
    }
}

fn value(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Allow => 0x7fff_0000,
        Verdict::Fail(errno) => 0x0005_0000 | u32::try_from(errno).unwrap(),
        Verdict::Ask => 0x7fc0_0000,
    }
}

fn holds(test: &Test, arguments: [u64; 6]) -> bool {
    let low = |argument: u32| arguments[argument as usize] as u32;
    match *test {
        Test::Is { argument, mask, values } => values.contains(&(low(argument) & mask)),
        Test::Within { argument, ranges } => {
            ranges.iter().any(|(first, last)| (*first..=*last).contains(&low(argument)))
        }
        Test::HasAny { argument, bits } => low(argument) & bits != 0,
        Test::IsNull { argument } => arguments[argument as usize] == 0,
    }
}

fn decided(check: &Check, arguments: [u64; 6]) -> Verdict {
    let fits = |rule: &&Rule| rule.when.iter().all(|test| holds(test, arguments));
    check.rules.iter().find(fits).map_or(check.otherwise, |rule| rule.then)
}

/// Values at, beside and above everything that a check names, for each of its arguments.
fn samples(check: &Check) -> Vec<[u64; 6]> {
    let mut values: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for test in check.rules.iter().flat_map(|rule| rule.when) {
        let (argument, named): (u32, Vec<u32>) = match *test {
            Test::Is { argument, mask, values } => {
                let others = values.iter().map(|value| value | !mask);
                (argument, values.iter().copied().chain(others).collect())
            }
            Test::Within { argument, ranges } => {
                (argument, ranges.iter().flat_map(|(first, last)| [*first, *last]).collect())
            }
            Test::HasAny { argument, bits } => {
                let each = (0..32).map(|bit| 1_u32 << bit).filter(|bit| bits & bit != 0);
                (argument, each.chain([bits, !bits]).collect())
            }
            Test::IsNull { argument } => (argument, vec![0]),
        };
        let all =
            values.entry(argument).or_insert_with(|| BTreeSet::from([0, 1, u64::MAX, 1 << 32]));
        for named in named {
            let beside = [named, named.wrapping_add(1), named.wrapping_sub(1)].map(u64::from);
            // The kernel does not see the upper half of any of these.
            all.extend(beside);
            all.insert(u64::from(named) | 0xdead_0000_0000_0000);
        }
    }
    let mut samples = vec![[0_u64; 6]];
    for (argument, values) in values {
        let with = |sample: &[u64; 6]| {
            let mut sample = *sample;
            values
                .iter()
                .map(move |value| {
                    sample[argument as usize] = *value;
                    sample
                })
                .collect::<Vec<_>>()
        };
        samples = samples.iter().flat_map(with).collect();
    }
    samples
}

const BOTH: [Architecture; 2] = [Architecture::X86_64, Architecture::Aarch64];
const PROGRAMS: Purpose = Purpose::Programs(Ground::Cell(SetIds::Allowed));
const GUESTS: Purpose = Purpose::Programs(Ground::Cell(SetIds::UserRefused));
const SERVER: Purpose = Purpose::FileServer(Ground::Cell(SetIds::UserRefused));
const ON_HOST: Purpose = Purpose::Programs(Ground::Host);
const PURPOSES: [Purpose; 4] = [PROGRAMS, GUESTS, SERVER, ON_HOST];

#[test]
fn every_number_meets_the_fate_that_the_lists_name() {
    for architecture in BOTH {
        for purpose in PURPOSES {
            let filter = Filter::on(architecture, purpose);
            let known: BTreeMap<u32, Fate> = numbered(architecture, purpose).collect();
            let strange = [1023, 1024, 0x4000_0000, 0x4000_0000 + 59, i32::MAX as u32, u32::MAX];
            for number in (0..=600).chain(strange) {
                let got = |arguments| run(&filter.program, architecture.audit(), number, arguments);
                match known.get(&number) {
                    Some(Fate::Sure(verdict)) => assert_eq!(got([7; 6]), value(*verdict)),
                    Some(Fate::Checked(check)) => {
                        for arguments in samples(check) {
                            let expected = value(decided(check, arguments));
                            let name = check.call.name;
                            assert_eq!(got(arguments), expected, "{name} {arguments:x?}");
                        }
                    }
                    None => assert_eq!(got([0; 6]), value(Verdict::Fail(libc::ENOSYS))),
                }
            }
        }
    }
}

#[test]
fn whoever_enters_as_another_architecture_is_ended() {
    const I386: u32 = 0x4000_0003;
    for architecture in BOTH {
        let filter = Filter::on(architecture, PROGRAMS);
        for audit in [I386, 0x4000_0028, 0, u32::MAX] {
            for number in 0..500 {
                assert_eq!(run(&filter.program, audit, number, [0; 6]), 0x8000_0000);
            }
        }
    }
}

#[test]
fn a_call_is_in_one_list_and_has_a_number_of_its_own() {
    for architecture in BOTH {
        let mut numbers = BTreeMap::new();
        for (call, _) in fates(PROGRAMS) {
            if let Some(number) = architecture.number(&call) {
                let before = numbers.insert(number, call.name);
                assert_eq!(before, None, "{} and another have {number}", call.name);
            }
        }
        assert!(numbers.len() > 290, "{} calls on {architecture:?}", numbers.len());
    }
}

#[test]
fn numbers_are_those_of_the_c_library() {
    let known = [
        ("read", libc::SYS_read),
        ("ioctl", libc::SYS_ioctl),
        ("clone", libc::SYS_clone),
        ("execve", libc::SYS_execve),
        ("socket", libc::SYS_socket),
        ("prctl", libc::SYS_prctl),
        ("mknodat", libc::SYS_mknodat),
        ("prlimit64", libc::SYS_prlimit64),
        ("unshare", libc::SYS_unshare),
        ("personality", libc::SYS_personality),
        ("mount", libc::SYS_mount),
        ("bpf", libc::SYS_bpf),
        ("keyctl", libc::SYS_keyctl),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("setns", libc::SYS_setns),
        ("futex", libc::SYS_futex),
        ("openat2", libc::SYS_openat2),
        ("mount_setattr", libc::SYS_mount_setattr),
        ("clone3", libc::SYS_clone3),
        ("rseq", libc::SYS_rseq),
        ("statx", libc::SYS_statx),
    ];
    let all: BTreeMap<&str, Call> = fates(PROGRAMS).map(|(call, _)| (call.name, call)).collect();
    for (name, number) in known {
        let ours = Architecture::OWN.number(&all[name]);
        assert_eq!(ours.map(i64::from), Some(number), "{name}");
    }
}

#[test]
fn what_serves_files_only_makes_threads() {
    let filter = Filter::new(SERVER);
    let audit = Architecture::OWN.audit();
    let clone = |flags: i32| {
        let number = u32::try_from(libc::SYS_clone).unwrap();
        run(&filter.program, audit, number, [u64::try_from(flags).unwrap(), 0, 0, 0, 0, 0])
    };
    assert_eq!(clone(libc::CLONE_VM | libc::CLONE_THREAD), value(Verdict::Allow));
    assert_eq!(clone(libc::CLONE_VM | libc::CLONE_VFORK), value(Verdict::Fail(libc::EPERM)));
    let execve = u32::try_from(libc::SYS_execve).unwrap();
    assert_eq!(run(&filter.program, audit, execve, [0; 6]), value(Verdict::Fail(libc::EPERM)));
    let openat2 = u32::try_from(libc::SYS_openat2).unwrap();
    assert_eq!(run(&filter.program, audit, openat2, [0; 6]), value(Verdict::Allow));
    let fchmod = u32::try_from(libc::SYS_fchmod).unwrap();
    let with_bit = run(&filter.program, audit, fchmod, [0, 0o4755, 0, 0, 0, 0]);
    assert_eq!(with_bit, value(Verdict::Fail(libc::EPERM)));
}

#[test]
fn names_that_serving_files_does_without_are_names_of_calls() {
    let all: Vec<&str> = fates(PROGRAMS).map(|(call, _)| call.name).collect();
    for name in NOT_FOR_FILES {
        assert!(all.contains(name), "{name}");
    }
}

#[test]
fn the_second_filter_takes_clone3_away_and_nothing_else() {
    let filter = Filter::no_clone3();
    let audit = Architecture::OWN.audit();
    for number in (0..600).chain([u32::MAX]) {
        let expected = if number == CLONE3 { Verdict::Fail(libc::ENOSYS) } else { Verdict::Allow };
        assert_eq!(run(&filter.program, audit, number, [0; 6]), value(expected));
    }
}

#[test]
fn a_filter_is_short_enough_to_be_installed_in_no_time() {
    for purpose in PURPOSES {
        let length = Filter::new(purpose).program.len();
        assert!(length < 480, "{length} instructions");
    }
}

#[test]
fn the_kernel_takes_the_filter_and_it_holds() {
    // A thread of its own: a filter stays for good.
    std::thread::spawn(|| {
        rustix::thread::set_no_new_privs(true).unwrap();
        Filter::new(PROGRAMS).install().unwrap();
        Filter::no_clone3().install().unwrap();
        let tried = |number, first| {
            // SAFETY: each is refused, or takes no argument.
            unsafe { call(number, [first, 1, 0, 0]) }
        };
        assert_eq!(tried(libc::SYS_keyctl, 0).unwrap_err(), Errno::PERM);
        assert_eq!(tried(libc::SYS_clone3, 0).unwrap_err(), Errno::NOSYS);
        let vsock = tried(libc::SYS_socket, libc::AF_VSOCK as usize);
        assert_eq!(vsock.unwrap_err(), Errno::AFNOSUPPORT);
        assert!(tried(libc::SYS_getpid, 0).is_ok());
    })
    .join()
    .unwrap();
}

#[test]
fn a_cell_that_writes_to_the_host_sets_no_user_id_bit() {
    let all: Vec<Call> = fates(GUESTS).map(|(call, _)| call).collect();
    for check in WITHOUT_SET_USER_ID {
        assert!(all.contains(&check.call), "{} is in no other list", check.call.name);
    }
    let guests = Filter::new(GUESTS);
    let got = |number: i64, arguments: [u64; 6]| {
        run(&guests.program, Architecture::OWN.audit(), u32::try_from(number).unwrap(), arguments)
    };
    let refused = value(Verdict::Fail(libc::EPERM));
    let allowed = value(Verdict::Allow);
    assert_eq!(got(libc::SYS_fchmod, [3, 0o4755, 0, 0, 0, 0]), refused);
    assert_eq!(got(libc::SYS_fchmod, [3, 0o2755, 0, 0, 0, 0]), allowed);
    let makes = u64::try_from(libc::O_CREAT | libc::O_WRONLY).unwrap();
    assert_eq!(got(libc::SYS_openat, [3, 0, makes, 0o4755, 0, 0]), refused);
    assert_eq!(got(libc::SYS_openat, [3, 0, makes, 0o755, 0, 0]), allowed);
    assert_eq!(got(libc::SYS_openat, [3, 0, 0, 0o4755, 0, 0]), allowed);
    let nameless = u64::try_from(libc::O_TMPFILE | libc::O_WRONLY).unwrap();
    assert_eq!(got(libc::SYS_openat, [3, 0, nameless, 0o4755, 0, 0]), refused);
    let directory = u64::try_from(libc::O_DIRECTORY).unwrap();
    assert_eq!(got(libc::SYS_openat, [3, 0, directory, 0o4755, 0, 0]), allowed);
    assert_eq!(got(libc::SYS_openat2, [3; 6]), value(Verdict::Fail(libc::ENOSYS)));
}

#[test]
fn a_cell_that_writes_to_roots_files_sets_no_group_id_bit_either() {
    let filter = Filter::new(Purpose::Programs(Ground::Cell(SetIds::Refused)));
    let got = |number: i64, arguments: [u64; 6]| {
        run(&filter.program, Architecture::OWN.audit(), u32::try_from(number).unwrap(), arguments)
    };
    let refused = value(Verdict::Fail(libc::EPERM));
    let makes = u64::try_from(libc::O_CREAT | libc::O_WRONLY).unwrap();
    for mode in [0o4755, 0o2755, 0o6755] {
        assert_eq!(got(libc::SYS_fchmod, [3, mode, 0, 0, 0, 0]), refused);
        assert_eq!(got(libc::SYS_fchmodat, [3, 0, mode, 0, 0, 0]), refused);
        assert_eq!(got(libc::SYS_openat, [3, 0, makes, mode, 0, 0]), refused);
        assert_eq!(got(libc::SYS_mknodat, [3, 0, mode, 0, 0, 0]), refused);
    }
    assert_eq!(got(libc::SYS_fchmod, [3, 0o1755, 0, 0, 0, 0]), value(Verdict::Allow));
}

#[test]
fn names_that_programs_on_the_host_do_without_are_names_of_calls() {
    let known: BTreeSet<&str> = fates(PROGRAMS).map(|(call, _)| call.name).collect();
    for name in on_host::names() {
        assert!(known.contains(name), "{name}");
    }
}

#[test]
fn a_program_on_the_host_opens_no_socket_and_no_memory_of_others() {
    let changed = |name: &str| fates(ON_HOST).find(|(call, _)| call.name == name).unwrap().1;
    for name in ["socket", "connect", "shmget", "mq_open", "chown", "setxattr", "inotify_init1"] {
        assert!(matches!(changed(name), Fate::Sure(Verdict::Fail(_))), "{name}");
    }
    for name in ["fchmod", "fchmodat", "fchmodat2", "utimensat"] {
        assert!(matches!(changed(name), Fate::Sure(Verdict::Ask)), "{name}");
    }
    for (call, fate) in fates(ON_HOST).filter(|(call, _)| call.name.contains("xattr")) {
        assert!(matches!(fate, Fate::Sure(Verdict::Fail(libc::EOPNOTSUPP))), "{}", call.name);
    }
}

#[test]
fn the_second_filter_on_the_host_keeps_signals_from_one_thread() {
    let Filter { program } = Filter::no_clone3_nor_signals_to(77);
    let fate = |number: i64, arguments: [u64; 6]| {
        run(&program, Architecture::OWN.audit(), u32::try_from(number).unwrap(), arguments)
    };
    let (allowed, refused) = (value(Verdict::Allow), value(Verdict::Fail(libc::EPERM)));
    for number in [libc::SYS_kill, libc::SYS_tkill, libc::SYS_pidfd_open, libc::SYS_rt_sigqueueinfo]
    {
        assert_eq!(fate(number, [77, 9, 0, 0, 0, 0]), refused);
        assert_eq!(fate(number, [(9 << 32) | 77, 9, 0, 0, 0, 0]), refused);
        assert_eq!(fate(number, [78, 77, 0, 0, 0, 0]), allowed);
    }
    for number in [libc::SYS_tgkill, libc::SYS_rt_tgsigqueueinfo] {
        assert_eq!(fate(number, [5, 77, 9, 0, 0, 0]), refused);
        assert_eq!(fate(number, [77, 5, 9, 0, 0, 0]), allowed);
    }
    assert_eq!(fate(i64::from(CLONE3), [0; 6]), value(Verdict::Fail(libc::ENOSYS)));
    assert_eq!(fate(libc::SYS_read, [77, 77, 0, 0, 0, 0]), allowed);
}

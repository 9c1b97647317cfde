//! From the lists to a program of the kernel's filter machine.
//!
//! The number of a call is searched for by halves in the sorted list of ranges with the same fate.
//! When a filter is installed the kernel runs it once for every number there is, so a chain of comparisons
//! would cost ten times as much (0.7 ms instead of 0.06 ms).

use libc::sock_filter;

use super::call::Architecture;
use super::checks::{Check, Rule, Test, Verdict};

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const GO: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const IF_ABOVE: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
const IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;

/// Where things lie in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// What becomes of one call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    /// Always this.
    Sure(Verdict),
    /// That depends on its arguments.
    Checked(Check),
}

/// The program for calls with these numbers; every other is not there.
pub(super) fn assemble(
    architecture: Architecture,
    mut calls: Vec<(u32, Fate)>,
) -> Vec<sock_filter> {
    calls.sort_by_key(|(number, _)| *number);
    let ranges = ranges(&calls);
    let mut program = Assembly::default();
    program.plain(LOAD, ARCHITECTURE);
    program.branch(IF_EQUAL, architecture.audit(), 1, 0);
    // A 32-bit program, or one that enters the kernel as if it were one: its numbers mean other
    // calls. It is ended, so that it does not go on with an error it cannot know.
    program.plain(RETURN, libc::SECCOMP_RET_KILL_PROCESS);
    program.plain(LOAD, NUMBER);
    program.search(&ranges);
    program.0
}

/// A program that does nothing but take one call away.
pub(super) fn without(number: u32) -> Vec<sock_filter> {
    let mut program = Assembly::default();
    program.plain(LOAD, NUMBER);
    program.branch(IF_EQUAL, number, 0, 1);
    program.verdict(Verdict::Fail(libc::ENOSYS));
    program.verdict(Verdict::Allow);
    program.0
}

/// The same, and no signal to one thread, whatever call it is sent by.
pub(super) fn without_reaching(number: u32, thread: u32) -> Vec<sock_filter> {
    let mut program = Assembly::default();
    for (call, argument) in SIGNALS {
        program.plain(LOAD, NUMBER);
        program.branch(IF_EQUAL, call, 0, 3);
        program.plain(LOAD, lower_half(argument));
        program.branch(IF_EQUAL, thread, 0, 1);
        program.verdict(Verdict::Fail(libc::EPERM));
    }
    program.0.extend(without(number));
    program.0
}

/// Calls by which a thread is signalled, or held on to for that, and the argument that names it.
const SIGNALS: [(u32, u32); 6] = [
    (libc::SYS_kill as u32, 0),
    (libc::SYS_tkill as u32, 0),
    (libc::SYS_tgkill as u32, 1),
    (libc::SYS_rt_sigqueueinfo as u32, 0),
    (libc::SYS_rt_tgsigqueueinfo as u32, 1),
    (libc::SYS_pidfd_open as u32, 0),
];

const NOT_THERE: Fate = Fate::Sure(Verdict::Fail(libc::ENOSYS));

/// Ranges of numbers with the same fate: where each begins.
fn ranges(calls: &[(u32, Fate)]) -> Vec<(u32, Fate)> {
    let mut ranges = vec![(0, NOT_THERE)];
    let mut begin = |number: u32, fate: Fate| match ranges.last_mut() {
        Some((_, last)) if is_same(*last, fate) => {}
        Some((first, last)) if *first == number => *last = fate,
        Some(_) | None => ranges.push((number, fate)),
    };
    let mut next = 0;
    for (number, fate) in calls {
        if *number > next {
            begin(next, NOT_THERE);
        }
        begin(*number, *fate);
        next = number + 1;
    }
    begin(next, NOT_THERE);
    ranges
}

fn is_same(one: Fate, other: Fate) -> bool {
    match (one, other) {
        (Fate::Sure(one), Fate::Sure(other)) => one == other,
        (Fate::Checked(_), Fate::Checked(_) | Fate::Sure(_))
        | (Fate::Sure(_), Fate::Checked(_)) => false,
    }
}

#[derive(Default)]
struct Assembly(Vec<sock_filter>);

impl Assembly {
    fn plain(&mut self, code: u16, k: u32) {
        self.branch(code, k, 0, 0);
    }

    fn branch(&mut self, code: u16, k: u32, jt: u8, jf: u8) {
        self.0.push(sock_filter { code, jt, jf, k });
    }

    fn verdict(&mut self, verdict: Verdict) {
        self.plain(RETURN, returned(verdict));
    }

    /// Runs `part` unless the condition holds. A condition reaches 255 instructions far.
    fn unless(&mut self, code: u16, k: u32, part: &Self) {
        match u8::try_from(part.0.len()) {
            Ok(near) => self.branch(code, k, near, 0),
            Err(_) => {
                self.branch(code, k, 0, 1);
                self.plain(GO, length(part));
            }
        }
        self.0.extend(&part.0);
    }

    fn search(&mut self, ranges: &[(u32, Fate)]) {
        match ranges {
            [] => self.verdict(Verdict::Fail(libc::ENOSYS)),
            [(_, Fate::Sure(verdict))] => self.verdict(*verdict),
            [(_, Fate::Checked(check))] => self.check(check),
            several => {
                let (lower, upper) = several.split_at(several.len() / 2);
                let mut below = Self::default();
                below.search(lower);
                self.unless(IF_AT_LEAST, upper[0].0, &below);
                self.search(upper);
            }
        }
    }

    fn check(&mut self, check: &Check) {
        for rule in check.rules {
            self.rule(rule);
        }
        self.verdict(check.otherwise);
    }

    /// Ends in the rule's verdict, or goes on behind it.
    fn rule(&mut self, rule: &Rule) {
        let mut rest = Self::default();
        rest.verdict(rule.then);
        for test in rule.when.iter().rev() {
            let mut whole = Self::default();
            whole.test(test, &rest);
            rest = whole;
        }
        self.0.extend(&rest.0);
    }

    /// Runs `then` where the test holds, and goes on behind it where not.
    fn test(&mut self, test: &Test, then: &Self) {
        // Each is: conditions that jump to `then` where they hold, a jump over it, `then`.
        match *test {
            Test::Is { argument, mask, values } => {
                self.plain(LOAD, lower_half(argument));
                if mask != u32::MAX {
                    self.plain(AND, mask);
                }
                for (value, behind) in values.iter().zip((0..to_byte(values.len())).rev()) {
                    self.branch(IF_EQUAL, *value, behind + 1, 0);
                }
            }
            Test::Within { argument, ranges } => {
                self.plain(LOAD, lower_half(argument));
                for ((first, last), behind) in ranges.iter().zip((0..to_byte(ranges.len())).rev()) {
                    self.branch(IF_AT_LEAST, *first, 0, 1);
                    self.branch(IF_ABOVE, *last, 0, 2 * behind + 1);
                }
            }
            Test::HasAny { argument, bits } => {
                self.plain(LOAD, lower_half(argument));
                self.branch(IF_ANY_BIT, bits, 1, 0);
            }
            Test::IsNull { argument } => {
                self.plain(LOAD, lower_half(argument));
                self.branch(IF_EQUAL, 0, 0, 2);
                self.plain(LOAD, lower_half(argument) + 4);
                self.branch(IF_EQUAL, 0, 1, 0);
            }
        }
        self.plain(GO, length(then));
        self.0.extend(&then.0);
    }
}

/// Both architectures are little-endian: the lower half comes first.
fn lower_half(argument: u32) -> u32 {
    ARGUMENTS + 8 * argument
}

/// How many values or ranges a test has; the lists are short, and a test checks that they are.
fn to_byte(count: usize) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

fn length(part: &Assembly) -> u32 {
    u32::try_from(part.0.len()).unwrap_or(u32::MAX)
}

fn returned(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Allow => libc::SECCOMP_RET_ALLOW,
        Verdict::Fail(errno) => libc::SECCOMP_RET_ERRNO | errno.unsigned_abs(),
        Verdict::Ask => libc::SECCOMP_RET_USER_NOTIF,
    }
}

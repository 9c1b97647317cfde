//! Whether processes are blocked reading a terminal or a pipe, as `/proc` tells it.
//!
//! Nothing here stops or traces a process: each look reads a few files of `/proc`. The kernel shows
//! them to a supervisor in every id layout, because a process of a cell is either of the same user or
//! below a supervisor with `CAP_SYS_PTRACE`. Where it does not, the answer is [`InputState::Unknown`].

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use rustix::process::Pid;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer};

use crate::proctree;

/// The most processes and threads that are looked at; with more the answer is `Unknown`.
const MOST_TASKS: usize = 512;
/// The most descriptors of one call that are looked up.
const MOST_FDS: usize = 1024;
/// The most descriptors that a set of `select` may span.
const MOST_SET_BITS: u64 = 64 * 1024;
/// The most of a file of `/proc` that is read.
const MOST_FILE_BYTES: u64 = 128 * 1024;
/// `POLLIN` and `EPOLLIN`, which are the same bit.
const READABLE: u32 = 1;

/// What the processes that may read input are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputState {
    /// One is blocked reading the input, there is no input for it, and none of them runs.
    Waiting,
    /// All are blocked, and none of them on the input.
    Blocked,
    /// One of them runs, or has input that it has not read yet.
    Running,
    /// The kernel does not tell.
    Unknown,
}

/// The result of one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputLook {
    /// What they are doing.
    pub state: InputState,
    /// Changes whenever the process that waits has been awake: two equal marks are the same wait.
    /// Zero where none waits.
    pub mark: u64,
    /// Whether it waits only for a time, after which it goes on without input.
    pub timed: bool,
    /// Whether it is inside a read of the input, so that it does nothing else meanwhile. One that
    /// waits in `select`, `poll` or `epoll` may serve other descriptors, too.
    pub reading: bool,
    /// Whether there is input that they have not read yet.
    pub unread: bool,
}

impl InputLook {
    /// A look that found only this.
    #[must_use]
    pub fn only(state: InputState) -> Self {
        Self { state, mark: 0, timed: false, reading: false, unread: false }
    }

    /// A look that found input which was not read yet.
    #[must_use]
    pub fn unread() -> Self {
        Self { unread: true, ..Self::only(InputState::Running) }
    }
}

/// What is read from.
#[derive(Debug)]
enum Source {
    /// The terminal at this path; `/dev/tty` means the same for its foreground processes.
    Terminal(Vec<u8>),
    /// The pipe with this inode.
    Pipe(String),
}

/// Looks at the foreground processes of a terminal.
#[must_use]
pub fn look_at_terminal(controller: BorrowedFd<'_>) -> InputLook {
    let found = || -> io::Result<InputLook> {
        let path = rustix::pty::ptsname(controller, Vec::new())?;
        let Some(group) = crate::pty::foreground(controller) else {
            return Ok(InputLook::only(InputState::Unknown));
        };
        if unread_by_terminal(controller)? > 0 {
            return Ok(InputLook::unread());
        }
        let members = members_of(group)?;
        Ok(look(&Source::Terminal(path.into_bytes()), &members))
    };
    found().unwrap_or(InputLook::only(InputState::Unknown))
}

/// Looks at a process and all its descendants, whose standard input is this pipe.
#[must_use]
pub fn look_at_pipe(pipe: BorrowedFd<'_>, main: Pid) -> InputLook {
    let found = || -> io::Result<InputLook> {
        // Before the processes: what was read when they are looked at can only be more.
        if rustix::io::ioctl_fionread(pipe)? > 0 {
            return Ok(InputLook::unread());
        }
        let inode = rustix::fs::fstat(pipe)?.st_ino;
        let mut members: Vec<i32> = proctree::descendants(main)?.into_iter().collect();
        members.push(main.as_raw_nonzero().get());
        Ok(look(&Source::Pipe(format!("pipe:[{inode}]")), &members))
    };
    found().unwrap_or(InputLook::only(InputState::Unknown))
}

/// Input that the terminal has for its processes. Part of a line is none: they do not get it yet.
fn unread_by_terminal(controller: BorrowedFd<'_>) -> io::Result<u64> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let peer = ioctl_tiocgptpeer(controller, flags)?;
    Ok(rustix::io::ioctl_fionread(peer.as_fd())?)
}

/// The processes of a process group.
fn members_of(group: Pid) -> io::Result<Vec<i32>> {
    let group = group.as_raw_nonzero().get();
    let mut members = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if Stat::read(&format!("/proc/{pid}/stat")).is_some_and(|stat| stat.group == group) {
            members.push(pid);
        }
    }
    Ok(members)
}

fn look(source: &Source, members: &[i32]) -> InputLook {
    let mut waiting = None;
    let mut reading = false;
    let mut is_known = !members.is_empty();
    let mut tasks = 0;
    for pid in members {
        // One that has ended meanwhile is no longer a member.
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            tasks += 1;
            if tasks > MOST_TASKS {
                return InputLook::only(InputState::Unknown);
            }
            let Some(tid) = thread.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let task = Task { pid: *pid, tid };
            match task.doing(source) {
                Doing::Runs => return InputLook::only(InputState::Running),
                Doing::Reads(wait) => {
                    reading |= wait == Wait::InRead;
                    waiting = waiting.max(Some((wait != Wait::Timed, task.mark())));
                }
                Doing::Sleeps => {}
                Doing::Unknown => is_known = false,
            }
        }
    }
    match (waiting, is_known) {
        (Some((is_endless, mark)), _) => InputLook {
            state: InputState::Waiting,
            mark,
            timed: !is_endless,
            reading,
            unread: false,
        },
        (None, true) => InputLook::only(InputState::Blocked),
        (None, false) => InputLook::only(InputState::Unknown),
    }
}

/// The fields of a `stat` file that matter here.
struct Stat {
    state: char,
    group: i32,
}

impl Stat {
    fn read(path: &str) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        // The name in parentheses may hold anything, so fields are counted from its last ')'.
        let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let group = fields.nth(1)?.parse().ok()?;
        Some(Self { state, group })
    }
}

/// What one thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Runs,
    /// It is blocked reading the source, or until the source can be read.
    Reads(Wait),
    Sleeps,
    Unknown,
}

/// How a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// In a read of the input itself.
    InRead,
    /// Until one of several things happens.
    Endless,
    /// The same, and for a time at most.
    Timed,
}

/// One thread.
#[derive(Debug, Clone, Copy)]
struct Task {
    pid: i32,
    tid: i32,
}

impl Task {
    fn path(self, name: &str) -> String {
        format!("/proc/{}/task/{}/{name}", self.pid, self.tid)
    }

    fn doing(self, source: &Source) -> Doing {
        let Some(stat) = Stat::read(&self.path("stat")) else { return Doing::Sleeps };
        match stat.state {
            'R' | 'D' => return Doing::Runs,
            'S' => {}
            // Stopped or ended.
            _ => return Doing::Sleeps,
        }
        let text = match fs::read_to_string(self.path("syscall")) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Doing::Sleeps,
            Err(_) => return Doing::Unknown,
        };
        if text.starts_with("running") {
            return Doing::Runs;
        }
        let Some(call) = Call::parse(&text) else { return Doing::Sleeps };
        match self.reads(&call, source) {
            Ok(true) => Doing::Reads(call.wait()),
            Ok(false) => Doing::Sleeps,
            Err(_) => Doing::Unknown,
        }
    }

    /// How often it gave up the CPU to wait, with its id.
    fn mark(self) -> u64 {
        let status = fs::read_to_string(self.path("status")).unwrap_or_default();
        let switches = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
            .and_then(|count| count.trim().parse::<u64>().ok())
            .unwrap_or(0);
        let tid = u64::try_from(self.tid).unwrap_or(0);
        (tid << 40) ^ (switches + 1)
    }

    fn reads(self, call: &Call, source: &Source) -> io::Result<bool> {
        match call.kind {
            CallKind::Read => Ok(self.is_source(call.descriptor(0), source)),
            CallKind::Select => {
                let (bits, address) = (call.arguments[0].min(MOST_SET_BITS), call.arguments[1]);
                if address == 0 {
                    return Ok(false);
                }
                let length = usize::try_from(bits.div_ceil(8)).unwrap_or(0);
                let set = self.memory(address, length)?;
                let members = (0..bits as usize).filter(|bit| set[bit / 8] & (1 << (bit % 8)) != 0);
                Ok(self.any_is_source(members.filter_map(|fd| i32::try_from(fd).ok()), source))
            }
            CallKind::Poll => {
                let count = usize::try_from(call.arguments[1]).unwrap_or(usize::MAX).min(MOST_FDS);
                let polled = self.memory(call.arguments[0], count * 8)?;
                let wanted = polled.chunks_exact(8).filter_map(|entry| {
                    let [a, b, c, d, events, _, _, _] = *entry else { return None };
                    let is_wanted = u32::from(events) & READABLE != 0;
                    is_wanted.then(|| i32::from_ne_bytes([a, b, c, d]))
                });
                Ok(self.any_is_source(wanted, source))
            }
            CallKind::Epoll => {
                let path = format!("/proc/{}/fdinfo/{}", self.pid, call.descriptor(0));
                let mut text = String::new();
                File::open(path)?.take(MOST_FILE_BYTES).read_to_string(&mut text)?;
                Ok(self.any_is_source(text.lines().filter_map(watched_for_reading), source))
            }
            CallKind::Other => Ok(false),
        }
    }

    fn any_is_source(self, mut fds: impl Iterator<Item = i32>, source: &Source) -> bool {
        fds.by_ref().take(MOST_FDS).any(|fd| self.is_source(fd, source))
    }

    /// Only the link is read, never the file behind it: that may lie where reading takes forever.
    fn is_source(self, fd: i32, source: &Source) -> bool {
        let Ok(link) = fs::read_link(format!("/proc/{}/fd/{fd}", self.pid)) else { return false };
        let link = link.as_os_str().as_encoded_bytes();
        match source {
            Source::Terminal(path) => link == path.as_slice() || link == b"/dev/tty",
            Source::Pipe(name) => link == name.as_bytes(),
        }
    }

    fn memory(self, address: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        File::open(format!("/proc/{}/mem", self.pid))?.read_exact_at(&mut bytes, address)?;
        Ok(bytes)
    }
}

/// The descriptor of a line such as `tfd:        5 events:       19 data: …` if it is to be read.
fn watched_for_reading(line: &str) -> Option<i32> {
    let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
    let fd = words.next()?.parse().ok()?;
    let events = words.next().filter(|word| *word == "events:").and_then(|_| words.next())?;
    (u32::from_str_radix(events, 16).ok()? & READABLE != 0).then_some(fd)
}

/// A system call that a thread is blocked in.
struct Call {
    kind: CallKind,
    limit: Limit,
    arguments: [u64; 6],
}

/// How a call is given its time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// As milliseconds; negative for none.
    Number,
    /// At an address; zero for none.
    Pointer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallKind {
    Read,
    Select,
    Poll,
    Epoll,
    Other,
}

impl Call {
    /// Reads `0 0x0 0x7ffd… …`: the number, six arguments, the stack and the instruction.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let number: i64 = words.next()?.parse().ok()?;
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
        }
        let limit = match number {
            libc::SYS_ppoll | libc::SYS_epoll_pwait2 => Limit::Pointer,
            _ => Limit::Number,
        };
        Some(Self { kind: CallKind::of(number), limit, arguments })
    }

    /// How it waits, and whether it returns after a time without anything to read.
    fn wait(&self) -> Wait {
        if self.kind == CallKind::Read {
            return Wait::InRead;
        }
        let is_timed = match (self.kind, self.limit) {
            (CallKind::Read | CallKind::Other, _) => false,
            (CallKind::Select, _) => self.arguments[4] != 0,
            (CallKind::Poll, Limit::Pointer) => self.arguments[2] != 0,
            (CallKind::Poll, Limit::Number) => self.descriptor(2) >= 0,
            (CallKind::Epoll, Limit::Pointer) => self.arguments[3] != 0,
            (CallKind::Epoll, Limit::Number) => self.descriptor(3) >= 0,
        };
        if is_timed { Wait::Timed } else { Wait::Endless }
    }

    fn descriptor(&self, place: usize) -> i32 {
        // The kernel takes an int: the upper half is whatever was in the register.
        self.arguments[place] as u32 as i32
    }
}

impl CallKind {
    #[cfg(target_arch = "x86_64")]
    fn of_this_machine(number: i64) -> Option<Self> {
        match number {
            libc::SYS_select => Some(Self::Select),
            libc::SYS_poll => Some(Self::Poll),
            libc::SYS_epoll_wait => Some(Self::Epoll),
            _ => None,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn of_this_machine(_: i64) -> Option<Self> {
        None
    }

    fn of(number: i64) -> Self {
        match number {
            libc::SYS_read | libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => Self::Read,
            libc::SYS_pselect6 => Self::Select,
            libc::SYS_ppoll => Self::Poll,
            libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Self::Epoll,
            other => Self::of_this_machine(other).unwrap_or(Self::Other),
        }
    }
}

#[cfg(test)]
#[path = "input_wait_tests.rs"]
mod tests;

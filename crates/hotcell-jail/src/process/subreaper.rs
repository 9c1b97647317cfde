//! A process that stands between the supervisor and an exec where no cgroup holds the exec together:
//! descendants of the exec come to it when their parents die, so none gets away.
//!
//! It lives in the supervisor's memory, on a stack of its own: a copy of that memory would cost
//! more than all the rest of starting a command. The supervisor waits while it starts the
//! command. From then on both run, so it touches nothing but its stack, and calls the kernel
//! directly: the C library keeps `errno` in memory that is the supervisor's.

use std::collections::HashMap;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use super::launch::{Conception, LaunchError, Parent, Stack};
use super::reap::{Reaped, Wait, reap_directly};
use super::spawner::{Spawner, Until};
use crate::clone::{CLONE_CLEAR_SIGHAND, CLONE_VM, CloneArgs};
use crate::direct::call;
use crate::signals::send;

/// A process below a subreaper.
#[derive(Debug)]
pub struct ReapedLaunch {
    /// The process.
    pub main: Pid,
    /// The subreaper, a child of this process.
    pub reaper: Pid,
    /// Where the subreaper writes its [`Report`].
    pub report: OwnedFd,
}

/// What a subreaper tells: its process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// How.
    pub end: Reaped,
    /// Whether descendants of it are left.
    pub others: Others,
}

/// What is left below a subreaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// No process at all.
    None,
    /// At least one.
    Some,
}

/// The stacks of all subreapers that live.
#[derive(Debug, Default)]
pub(super) struct Reapers {
    used: HashMap<Pid, Stack>,
    spare: Vec<Stack>,
}

/// What a subreaper sees of the supervisor's memory while that waits.
struct Shared<'a, 'b> {
    conception: &'a mut Conception<'b>,
    reporter: RawFd,
    outcome: Option<Outcome>,
}

/// The process, or the step that failed and what the kernel said.
type Outcome = Result<Pid, (&'static str, i32)>;

impl Reapers {
    pub(super) fn start(
        &mut self,
        conception: &mut Conception<'_>,
        spawner: &mut Spawner,
    ) -> Result<ReapedLaunch, LaunchError> {
        let failed = |step| move |errno: Errno| LaunchError { step, source: errno.into() };
        let (report, reporter) = pipe_with(PipeFlags::CLOEXEC).map_err(failed("pipe"))?;
        let mut stack = self.spare.pop().unwrap_or_default();
        let mut shared = Shared { conception, reporter: reporter.as_raw_fd(), outcome: None };
        let mut args = CloneArgs {
            flags: CLONE_VM | CLONE_CLEAR_SIGHAND,
            exit_signal: libc::SIGCHLD as u64,
            ..CloneArgs::default()
        };
        stack.describe(&mut args);
        // SAFETY: the stack is kept until the process has been collected; `shared` and all that it
        // refers to is the child's alone until its first word is in the pipe or it is dead, and
        // this thread waits for that below; `live` never returns.
        let cloned = unsafe {
            let argument = std::ptr::from_mut(&mut shared).cast::<c_void>();
            spawner.clone3(&mut args, live, argument, Until::Born)
        };
        let reaper = match cloned {
            Ok(reaper) => reaper,
            Err(source) => {
                self.spare.push(stack);
                return Err(LaunchError { step: "clone3", source });
            }
        };
        self.used.insert(reaper, stack);
        drop(reporter);
        let soon = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        while poll(&mut [PollFd::new(&report, PollFlags::IN)], Some(&soon)) == Ok(0) {
            // What it has started may have stopped it already.
            let _ = send(reaper, libc::SIGCONT);
        }
        let mut word = [0];
        while rustix::io::read(&report, &mut word) == Err(Errno::INTR) {}
        // SAFETY: the child wrote it before its first word; the read must not be optimised away.
        let main = match unsafe { std::ptr::read_volatile(&raw const shared.outcome) } {
            Some(Ok(main)) => main,
            Some(Err((step, errno))) => {
                return Err(LaunchError { step, source: io::Error::from_raw_os_error(errno) });
            }
            None => return Err(failed("start a subreaper")(Errno::CHILD)),
        };
        rustix::io::ioctl_fionbio(&report, true).map_err(failed("ioctl"))?;
        Ok(ReapedLaunch { main, reaper, report })
    }

    /// Whether it is one of them.
    pub(super) fn has(&self, child: Pid) -> bool {
        self.used.contains_key(&child)
    }

    /// Whether it was one of them.
    pub(super) fn forget(&mut self, child: Pid) -> bool {
        let stack = self.used.remove(&child);
        let found = stack.is_some();
        self.spare.extend(stack);
        found
    }
}

/// The life of a subreaper: starts the process, tells of its end, waits for all the others.
extern "C" fn live(shared: *mut c_void) -> ! {
    // SAFETY: `start` passed a valid Shared that nobody else touches until the first word.
    let shared = unsafe { &mut *shared.cast::<Shared<'_, '_>>() };
    // SAFETY: open in this process, whose descriptors are its own, until it ends.
    let reporter = unsafe { BorrowedFd::borrow_raw(shared.reporter) };
    let outcome = begin(shared.conception);
    // SAFETY: a valid place; written for another process, so it must not be optimised away.
    unsafe { std::ptr::write_volatile(&raw mut shared.outcome, Some(outcome)) };
    // From here on the supervisor runs too. One that is gone has taken the whole cell with it.
    let _ = rustix::io::write(reporter, b"s");
    if let Ok(main) = outcome {
        close_all_but(reporter);
        wait_for_all(main, reporter);
    }
    // SAFETY: _exit ends this process without running anything of the supervisor's.
    unsafe { libc::_exit(0) }
}

fn begin(conception: &mut Conception<'_>) -> Outcome {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|errno| ("become a subreaper", errno.raw_os_error()))?;
    conception
        .give_birth(Parent::Caller)
        .map_err(|error| (error.step, error.source.raw_os_error().unwrap_or(libc::EIO)))
}

fn wait_for_all(main: Pid, reporter: BorrowedFd<'_>) {
    while let Ok(ended) = reap_directly(Wait::Block) {
        if let Some(end) = ended
            && end.pid == main
        {
            let report = Report { end, others: reap_others() };
            let _ = rustix::io::write(reporter, &report.to_bytes());
        }
    }
}

/// Collects what has ended beside the main process, and says whether anything is left.
fn reap_others() -> Others {
    loop {
        match reap_directly(Wait::Poll) {
            Ok(Some(_)) => {}
            Ok(None) => return Others::Some,
            Err(_) => return Others::None,
        }
    }
}

fn close_all_but(kept: BorrowedFd<'_>) {
    let Ok(kept) = usize::try_from(kept.as_raw_fd()) else { return };
    let close = |first: usize, last: usize| {
        // SAFETY: closing descriptors by number; this process uses none but `kept` from here on.
        let _ = unsafe { call(libc::SYS_close_range, [first, last, 0, 0]) };
    };
    if kept > 0 {
        close(0, kept - 1);
    }
    close(kept + 1, u32::MAX as usize);
}

impl Report {
    /// The bytes of a report in the pipe; far fewer than what a pipe passes on whole.
    pub const BYTES: usize = 40;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let clamped = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let fields: [i64; 5] = [
            i64::from(self.end.pid.as_raw_nonzero().get()),
            i64::from(self.end.status),
            clamped(self.end.cpu_us),
            clamped(self.end.max_rss_kb),
            i64::from(self.others == Others::Some),
        ];
        let mut bytes = [0; Self::BYTES];
        for (chunk, field) in bytes.chunks_exact_mut(8).zip(fields) {
            chunk.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// Reads a report back.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut fields = [0_i64; 5];
        for (field, chunk) in fields.iter_mut().zip(bytes.chunks_exact(8)) {
            *field = i64::from_le_bytes(chunk.try_into().ok()?);
        }
        let [pid, status, cpu_us, max_rss_kb, others] = fields;
        Some(Self {
            end: Reaped {
                pid: Pid::from_raw(i32::try_from(pid).ok()?)?,
                status: i32::try_from(status).ok()?,
                cpu_us: u64::try_from(cpu_us).ok()?,
                max_rss_kb: u64::try_from(max_rss_kb).ok()?,
            },
            others: if others == 0 { Others::None } else { Others::Some },
        })
    }
}

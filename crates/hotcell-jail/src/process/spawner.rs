//! A thread of pid 1 under the layers that programs inherit, from which all of them are born.
//!
//! What a Landlock domain and a filter cost is paid once, and all programs of a cell are in one
//! domain, so that they may signal and look at one another. It is a thread, not a process:
//! its children are pid 1's, and like pid 1 it can be neither killed nor stopped from inside the
//! cell. It lives on a stack of its own, touches nothing but that and its [`Desk`], and calls the
//! kernel directly, since the C library takes it for the first thread.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::process::Pid;

use super::launch::Stack;
use crate::clone::{
    CLONE_CHILD_CLEARTID, CLONE_PARENT_SETTID, CLONE_THREAD_OF_SELF, CloneArgs, QuietThread,
    clone3_call,
};
use crate::direct::call;
use crate::landlock::{Rules, restrict_self};
use crate::seccomp::Filter;
use crate::{Step, StepError};

/// The thread and what it shares with the first one.
#[derive(Debug)]
pub(super) struct Spawner {
    desk: Box<Desk>,
    thread: Pid,
    /// Both are in use until the thread has ended.
    _stack: Stack,
    _quiet: QuietThread,
}

/// Where orders are put down. Each word is waited for by one thread and written by the other, or by
/// the kernel.
#[derive(Debug, Default)]
struct Desk {
    /// What the spawner is to do: an [`IDLE`], [`SPAWN`] or [`LEAVE`].
    order: AtomicU32,
    /// [`PENDING`] until what was asked for has happened.
    settled: AtomicU32,
    /// The new process, as told by the kernel.
    child: AtomicI32,
    /// What the kernel said instead.
    errno: AtomicI32,
    /// Where the questions of its filter come in.
    listener: AtomicI32,
    /// Which step of its beginning failed.
    failed: AtomicU32,
    args: AtomicPtr<CloneArgs>,
    job: AtomicPtr<Job>,
    beginning: AtomicPtr<Beginning>,
    /// Cleared by the kernel when the thread has ended.
    lives: AtomicU32,
}

const IDLE: u32 = 0;
const SPAWN: u32 = 1;
const SPAWN_AND_TELL: u32 = 2;
const LEAVE: u32 = 3;
const PENDING: u32 = 1;
const SETTLED: u32 = 0;

const NO_STEP: u32 = 0;
const LANDLOCK_STEP: u32 = 1;
const FILTER_STEP: u32 = 2;

/// What a new process runs.
struct Job {
    entry: extern "C" fn(*mut c_void) -> !,
    argument: *mut c_void,
}

/// What the thread puts on first.
struct Beginning {
    rules: Option<RawFd>,
    filter: *const Filter,
    listening: Listening,
}

/// Whether the filter asks about some calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listening {
    /// It does.
    Yes,
    /// It decides all by itself.
    No,
}

/// Until when a birth is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Until there is a process.
    Born,
    /// Until it is a program of its own, or has ended.
    Program,
}

impl Spawner {
    /// Starts the thread, and puts these layers on it. With it comes the descriptor at which its
    /// filter asks, if it does.
    pub(super) fn start(
        rules: Option<&Rules>,
        filter: &Filter,
        listening: Listening,
    ) -> Result<(Self, RawFd), StepError> {
        let mut desk = Box::new(Desk::default());
        let mut stack = Stack::default();
        let mut beginning =
            Beginning { rules: rules.map(|rules| rules.as_fd().as_raw_fd()), filter, listening };
        desk.settled.store(PENDING, Ordering::Release);
        desk.lives.store(PENDING, Ordering::Release);
        desk.beginning.store(&raw mut beginning, Ordering::Release);
        let mut args = CloneArgs {
            flags: CLONE_THREAD_OF_SELF | CLONE_CHILD_CLEARTID,
            child_tid: desk.lives.as_ptr() as u64,
            ..CloneArgs::default()
        };
        stack.describe(&mut args);
        let argument = std::ptr::from_mut(&mut *desk).cast::<c_void>();
        // SAFETY: desk and stack stay where they are until the thread has ended, which `drop` waits
        // for; `beginning` is used until the first word is settled, which is waited for below;
        // `live` never returns.
        let cloned = unsafe { clone3_call(&mut args, live, argument) };
        let thread = cloned.step(|| "start the thread that programs are born from".to_owned())?;
        let spawner = Self { desk, thread, _stack: stack, _quiet: QuietThread::note() };
        await_settled(&spawner.desk.settled);
        let step = match spawner.desk.failed.load(Ordering::Acquire) {
            NO_STEP => {
                let listener = spawner.desk.listener.load(Ordering::Acquire);
                return Ok((spawner, listener));
            }
            LANDLOCK_STEP => "apply Landlock",
            _ => "install the seccomp filter",
        };
        let errno = spawner.desk.errno.load(Ordering::Acquire);
        Err(io::Error::from_raw_os_error(errno)).step(|| step.to_owned())
    }

    /// The thread's number.
    pub(super) fn thread(&self) -> u32 {
        self.thread.as_raw_nonzero().get().cast_unsigned()
    }

    /// Has a process born under the layers; it is a child of this one.
    ///
    /// # Safety
    /// As for [`clone3_call`], with `args` that have CLONE_VM and do not say where to tell ids.
    pub(super) unsafe fn clone3(
        &mut self,
        args: &mut CloneArgs,
        entry: extern "C" fn(*mut c_void) -> !,
        argument: *mut c_void,
        until: Until,
    ) -> io::Result<Pid> {
        let desk = &self.desk;
        let mut job = Job { entry, argument };
        args.flags |= CLONE_PARENT_SETTID;
        args.parent_tid = desk.child.as_ptr() as u64;
        let order = match until {
            Until::Born => SPAWN_AND_TELL,
            Until::Program => {
                // The kernel settles it when the process leaves this memory.
                args.flags |= CLONE_CHILD_CLEARTID;
                args.child_tid = desk.settled.as_ptr() as u64;
                SPAWN
            }
        };
        desk.child.store(0, Ordering::Release);
        desk.errno.store(0, Ordering::Release);
        desk.args.store(args, Ordering::Release);
        desk.job.store(&raw mut job, Ordering::Release);
        desk.settled.store(PENDING, Ordering::Release);
        desk.order.store(order, Ordering::Release);
        wake(&desk.order);
        await_settled(&desk.settled);
        match desk.errno.load(Ordering::Acquire) {
            0 => {
                let pid = Pid::from_raw(desk.child.load(Ordering::Acquire));
                pid.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
            }
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        self.desk.order.store(LEAVE, Ordering::Release);
        wake(&self.desk.order);
        await_settled(&self.desk.lives);
        // It is told before the thread is off the list of threads, which forks look at.
        let process = std::process::id() as usize;
        let thread = self.thread.as_raw_nonzero().get() as usize;
        // SAFETY: a signal of number 0 only asks.
        while unsafe { call(libc::SYS_tgkill, [process, thread, 0, 0]) }.is_ok() {
            std::thread::yield_now();
        }
    }
}

/// The life of the thread.
extern "C" fn live(desk: *mut c_void) -> ! {
    // SAFETY: `start` passed a valid Desk, of which only words that are made for it are shared.
    let desk = unsafe { &*desk.cast::<Desk>() };
    // SAFETY: `start` waits for the beginning to be over.
    begin(desk, unsafe { &*desk.beginning.load(Ordering::Acquire) });
    settle(desk);
    loop {
        let order = desk.order.swap(IDLE, Ordering::AcqRel);
        match order {
            IDLE => wait(&desk.order, IDLE),
            LEAVE => leave(),
            _ => spawn(desk, order),
        }
    }
}

fn begin(desk: &Desk, beginning: &Beginning) {
    let failed = |step: u32, errno: Errno| {
        desk.errno.store(errno.raw_os_error(), Ordering::Release);
        desk.failed.store(step, Ordering::Release);
    };
    if let Some(rules) = beginning.rules {
        // SAFETY: open as long as `start` waits.
        let rules = unsafe { BorrowedFd::borrow_raw(rules) };
        if let Err(errno) = restrict_self(rules) {
            return failed(LANDLOCK_STEP, errno);
        }
    }
    // SAFETY: valid as long as `start` waits.
    let filter = unsafe { &*beginning.filter };
    let installed = match beginning.listening {
        Listening::No => filter.install(),
        Listening::Yes => filter.install_listening().map(|listener| {
            desk.listener.store(listener, Ordering::Release);
        }),
    };
    if let Err(errno) = installed {
        failed(FILTER_STEP, errno);
    }
}

fn spawn(desk: &Desk, order: u32) {
    // SAFETY: whoever gave the order waits until it is carried out, and vouches for both.
    let cloned = unsafe {
        let job = &*desk.job.load(Ordering::Acquire);
        clone3_call(&mut *desk.args.load(Ordering::Acquire), job.entry, job.argument)
    };
    match cloned {
        Ok(_) if order == SPAWN => {}
        Ok(_) => settle(desk),
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
            desk.errno.store(errno, Ordering::Release);
            settle(desk);
        }
    }
}

fn settle(desk: &Desk) {
    desk.settled.store(SETTLED, Ordering::Release);
    wake(&desk.settled);
}

fn leave() -> ! {
    loop {
        // SAFETY: ends this thread alone, on which nothing is left to be done.
        let _ = unsafe { call(libc::SYS_exit, [0; 4]) };
    }
}

fn await_settled(word: &AtomicU32) {
    while word.load(Ordering::Acquire) != SETTLED {
        wait(word, PENDING);
    }
}

/// Sleeps as long as the word has this value, or for less.
fn wait(word: &AtomicU32, value: u32) {
    // Not private: the kernel wakes whoever waits for the end of a thread as if it were shared.
    let arguments = [word.as_ptr() as usize, libc::FUTEX_WAIT as usize, value as usize, 0];
    // SAFETY: the word is valid, and no timeout is given.
    let _ = unsafe { call(libc::SYS_futex, arguments) };
}

fn wake(word: &AtomicU32) {
    let arguments = [word.as_ptr() as usize, libc::FUTEX_WAKE as usize, 1, 0];
    // SAFETY: the word is valid.
    let _ = unsafe { call(libc::SYS_futex, arguments) };
}

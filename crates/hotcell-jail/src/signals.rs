//! Signals as something to wait for, and signals to others.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Pid;

/// The end of a child, as a descriptor that becomes readable.
#[derive(Debug)]
pub struct ChildSignal(OwnedFd);

impl ChildSignal {
    /// Blocks SIGCHLD in this thread and makes it readable.
    ///
    /// # Errors
    /// The kernel refused the descriptor.
    pub fn new() -> io::Result<Self> {
        // SAFETY: an all-zero sigset_t may be passed to sigemptyset, which initialises it; the
        // pointers are valid for the calls.
        let fd = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGCHLD);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: signalfd returned a new descriptor that nobody else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Takes what is there, so that the descriptor is no longer readable.
    pub fn clear(&self) {
        let mut buffer = [0_u8; 1024];
        while matches!(rustix::io::read(&self.0, &mut buffer), Ok(length) if length > 0) {}
    }
}

impl AsFd for ChildSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Lets every signal do what it does by default: what the caller of this program ignored must not
/// be ignored in a cell for ever, and a child that ends must be waited for. A write to a closed
/// pipe stays an error instead of an end.
pub fn use_defaults() {
    for signal in 1..=64 {
        if signal != libc::SIGPIPE {
            use_default(signal);
        }
    }
}

/// Lets every signal through to this thread.
pub fn unblock_all() {
    // SAFETY: an empty set is valid, and so are the pointers.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Lets one signal do what it does by default. Safe in a process that shares its parent's memory.
pub(crate) fn use_default(signal: i32) {
    // The kernel's sigaction: handler, flags, restorer, mask. The C library's call keeps two
    // signals for itself and would leave them ignored.
    let default = [0_u64; 4];
    // SAFETY: all zeros are SIG_DFL without flags, and the mask has the eight bytes that are given
    // as its size. Numbers that cannot be set, such as SIGKILL's, are refused and change nothing.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            default.as_ptr(),
            std::ptr::null_mut::<u64>(),
            std::mem::size_of::<u64>(),
        );
    }
}

/// Sends a signal by number to one process. `ESRCH` when it is gone.
///
/// # Errors
/// As `kill(2)`.
pub fn send(pid: Pid, signal: i32) -> io::Result<()> {
    kill(pid.as_raw_nonzero().get(), signal)
}

/// Sends a signal by number to a process group.
///
/// # Errors
/// As `kill(2)`.
pub fn send_to_group(leader: Pid, signal: i32) -> io::Result<()> {
    kill(-leader.as_raw_nonzero().get(), signal)
}

/// Sends a signal by number to the process behind a pidfd.
///
/// # Errors
/// As `pidfd_send_signal(2)`.
pub fn send_by_pidfd(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    // SAFETY: the call takes a descriptor, a number, a null siginfo and no flags.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn kill(target: i32, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes two numbers.
    let result = unsafe { libc::kill(target, signal) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

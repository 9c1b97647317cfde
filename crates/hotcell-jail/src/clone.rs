//! New processes straight from `clone3`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use rustix::io::Errno;
use rustix::process::Pid;

use crate::direct::call;

/// Which namespaces a process gets of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespaces(u64);

impl Namespaces {
    /// None: everything is shared with the parent.
    pub const NONE: Self = Self(0);
    /// Only the user namespace.
    pub const USER: Self = Self(libc::CLONE_NEWUSER as u64);
    /// The mount namespace.
    pub const MOUNT: Self = Self(libc::CLONE_NEWNS as u64);
    /// The pid namespace.
    pub const PID: Self = Self(libc::CLONE_NEWPID as u64);
    /// The network namespace.
    pub const NETWORK: Self = Self(libc::CLONE_NEWNET as u64);
    /// System V and POSIX message queues.
    pub const IPC: Self = Self(libc::CLONE_NEWIPC as u64);
    /// The host name.
    pub const UTS: Self = Self(libc::CLONE_NEWUTS as u64);
    /// The view of the cgroup tree.
    pub const CGROUP: Self = Self(libc::CLONE_NEWCGROUP as u64);

    /// Every namespace that a cell's first process is born into; that of cgroups comes once it is
    /// in its groups.
    pub const AT_BIRTH: Self = Self(
        Self::USER.0 | Self::MOUNT.0 | Self::PID.0 | Self::NETWORK.0 | Self::IPC.0 | Self::UTS.0,
    );

    /// These and those.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The two sides of a fork.
#[derive(Debug)]
pub enum Forked {
    /// The new process.
    Child,
    /// The old one, with a handle on the new one.
    Parent {
        /// The new process.
        pid: Pid,
        /// A descriptor that stays bound to it.
        pidfd: OwnedFd,
    },
}

/// The argument of `clone3`, as far as it is used here (`struct clone_args` of the kernel).
#[repr(C, align(8))]
#[derive(Debug, Default)]
pub(crate) struct CloneArgs {
    pub(crate) flags: u64,
    pub(crate) pidfd: u64,
    pub(crate) child_tid: u64,
    pub(crate) parent_tid: u64,
    pub(crate) exit_signal: u64,
    pub(crate) stack: u64,
    pub(crate) stack_size: u64,
    pub(crate) tls: u64,
    pub(crate) set_tid: u64,
    pub(crate) set_tid_size: u64,
    pub(crate) cgroup: u64,
}

pub(crate) const CLONE_PIDFD: u64 = libc::CLONE_PIDFD as u64;
pub(crate) const CLONE_PARENT_SETTID: u64 = libc::CLONE_PARENT_SETTID as u64;
pub(crate) const CLONE_CHILD_CLEARTID: u64 = libc::CLONE_CHILD_CLEARTID as u64;
/// A thread: everything is shared.
pub(crate) const CLONE_THREAD_OF_SELF: u64 = (libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM) as u64;
pub(crate) const CLONE_VM: u64 = libc::CLONE_VM as u64;
pub(crate) const CLONE_VFORK: u64 = libc::CLONE_VFORK as u64;
pub(crate) const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
pub(crate) const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Threads that hold nothing a fork could miss: no lock, no memory that is being changed.
static QUIET_THREADS: AtomicUsize = AtomicUsize::new(0);

/// Such a thread, as long as it lives.
#[derive(Debug)]
pub(crate) struct QuietThread(());

impl QuietThread {
    pub(crate) fn note() -> Self {
        QUIET_THREADS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for QuietThread {
    fn drop(&mut self) {
        QUIET_THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Forks this process into new namespaces, and into a cgroup v2 directory where one is given.
///
/// # Errors
/// The kernel refused, or this process has several threads: a fork of such a process may only run
/// code that is safe in a signal handler, and what runs in a new cell is more than that.
pub fn fork_into_namespaces(
    namespaces: Namespaces,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<Forked> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads > 1 + QUIET_THREADS.load(Ordering::Relaxed) {
        return Err(io::Error::other(format!("cannot fork a process of {threads} threads")));
    }
    let mut pidfd: i32 = -1;
    let told = std::ptr::from_mut(&mut pidfd) as u64;
    let mut args = CloneArgs {
        flags: namespaces.0 | CLONE_PIDFD,
        pidfd: told,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    let result = if has_clone3() {
        // SAFETY: `args` is a valid clone_args of the size given; without CLONE_VM and a stack this
        // is a fork; the process has one thread, checked above, so the child may go on running Rust
        // code.
        unsafe {
            libc::syscall(
                libc::SYS_clone3,
                std::ptr::from_mut(&mut args),
                std::mem::size_of::<CloneArgs>(),
            )
        }
    } else {
        let flags = older_flags(&args)?;
        // SAFETY: as above; the older call tells the descriptor where it would tell the pid.
        unsafe { libc::syscall(libc::SYS_clone, flags, 0_u64, told, 0_u64, 0_u64) }
    };
    match result {
        0 => Ok(Forked::Child),
        -1 => Err(io::Error::last_os_error()),
        pid => {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let pid = pid.ok_or_else(|| io::Error::other("clone3 returned no pid"))?;
            // SAFETY: CLONE_PIDFD stored a new descriptor there, which nobody else owns.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Forked::Parent { pid, pidfd })
        }
    }
}

/// Forks this process without new namespaces.
///
/// # Errors
/// As [`fork_into_namespaces`].
pub fn fork() -> io::Result<Forked> {
    fork_into_namespaces(Namespaces::NONE, None)
}

/// Whether there is a `clone3`: the filter around a container may have taken it away, so that it can
/// look at the flags of `clone`. Asked once.
fn has_clone3() -> bool {
    const UNKNOWN: u8 = 0;
    const THERE: u8 = 1;
    const ABSENT: u8 = 2;
    static FOUND: AtomicU8 = AtomicU8::new(UNKNOWN);
    match FOUND.load(Ordering::Relaxed) {
        THERE => true,
        ABSENT => false,
        _ => {
            let arguments = [std::ptr::null::<CloneArgs>() as usize, 0, 0, 0];
            // SAFETY: a size of zero is refused before anything is read or done.
            let refused = unsafe { call(libc::SYS_clone3, arguments) };
            let there = refused != Err(Errno::NOSYS);
            FOUND.store(if there { THERE } else { ABSENT }, Ordering::Relaxed);
            there
        }
    }
}

/// The same for `clone`. What it cannot do is refused, but that handlers of signals are reset: every
/// program that is started does so by itself.
fn older_flags(args: &CloneArgs) -> io::Result<u64> {
    if args.flags & CLONE_INTO_CGROUP != 0 {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    Ok((args.flags & !CLONE_CLEAR_SIGHAND) | args.exit_signal)
}

/// Calls `clone3` so that the child runs `entry(argument)` on its own stack and never returns.
///
/// # Safety
/// `args` must describe a stack that stays valid as long as the child runs on it, and `entry` must
/// never return. With CLONE_VM, `entry` shares all memory with the caller.
pub(crate) unsafe fn clone3_call(
    args: &mut CloneArgs,
    entry: extern "C" fn(*mut libc::c_void) -> !,
    argument: *mut libc::c_void,
) -> io::Result<Pid> {
    if !has_clone3() {
        // SAFETY: as for this function.
        return unsafe { clone_call(args, entry, argument) };
    }
    let size = std::mem::size_of::<CloneArgs>() as u64;
    let arguments = [std::ptr::from_mut(args) as u64, size, 0, 0, 0];
    // SAFETY: as for this function.
    born(unsafe { call_to_be_two(libc::SYS_clone3, arguments, entry, argument) })
}

/// The same by `clone`.
///
/// # Safety
/// As for [`clone3_call`].
unsafe fn clone_call(
    args: &CloneArgs,
    entry: extern "C" fn(*mut libc::c_void) -> !,
    argument: *mut libc::c_void,
) -> io::Result<Pid> {
    let flags = older_flags(args)?;
    let stack = args.stack + args.stack_size;
    #[cfg(target_arch = "x86_64")]
    let last = [args.child_tid, args.tls];
    #[cfg(target_arch = "aarch64")]
    let last = [args.tls, args.child_tid];
    let arguments = [flags, stack, args.parent_tid, last[0], last[1]];
    // SAFETY: as for this function.
    born(unsafe { call_to_be_two(libc::SYS_clone, arguments, entry, argument) })
}

/// Makes a call after which there are two: one comes back with the result, the other has another stack
/// and runs `entry(argument)`.
///
/// # Safety
/// As for [`clone3_call`], and the arguments must be right for the call.
unsafe fn call_to_be_two(
    number: libc::c_long,
    arguments: [u64; 5],
    entry: extern "C" fn(*mut libc::c_void) -> !,
    argument: *mut libc::c_void,
) -> i64 {
    let result: i64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the parent comes back with the syscall's result in rax and everything else as it
    // was; the child has the new stack in rsp and never leaves the asm block. What it needs is in
    // named registers: one that the compiler chooses may be rbp.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "and rsp, -16",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") number => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r12") entry,
            in("r13") argument,
            // Not late: the inputs above must not share what the syscall overwrites.
            out("rcx") _,
            out("r11") _,
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above, with the result in x0 and the new stack in sp.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x21",
            "blr x20",
            "brk 1",
            "2:",
            in("x8") number,
            inlateout("x0") arguments[0] => result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            in("x20") entry,
            in("x21") argument,
            out("x30") _,
        );
    }
    result
}

fn born(result: i64) -> io::Result<Pid> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(libc::EINVAL)));
    }
    let pid = i32::try_from(result).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
}

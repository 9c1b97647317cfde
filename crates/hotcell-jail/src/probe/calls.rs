//! System calls that some kernels do not have and some filters refuse.

use std::io;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::{Finding, Named, Refusal};
use crate::clone::CloneArgs;

const SECCOMP_GET_ACTION_AVAIL: libc::c_uint = 2;
const SECCOMP_RET_ERRNO: u32 = 0x0005_0000;
const CLONE3: &str = "clone3";
/// A descriptor that is never open.
const NO_FD: libc::c_uint = i32::MAX as libc::c_uint;

/// The calls without which no cell starts.
pub(super) fn each() -> Vec<Named> {
    let tried = [
        (CLONE3, clone3()),
        ("close_range", close_range()),
        ("mount_setattr", mount_setattr()),
        ("openat2", openat2_of_root()),
        ("pidfd_open", pidfd_of_self()),
    ];
    tried.map(|(name, tried)| Named { name: name.to_owned(), finding: find(name, tried) }).into()
}

/// Whether the call that makes processes is among those that work.
pub(super) fn can_fork(calls: &[Named]) -> bool {
    calls.iter().any(|call| call.name == CLONE3 && call.finding.works())
}

/// Whether system calls can be filtered.
pub(super) fn seccomp() -> Finding {
    let action = SECCOMP_RET_ERRNO;
    // SAFETY: the call reads one number behind the pointer.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, std::ptr::from_ref(&action))
    };
    find("seccomp", outcome(result))
}

fn find(name: &str, tried: io::Result<()>) -> Finding {
    match tried {
        Ok(()) => Finding::Works,
        Err(error) => Finding::Refused(Refusal {
            step: name.to_owned(),
            errno: error.raw_os_error(),
            said: error.to_string(),
        }),
    }
}

fn outcome(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A call with arguments that the kernel refuses as such is one that it knows.
fn known(result: libc::c_long, refusal: i32) -> io::Result<()> {
    match outcome(result) {
        Err(error) if error.raw_os_error() == Some(refusal) => Ok(()),
        other => other,
    }
}

fn clone3() -> io::Result<()> {
    let args = CloneArgs::default();
    // SAFETY: a size of zero is refused before anything is read or done.
    let result = unsafe { libc::syscall(libc::SYS_clone3, std::ptr::from_ref(&args), 0_usize) };
    known(result, libc::EINVAL)
}

fn close_range() -> io::Result<()> {
    // SAFETY: the range holds one number, which no descriptor has.
    outcome(unsafe { libc::syscall(libc::SYS_close_range, NO_FD, NO_FD, 0) })
}

fn mount_setattr() -> io::Result<()> {
    // SAFETY: a size of zero is refused before anything is read or done.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            -1,
            c"".as_ptr(),
            0,
            std::ptr::null::<libc::c_void>(),
            0_usize,
        )
    };
    known(result, libc::EINVAL)
}

fn openat2_of_root() -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, "/", flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?;
    Ok(())
}

fn pidfd_of_self() -> io::Result<()> {
    pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(())
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod calls_tests;

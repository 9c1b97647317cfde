//! A fork of the supervisor that goes on as an ordinary process of the cell.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::process::{Gid, Uid};

use super::hide_self;
use super::launch::{Groups, Identity};
use super::privileges::drop_capabilities;
use crate::landlock::{Rules, restrict_self};
use crate::seccomp::{Filter, Purpose};
use crate::signals::{unblock_all, use_defaults};
use crate::surroundings::Surroundings;
use crate::{Step, StepError};

/// Gives up what sets a fork of the supervisor apart from an exec: its ids, its capabilities, and
/// every descriptor but the standard streams and `kept`. It is confined to the cell's root, can
/// start no program, and stays hidden from processes of the same
/// user: what it holds and says is not theirs.
///
/// # Errors
/// The step that failed; the process must not go on.
pub fn become_ordinary(
    identity: Identity,
    kept: &[BorrowedFd<'_>],
    name: &CStr,
    surroundings: &Surroundings,
) -> Result<(), StepError> {
    use_defaults();
    unblock_all();
    rustix::process::setsid().step(|| "setsid".to_owned())?;
    close_others(kept)?;
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    if identity.groups == Groups::Cleared {
        rustix::thread::set_thread_groups(&[]).step(|| "setgroups".to_owned())?;
    }
    rustix::thread::set_thread_res_gid(gid, gid, gid).step(|| "setresgid".to_owned())?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).step(|| "setresuid".to_owned())?;
    drop_capabilities().step(|| "drop capabilities".to_owned())?;
    rustix::thread::set_name(name).step(|| "name the process".to_owned())?;
    hide_self()?;
    if let Some(rules) = Rules::for_files(surroundings)? {
        restrict_self(rules.as_fd()).step(|| "apply Landlock".to_owned())?;
    }
    Filter::new(Purpose::FileServer(surroundings.ground()))
        .install()
        .step(|| "install the seccomp filter".to_owned())
}

fn close_others(kept: &[BorrowedFd<'_>]) -> Result<(), StepError> {
    let mut kept: Vec<u32> = kept.iter().map(|fd| fd.as_raw_fd().cast_unsigned()).collect();
    kept.sort_unstable();
    let mut first = 3;
    for fd in kept.into_iter().chain([u32::MAX]) {
        if fd > first {
            let last = if fd == u32::MAX { fd } else { fd - 1 };
            // SAFETY: closes descriptors by number. Whatever owns them is never used again: this
            // is a fork, and its copy of the supervisor's state is left alone until it ends.
            let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0_u32) };
            if closed != 0 {
                return Err(std::io::Error::last_os_error()).step(|| "close_range".to_owned());
            }
        }
        first = fd.saturating_add(1);
    }
    Ok(())
}

/// Ends this process at once, without running anything that its memory, a copy of another's, says
/// is to be done at the end.
pub fn end_now(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

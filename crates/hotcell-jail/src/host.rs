//! The host's side of starting a cell.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::process::Pid;

use crate::ids::IdLayout;
use crate::mounts::{Layer, OverlayMaker};
use crate::overlay::layers_from_host;
use crate::shown::{self, Tools};
use crate::{Step, StepError};

/// Makes a cell's layers as root of the host, for the cell whose first process is `cell`.
///
/// # Errors
/// The step that failed.
pub fn make_layers(
    layers: &[Layer],
    ids: &IdLayout,
    cell: Pid,
    scratch: &Path,
) -> Result<Vec<OwnedFd>, StepError> {
    layers_from_host(layers, ids, cell, scratch)
}

/// Makes what of the host a cell has for tools of others, as root of the host.
///
/// # Errors
/// The step that failed.
pub fn make_shown(tools: Tools<'_>) -> Result<Vec<OwnedFd>, StepError> {
    shown::make(tools, OverlayMaker::Host).map(Vec::from)
}

/// The same descriptor under a number of at least `least`, so that lower numbers are free.
///
/// # Errors
/// There are too many open descriptors.
pub(crate) fn move_up(fd: BorrowedFd<'_>, least: i32) -> Result<OwnedFd, StepError> {
    // SAFETY: duplicates a descriptor that is open to a number that is free.
    let copy = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) };
    if copy < 0 {
        return Err(io::Error::last_os_error()).step(|| "duplicate a descriptor".to_owned());
    }
    // SAFETY: fcntl returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Closes everything but the standard streams: what the caller of whoever started this program had
/// open must not live as long as a cell. For a program that has opened nothing yet.
///
/// # Errors
/// The kernel does not know `close_range`.
pub fn close_inherited() -> io::Result<()> {
    // SAFETY: plain numbers; nothing in this process owns a descriptor above 2 yet.
    match unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Takes over descriptors that were left open for what this process has become.
///
/// # Errors
/// One of them is not open, or is named twice.
pub fn inherited_fds(numbers: &[i32]) -> io::Result<Vec<OwnedFd>> {
    for (place, number) in numbers.iter().enumerate() {
        // SAFETY: F_GETFD only looks whether a descriptor is open.
        let open = *number > 2 && unsafe { libc::fcntl(*number, libc::F_GETFD) } >= 0;
        if !open || numbers[..place].contains(number) {
            return Err(io::Error::other(format!("descriptor {number} was not handed over")));
        }
    }
    let owned = numbers.iter().map(|number| {
        // SAFETY: the descriptor is open, named once, and was left for whoever calls this, who does
        // so before anything else is opened.
        let fd = unsafe { OwnedFd::from_raw_fd(*number) };
        // Nothing that an exec starts may inherit it.
        // SAFETY: sets a flag on an open descriptor.
        unsafe { libc::fcntl(*number, libc::F_SETFD, libc::FD_CLOEXEC) };
        fd
    });
    Ok(owned.collect())
}

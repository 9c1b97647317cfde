//! Terminals for execs.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Gid, Pid, Uid};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::process::Identity;

/// A new terminal: the side of the supervisor and the side of the exec.
#[derive(Debug)]
pub struct Terminal {
    /// Read for output, written for input.
    pub controller: OwnedFd,
    /// What the exec gets as its standard streams.
    pub peer: OwnedFd,
}

/// Opens a terminal in the file system of this process; its device belongs to `owner`, so that
/// programs can open it by name.
///
/// # Errors
/// There is no `/dev/ptmx`, or no terminal is left.
pub fn open(rows: u16, cols: u16, owner: Identity) -> io::Result<Terminal> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let controller = rustix::fs::open("/dev/ptmx", flags, Mode::empty())?;
    unlockpt(&controller)?;
    let peer = ioctl_tiocgptpeer(
        &controller,
        OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC,
    )?;
    rustix::fs::fchown(&peer, Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)))?;
    let terminal = Terminal { controller, peer };
    resize(rustix::fd::AsFd::as_fd(&terminal.controller), rows, cols)?;
    Ok(terminal)
}

/// The process group in the foreground of a terminal; `None` when it has none.
#[must_use]
pub fn foreground(controller: BorrowedFd<'_>) -> Option<Pid> {
    rustix::termios::tcgetpgrp(controller).ok()
}

/// Changes a terminal's size; its foreground processes get SIGWINCH.
///
/// # Errors
/// The descriptor is no terminal.
pub fn resize(terminal: BorrowedFd<'_>, rows: u16, cols: u16) -> io::Result<()> {
    let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
}

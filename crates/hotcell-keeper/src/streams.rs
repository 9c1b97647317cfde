//! The standard streams of a process that belongs to nobody.

use std::io;

use rustix::fs::{Mode, OFlags};

/// Puts nothing in the place of the standard streams.
///
/// # Errors
/// There is no `/dev/null`.
pub fn let_go_of_streams() -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

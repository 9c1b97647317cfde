//! Starting keepers: an order on their standard input, one line back.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hotcell_jail::host::close_inherited;
use hotcell_jail::signals::use_defaults;
use hotcell_jail::{Forked, fork};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::let_go_of_streams;

/// How often a program that is still being written is tried, and how long apart.
const TRIES: u32 = 50;
const APART: Duration = Duration::from_millis(2);

/// Starts a keeper by the command that it is, for a cell with this directory, and waits for its
/// outcome.
///
/// # Errors
/// It cannot be started, or ended without a word.
pub fn order_keeper<Outcome: DeserializeOwned>(
    program: &Path,
    command: &str,
    cell: &Path,
    order: &impl Serialize,
) -> io::Result<Outcome> {
    let mut keeper = start_keeper(program, command, cell)?;
    if let Some(mut stdin) = keeper.stdin.take() {
        stdin.write_all(&serde_json::to_vec(order)?)?;
    }
    // Before its end is waited for: it may have more to say than a pipe holds.
    let mut line = String::new();
    if let Some(stdout) = keeper.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    match keeper.wait() {
        // Whoever started this process made it ignore the end of its children.
        Err(error) if error.raw_os_error() == Some(Errno::CHILD.raw_os_error()) => {}
        waited => drop(waited?),
    }
    if line.is_empty() {
        return Err(io::Error::other("it ended without a word"));
    }
    Ok(serde_json::from_str(&line)?)
}

/// Starts a keeper that reads its order from its standard input. What it says of itself tells which
/// cell is kept and no path.
#[expect(clippy::disallowed_methods, reason = "keepers are processes of their own")]
fn start_keeper(program: &Path, command: &str, cell: &Path) -> io::Result<Child> {
    let mut keeper = Command::new(program);
    keeper
        .arg0("hotcell")
        .arg(command)
        .arg(cell.file_name().unwrap_or_default())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    for _ in 1..TRIES {
        match keeper.spawn() {
            // Another thread has just started a process, which for a moment has the copy open
            // for writing as this one had.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(APART);
            }
            started => return started,
        }
    }
    keeper.spawn()
}

/// The first step of a keeper: it has nothing of whoever ordered it but its order.
///
/// # Errors
/// There is none.
pub fn take_order<Order: DeserializeOwned>() -> io::Result<Order> {
    close_inherited()?;
    use_defaults();
    // That of the file would not tell it from a supervisor.
    let _ = rustix::thread::set_name(c"hotcell-keeper");
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

/// Whether the process that sent the order is still connected.
#[must_use]
pub fn is_awaited() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    poll(&mut fds, Some(&now)).is_err() || !fds[0].revents().intersects(gone)
}

/// On which side of a fork a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The keeper, which goes on.
    Keeper,
    /// What whoever ordered it waits for; it ends at once.
    Starter,
}

/// The second step: whoever ordered it collects the first process at once; the second has no parent
/// that minds, a session of its own, and keeps no directory from being removed.
///
/// # Errors
/// There can be no other process.
pub fn belong_to_nobody() -> io::Result<Side> {
    match fork()? {
        Forked::Child => {}
        Forked::Parent { .. } => return Ok(Side::Starter),
    }
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    Ok(Side::Keeper)
}

/// Says how it went, and lets go of whoever ordered it.
///
/// # Errors
/// The standard streams cannot be let go of.
pub fn answer_order(outcome: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(outcome)?;
    line.push(b'\n');
    // A driver that is gone is found out by the next one that connects.
    let _ = io::stdout().write_all(&line).and_then(|()| io::stdout().flush());
    let_go_of_streams()
}

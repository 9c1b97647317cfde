//! Ending the processes of a cell that no namespace holds together.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use hotcell_jail::proctree;
use hotcell_jail::signals::{send, send_by_pidfd};
use hotcell_link::CELL_VARIABLE;
use hotcell_model::CellId;
use rustix::process::{Pid, PidfdFlags, WaitOptions, getpid, pidfd_open, wait};

/// How often it is looked whether all are gone that were killed, and how long apart.
const LOOKS: u32 = 400;
const APART: Duration = Duration::from_millis(5);
const STOP: i32 = 19;
const KILL: i32 = 9;

/// Ends everything below a supervisor that lives. It is held still meanwhile, so that it starts
/// nothing more.
pub(crate) fn end_below(supervisor: Pid) -> io::Result<()> {
    send(supervisor, STOP)?;
    for _ in 0..LOOKS {
        if proctree::kill_descendants(supervisor)? == 0 {
            return Ok(());
        }
        std::thread::sleep(APART);
    }
    Ok(())
}

/// Ends what a supervisor that is gone has left behind: whatever has come to this process, which is
/// the subreaper above it, and whatever still says that it is of the cell.
pub(crate) fn end_of(cell: &CellId) -> io::Result<()> {
    for _ in 0..LOOKS {
        let below = proctree::kill_descendants(getpid())?;
        let marked = marked(cell);
        for pid in &marked {
            kill_marked(*pid, cell);
        }
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        if below == 0 && marked.is_empty() {
            return Ok(());
        }
        std::thread::sleep(APART);
    }
    Err(io::Error::other("processes of the cell do not end"))
}

/// Processes with the cell's name among the variables they were started with.
fn marked(cell: &CellId) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| is_marked(*pid, cell)).collect()
}

fn is_marked(pid: i32, cell: &CellId) -> bool {
    let mark = format!("{CELL_VARIABLE}={cell}");
    // What is another user's cannot be read, and is none of them.
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}

fn kill_marked(pid: i32, cell: &CellId) {
    let Some(Ok(pidfd)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return;
    };
    // Looked at again: only now the number is bound to the process. One that is gone is gone.
    if is_marked(pid, cell) {
        let _ = send_by_pidfd(pidfd.as_fd(), KILL);
    }
}

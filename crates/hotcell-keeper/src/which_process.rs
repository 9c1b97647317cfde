//! A process, as it is written down.

use std::io;
use std::path::Path;

use hotcell_place::{read_json, write_json};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

/// Which process one is, a supervisor mostly: the pid alone could be another one's by now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhichProcess {
    pid: i32,
    start_time: u64,
    boot: String,
}

impl WhichProcess {
    /// A process that lives.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn of(pid: Pid) -> io::Result<Self> {
        let pid = pid.as_raw_nonzero().get();
        Ok(Self { pid, start_time: start_time(pid)?, boot: boot_id()? })
    }

    /// Writes it down.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save_to(&self, file: &Path) -> io::Result<()> {
        write_json(file, self)
    }

    /// The live process that a file names.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn find_in(file: &Path) -> io::Result<Option<Pid>> {
        let saved: Option<Self> = read_json(file)?;
        Ok(saved.filter(Self::is_alive).and_then(|saved| Pid::from_raw(saved.pid)))
    }

    /// Whether it lives.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot)
            && start_time(self.pid).is_ok_and(|start| start == self.start_time)
    }
}

fn boot_id() -> io::Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim().to_owned())
}

/// When a process was started, in ticks since boot; with the pid and the boot it names a process
/// for ever.
fn start_time(pid: i32) -> io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    let ticks = fields.split_ascii_whitespace().nth(19).and_then(|field| field.parse().ok());
    ticks.ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat cannot be read")))
}

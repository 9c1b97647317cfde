//! Starting keepers.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How often a program that is still being written is tried, and how long apart.
const TRIES: u32 = 50;
const APART: Duration = Duration::from_millis(2);

/// Starts a keeper that reads its order from its standard input. What it says of itself tells which
/// cell is kept and no path.
#[expect(clippy::disallowed_methods, reason = "keepers are processes of their own")]
pub(crate) fn start_keeper(program: &Path, cell: &Path) -> io::Result<Child> {
    let mut keeper = Command::new(program);
    keeper
        .arg0("hotcell")
        .arg("keep")
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

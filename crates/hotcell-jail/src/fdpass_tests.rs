//! Who is at the other end of a socket, of real processes.
#![expect(clippy::disallowed_methods, reason = "a test starts programs")]

use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};

use super::*;

#[test]
fn whoever_connected_is_known_and_its_end_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();

    let _ours = UnixStream::connect(&path).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    let (pid, process) = connected_by(accepted.as_fd()).unwrap();
    assert_eq!(pid, rustix::process::getpid());
    assert!(!has_ended(process.as_fd()));

    let script = "import socket, sys\none = socket.socket(socket.AF_UNIX)\none.connect(sys.argv[1])\ninput()";
    let mut child = Command::new("python3")
        .args(["-c", script])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let (accepted, _) = listener.accept().unwrap();
    let (pid, process) = connected_by(accepted.as_fd()).unwrap();
    assert_eq!(pid, Pid::from_child(&child));
    assert!(!has_ended(process.as_fd()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(has_ended(process.as_fd()));
    // Asked again, the kernel has no process that runs for it.
    let again = connected_by(accepted.as_fd());
    assert!(again.is_err() || again.is_ok_and(|(_, process)| has_ended(process.as_fd())));
}

//! Real programs that read, compute, sleep and wait for something else.
#![expect(clippy::disallowed_methods, reason = "a test starts programs")]

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::*;
use crate::process::{Groups, Identity};
use crate::pty;

/// A program that is killed at the end of its test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process_group(
            Pid::from_child(&self.0),
            rustix::process::Signal::KILL,
        );
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn own() -> Identity {
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    Identity { uid: uid.as_raw(), gid: gid.as_raw(), groups: Groups::Kept }
}

/// A program in a terminal, as its foreground.
fn in_terminal(argv: &[&str]) -> (Program, OwnedFd) {
    let terminal = pty::open(24, 80, own()).unwrap();
    let peer = || Stdio::from(terminal.peer.try_clone().unwrap());
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]).stdin(peer()).stdout(peer()).stderr(peer());
    // SAFETY: two system calls that are allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            Ok(())
        });
    }
    (Program(command.spawn().unwrap()), terminal.controller)
}

/// A program whose standard input is a pipe.
fn with_pipe(argv: &[&str]) -> (Program, std::process::ChildStdin) {
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
    let mut child = command.spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    (Program(child), stdin)
}

/// Looks until the answer is this one. It fails by running into the time limit of tests.
fn until(state: InputState, mut look: impl FnMut() -> InputLook) -> InputLook {
    loop {
        let seen = look();
        if seen.state == state {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Looks until twenty answers in a row are this one, as they are once a program has begun.
fn stays(state: InputState, mut look: impl FnMut() -> InputLook) {
    let mut in_a_row = 0;
    while in_a_row < 20 {
        in_a_row = if look().state == state { in_a_row + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Like [`stays`], and waiting is never the answer, not even while the program begins.
fn never_waits(state: InputState, mut look: impl FnMut() -> InputLook) {
    stays(state, || {
        let seen = look();
        assert_ne!(seen.state, InputState::Waiting);
        seen
    });
}

const READS: [&str; 5] = [
    "import os; os.read(0, 1)",
    "import select; select.select([0], [], [])",
    "import select; p = select.poll(); p.register(0, select.POLLIN); p.poll()",
    "import select; p = select.epoll(); p.register(0, select.EPOLLIN); p.poll()",
    "import os, threading; threading.Thread(target=lambda: os.read(0, 1)).start()",
];

#[test]
fn every_way_of_waiting_for_a_pipe_is_seen() {
    for code in READS {
        let (program, stdin) = with_pipe(&["python3", "-c", code]);
        stays(InputState::Waiting, || look_at_pipe(stdin.as_fd(), Pid::from_child(&program.0)));
    }
}

#[test]
fn every_way_of_waiting_for_a_terminal_is_seen() {
    for code in READS {
        let (_program, terminal) = in_terminal(&["python3", "-c", code]);
        stays(InputState::Waiting, || look_at_terminal(terminal.as_fd()));
    }
    let (_program, terminal) = in_terminal(&["python3", "-c", "open('/dev/tty').read(1)"]);
    stays(InputState::Waiting, || look_at_terminal(terminal.as_fd()));
}

#[test]
fn what_waits_for_something_else_is_not_waiting_for_input() {
    let others = [
        "import time; time.sleep(1000)",
        "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); s.accept()",
        "import socket; a, b = socket.socketpair(); a.recv(1)",
        "import os; r, w = os.pipe(); os.read(r, 1)",
        "import select, os; r, w = os.pipe(); select.select([r], [0], [], 1000)\nos.read(r, 1)",
        "import subprocess; subprocess.run(['sleep', '1000'])",
    ];
    for code in others {
        let (program, stdin) = with_pipe(&["python3", "-c", code]);
        never_waits(InputState::Blocked, || {
            look_at_pipe(stdin.as_fd(), Pid::from_child(&program.0))
        });
        let (_program, terminal) = in_terminal(&["python3", "-c", code]);
        never_waits(InputState::Blocked, || look_at_terminal(terminal.as_fd()));
    }
}

#[test]
fn what_computes_is_running_even_if_another_thread_reads() {
    let codes = [
        "while True: pass",
        "import os, threading\nthreading.Thread(target=lambda: os.read(0, 1)).start()\nwhile True: pass",
    ];
    for code in codes {
        let (program, stdin) = with_pipe(&["python3", "-c", code]);
        until(InputState::Running, || look_at_pipe(stdin.as_fd(), Pid::from_child(&program.0)));
        let (_program, terminal) = in_terminal(&["python3", "-c", code]);
        until(InputState::Running, || look_at_terminal(terminal.as_fd()));
    }
}

#[test]
fn input_that_was_not_read_yet_is_not_waited_for() {
    let (program, mut stdin) = with_pipe(&["sleep", "1000"]);
    let look =
        |stdin: &std::process::ChildStdin| look_at_pipe(stdin.as_fd(), Pid::from_child(&program.0));
    until(InputState::Blocked, || look(&stdin));
    stdin.write_all(b"x").unwrap();
    assert_eq!(look(&stdin), InputLook::unread());

    let (_program, terminal) = in_terminal(&["sleep", "1000"]);
    until(InputState::Blocked, || look_at_terminal(terminal.as_fd()));
    rustix::io::write(&terminal, b"part of a line").unwrap();
    rustix::io::write(&terminal, b"\n").unwrap();
    let seen = until(InputState::Running, || look_at_terminal(terminal.as_fd()));
    assert!(seen.unread);
}

#[test]
fn the_mark_tells_one_wait_from_the_next() {
    let (_program, terminal) = in_terminal(&["cat"]);
    let first = until(InputState::Waiting, || look_at_terminal(terminal.as_fd()));
    assert_eq!(look_at_terminal(terminal.as_fd()), first);
    rustix::io::write(&terminal, b"line\n").unwrap();
    let second = loop {
        let seen = until(InputState::Waiting, || look_at_terminal(terminal.as_fd()));
        if seen.mark != first.mark {
            break seen;
        }
    };
    assert_eq!(second.mark >> 40, first.mark >> 40);
}

#[test]
fn a_wait_with_a_time_limit_is_told_from_one_without() {
    let calls = [
        "select.select([0], [], [], LIMIT)",
        "p = select.poll(); p.register(0, select.POLLIN); p.poll(LIMIT)",
        "p = select.epoll(); p.register(0, select.EPOLLIN); p.poll(LIMIT)",
    ];
    for (limit, timed) in [("1000", true), ("None", false)] {
        for call in calls {
            let code = format!("import select; {}", call.replace("LIMIT", limit));
            let (_program, terminal) = in_terminal(&["python3", "-c", &code]);
            let seen = until(InputState::Waiting, || look_at_terminal(terminal.as_fd()));
            assert_eq!(seen.timed, timed, "{code}");
        }
    }
}

#[test]
fn only_the_foreground_of_a_terminal_counts() {
    // What runs in the background ends with its shell.
    let script = "set -m; cat </dev/null; (while kill -0 $$; do sleep 0.1; done) & wait";
    let (_program, terminal) = in_terminal(&["bash", "-c", script]);
    never_waits(InputState::Blocked, || look_at_terminal(terminal.as_fd()));
    let script = "set -m; (while kill -0 $$; do :; done) & read -r line";
    let (_program, terminal) = in_terminal(&["bash", "-c", script]);
    stays(InputState::Waiting, || look_at_terminal(terminal.as_fd()));
}

#[test]
fn nothing_is_said_of_a_terminal_without_a_foreground() {
    let terminal = pty::open(24, 80, own()).unwrap();
    assert_eq!(look_at_terminal(terminal.controller.as_fd()).state, InputState::Unknown);
    let file = File::open("/dev/null").unwrap();
    assert_eq!(look_at_terminal(file.as_fd()).state, InputState::Unknown);
}

#[test]
fn calls_and_watched_descriptors_are_parsed() {
    let call = Call::parse("0 0x3 0x7ffd 0x400 0x0 0x0 0x0 0x7ffc 0x7f83\n").unwrap();
    assert_eq!(call.descriptor(0), 3);
    assert!(Call::parse("-1 0x7ffc 0x7f83\n").is_none());
    assert!(Call::parse("").is_none());
    assert_eq!(watched_for_reading("tfd:        5 events:       19 data: 5  pos:0"), Some(5));
    assert_eq!(watched_for_reading("tfd:        5 events:        4 data: 5"), None);
    assert_eq!(watched_for_reading("pos:\t0"), None);
}

//! A cell's pid 1 as an attacker would write it, for end-to-end tests: it runs in the place of the copy
//! of `hotcell` that cells are started from, and attacks by its records and its link.
//!
//! The name of the cell selects the attack, `honest` none of them. `forge.EXEC` is about an exec of
//! another cell. `climb` reports as the exit code of its exec how many directories it found above that
//! of its records.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;
use std::thread;

use hotcell_jail::host::inherited_fds;
use hotcell_jail::process::{Confinement, Readiness};
use hotcell_journal::{Entry, JournalWriter};
use hotcell_link::{FrameKind, Peer, Plan, Tell};
use hotcell_model::{Command, EndCause, ExecEnd, ExecId, Timestamp};
use rustix::fs::{FileType, Mode, OFlags, fstat, ftruncate, mkdirat, mknodat, openat, symlinkat};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("keep") => hotcell_native::keep(attack),
        Some(_) | None => ExitCode::FAILURE,
    }
}

fn attack(plan: Plan) -> io::Result<()> {
    let name = plan.spec.alias.as_ref().map(ToString::to_string).unwrap_or_default();
    let (attack, about) = name.split_once('.').unwrap_or((&name, ""));
    if attack == "honest" {
        return hotcell_supervisor::supervise(plan);
    }
    let numbers = [plan.fds.listener, plan.fds.records, plan.fds.ready];
    let [listener, records, ready]: [OwnedFd; 3] = inherited_fds(&numbers)?
        .try_into()
        .map_err(|_| io::Error::other("a descriptor is missing"))?;
    write_records(&records, attack, about)?;
    let word: Readiness = Ok(Confinement::expected());
    rustix::io::write(&ready, &serde_json::to_vec(&word)?)?;
    drop(ready);
    serve(&UnixListener::from(listener), attack)
}

fn write_records(records: &OwnedFd, attack: &str, about: &str) -> io::Result<()> {
    if let Some(trap) = attack.strip_prefix("journal-") {
        return lay(records, "journal", trap);
    }
    let (mut journal, _) = JournalWriter::open(records.as_fd()).map_err(io::Error::other)?;
    let at = Timestamp::now();
    journal.append(&Entry::Opened { at, boot: "boot".to_owned(), software: "hostile".to_owned() });
    let number =
        attack.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let own = ExecId::from_random(number);
    let other = about.parse::<ExecId>().ok();
    let code = if attack == "climb" { climb(records)? } else { 77 };
    for exec in other.iter().chain([&own]) {
        journal.append(&Entry::Queued {
            exec: exec.clone(),
            command: Command::Shell("forged".to_owned()),
            pty: false,
            as_root: false,
            keep_s: None,
            at,
        });
        let end = ExecEnd {
            exit_code: Some(code),
            ..ExecEnd::without_process(EndCause::Exited, Timestamp::now())
        };
        journal.append(&Entry::Ended { exec: exec.clone(), end });
    }
    match attack.strip_prefix("log-") {
        Some(trap) => {
            mkdirat(records, "log", Mode::RWXU)?;
            lay(records, &format!("log/{own}.{:020}", 1), trap)
        }
        None => Ok(()),
    }
}

/// Goes up as far as it gets.
fn climb(records: &OwnedFd) -> io::Result<i32> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(records, ".", flags, Mode::empty())?;
    let mut levels = 0;
    while let Ok(above) = openat(&at, "..", flags, Mode::empty()) {
        let (here, there) = (fstat(&at)?, fstat(&above)?);
        if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino) {
            break;
        }
        (at, levels) = (above, levels + 1);
    }
    Ok(levels)
}

/// Puts something else in the place of a file that the host reads.
fn lay(records: &OwnedFd, name: &str, trap: &str) -> io::Result<()> {
    const FILE: Mode = Mode::RUSR.union(Mode::WUSR);
    let sized = |bytes: u64| {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        ftruncate(openat(records, name, flags, FILE)?, bytes)
    };
    match trap {
        "fifo" => mknodat(records, name, FileType::Fifo, FILE, 0)?,
        "link" => symlinkat("/etc/shadow", records, name)?,
        "directory" => mkdirat(records, name, Mode::RWXU)?,
        "sparse" => sized(1 << 40)?,
        // One line without an end, in a file that is not too long to be a journal.
        "endless" => sized(1 << 30)?,
        other => return Err(io::Error::other(format!("no such attack: {other}"))),
    }
    Ok(())
}

fn serve(listener: &UnixListener, attack: &str) -> io::Result<()> {
    listener.set_nonblocking(false)?;
    loop {
        let (stream, _) = listener.accept()?;
        match attack {
            "silent" => hold(stream, greet),
            "garbage" => hold(stream, |stream, _| stream.write_all(&[0x5a; 64 * 1024])),
            "oversized" => hold(stream, |stream, _| stream.write_all(&[0xff; 14])),
            "babble" => {
                thread::spawn(move || babble(stream));
            }
            // Those that attack by their records drop every connection.
            _ => {}
        }
    }
}

fn greet(stream: &mut UnixStream, peer: &mut Peer) -> io::Result<()> {
    stream.write_all(peer.unsent())?;
    peer.mark_sent(peer.unsent().len());
    Ok(())
}

/// Says something, and then reads without an answer.
fn hold(
    mut stream: UnixStream,
    say: impl FnOnce(&mut UnixStream, &mut Peer) -> io::Result<()> + Send + 'static,
) {
    thread::spawn(move || {
        say(&mut stream, &mut Peer::new())?;
        io::copy(&mut stream, &mut io::sink())
    });
}

/// Answers everything but what it was asked.
fn babble(mut stream: UnixStream) -> io::Result<()> {
    let mut peer = Peer::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        greet(&mut stream, &mut peer)?;
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        peer.receive(&buffer[..length]);
        while let Some(frame) = peer.next_frame().map_err(io::Error::other)? {
            let end = ExecEnd::without_process(EndCause::Exited, Timestamp::now());
            for channel in [frame.channel.wrapping_add(1), frame.channel.wrapping_add(2)] {
                peer.send(FrameKind::Tell, channel, &Tell::Done);
                peer.send(FrameKind::Ended, channel, &end);
            }
            peer.send(FrameKind::Ended, frame.channel, &end);
        }
    }
}

//! A terminal for the program under test, seen from the side where a person types.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use super::{Finished, Invocation, Live, eventually};

/// A terminal in which a program runs.
#[derive(Debug)]
pub(crate) struct Terminal {
    controller: Arc<File>,
    peer: OwnedFd,
    screen: Arc<Mutex<Vec<u8>>>,
    program: Live,
}

impl Terminal {
    /// Starts `setsid --ctty --wait` with the program in its arguments in a new terminal.
    pub(crate) fn run(setsid: Invocation, rows: u16, cols: u16) -> Self {
        let controller =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let peer = rustix::fs::open(name, flags, Mode::empty()).unwrap();
        tcsetwinsize(&peer, winsize(rows, cols)).unwrap();
        let streams = [(); 3].map(|()| peer.try_clone().unwrap());
        let program = setsid.start_on(streams);

        let controller = Arc::new(File::from(controller));
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (source, sink) = (Arc::downgrade(&controller), Arc::clone(&screen));
        std::thread::spawn(move || {
            // Nothing is held while it waits: a terminal that is dropped hangs up.
            while let Some(Ok(1..)) = source.upgrade().map(|source| read_some(&source, &sink)) {}
        });
        Self { controller, peer, screen, program }
    }

    /// What was shown so far.
    pub(crate) fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    /// Waits until this is shown.
    #[track_caller]
    pub(crate) fn await_text(&self, text: &str) {
        let what = format!("the terminal shows {text:?}");
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(&what, || self.screen().contains(text));
        }));
        assert!(seen.is_ok(), "{what}; it shows {:?}", self.screen());
    }

    /// Types.
    pub(crate) fn keys(&mut self, keys: &str) {
        (&*self.controller).write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&self, rows: u16, cols: u16) {
        tcsetwinsize(&self.peer, winsize(rows, cols)).unwrap();
    }

    /// Whether the terminal gives lines and echoes, as a shell expects to find it.
    pub(crate) fn is_cooked(&self) -> bool {
        use rustix::termios::LocalModes;
        let modes = tcgetattr(&self.peer).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Takes the terminal away from the program, which goes on.
    pub(crate) fn hang_up(self) -> Live {
        drop((self.controller, self.peer));
        self.program
    }

    /// Waits for the end of the program.
    #[track_caller]
    pub(crate) fn finish(self) -> Finished {
        let program = self.program;
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| program.finish()));
        let shown = String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned();
        ended.unwrap_or_else(|_| panic!("the terminal shows {shown:?}"))
    }
}

/// Adds what is there to the screen; an error at the end.
fn read_some(source: &File, screen: &Mutex<Vec<u8>>) -> std::io::Result<usize> {
    let mut fds = [PollFd::new(source, PollFlags::IN)];
    let soon = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    if poll(&mut fds, Some(&soon))? == 0 {
        return Ok(1);
    }
    let mut buffer = [0; 4096];
    let count = (&*source).read(&mut buffer)?;
    screen.lock().unwrap().extend_from_slice(&buffer[..count]);
    Ok(count)
}

fn winsize(rows: u16, cols: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 }
}

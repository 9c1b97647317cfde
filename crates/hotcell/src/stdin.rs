//! Our standard input, read on a thread of its own, and the keys that leave an exec.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use tokio::sync::mpsc;

const READ_BYTES: usize = 32 * 1024;

/// What is read of our standard input, one piece after another; the end is the end of file.
///
/// The reading thread ends with the process: a read cannot be taken back.
///
/// # Errors
/// When a descriptor or a thread cannot be had.
pub(crate) fn pieces() -> io::Result<mpsc::Receiver<Vec<u8>>> {
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (sender, receiver) = mpsc::channel(1);
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match input.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => {
                    if sender.blocking_send(buffer[..count].to_vec()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::debug!(%error, "standard input ended with an error");
                    return;
                }
            }
        }
    })?;
    Ok(receiver)
}

/// Finds ctrl-p ctrl-q in what is typed.
#[derive(Debug, Default)]
pub(crate) struct LeaveKeys {
    held: bool,
}

/// What typed bytes come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// These bytes are for the exec.
    Input(Vec<u8>),
    /// These bytes are for the exec, and then the person leaves.
    Leave(Vec<u8>),
}

const CTRL_P: u8 = 0x10;
const CTRL_Q: u8 = 0x11;

impl LeaveKeys {
    /// Takes what was typed. A ctrl-p is held back until the key after it is known.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Typed {
        let mut passed = Vec::with_capacity(bytes.len() + 1);
        for &byte in bytes {
            match (self.held, byte) {
                (true, CTRL_Q) => return Typed::Leave(passed),
                // Of two ctrl-p the second may still begin the pair.
                (true, CTRL_P) => passed.push(CTRL_P),
                (true, other) => {
                    self.held = false;
                    passed.extend([CTRL_P, other]);
                }
                (false, CTRL_P) => self.held = true,
                (false, other) => passed.push(other),
            }
        }
        Typed::Input(passed)
    }
}

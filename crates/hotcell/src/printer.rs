//! Writes output on a thread of its own, so that a slow reader never keeps signals waiting.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use tokio::sync::{mpsc, oneshot};

/// Pieces of output on their way; each is at most one record.
const IN_FLIGHT: usize = 32;

/// Where a piece of output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Our standard output.
    Out,
    /// Our standard error.
    Err,
}

/// A piece of output.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Where it goes.
    pub(crate) target: Target,
    /// What it is.
    pub(crate) bytes: Vec<u8>,
}

/// The two ends of a printer: pieces go in, and at the end or at the first failure of standard
/// output one result comes out.
#[derive(Debug)]
pub(crate) struct Printer {
    /// Takes pieces; dropped, the printer finishes.
    pub(crate) pieces: mpsc::Sender<Piece>,
    /// How it went.
    pub(crate) done: oneshot::Receiver<io::Result<()>>,
}

impl Printer {
    /// Starts a printer on our standard output and standard error.
    ///
    /// # Errors
    /// When a descriptor or a thread cannot be had.
    pub(crate) fn start() -> io::Result<Self> {
        // Descriptors of its own: the buffers of the standard library write line by line.
        let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let err = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        Self::start_on(out, err)
    }

    /// Starts a printer on these files.
    ///
    /// # Errors
    /// When a thread cannot be had.
    pub(crate) fn start_on(out: File, err: File) -> io::Result<Self> {
        let (pieces, incoming) = mpsc::channel(IN_FLIGHT);
        let (finished, done) = oneshot::channel();
        std::thread::Builder::new().name("printer".to_owned()).spawn(move || {
            // Nobody waits any more when the process is about to end.
            let _ = finished.send(write_all(incoming, out, err));
        })?;
        Ok(Self { pieces, done })
    }
}

fn write_all(mut incoming: mpsc::Receiver<Piece>, mut out: File, mut err: File) -> io::Result<()> {
    while let Some(piece) = incoming.blocking_recv() {
        match piece.target {
            Target::Out => out.write_all(&piece.bytes)?,
            Target::Err => {
                // Whoever closed standard error does not want to know; output goes on.
                let _ = err.write_all(&piece.bytes);
            }
        }
    }
    Ok(())
}

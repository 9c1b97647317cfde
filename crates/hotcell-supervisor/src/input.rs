//! What goes into an exec: bytes that wait until its pipe or terminal takes them.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

/// What the bytes go into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sink {
    /// A pipe, whose end is its closing.
    Pipe,
    /// A terminal, whose end is a character.
    Terminal,
}

/// The character that means end of file on a terminal.
const END_OF_TRANSMISSION: u8 = 4;

/// Whom to tell that bytes were taken: a connection and its channel.
pub(crate) type Asker = (u64, u32);

#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    written: usize,
    end: bool,
    asker: Option<Asker>,
}

/// The way into an exec.
#[derive(Debug)]
pub(crate) struct Input {
    fd: Option<OwnedFd>,
    sink: Sink,
    chunks: VecDeque<Chunk>,
}

/// Why bytes were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The exec has closed its end, or end of file was sent before.
    Closed,
}

impl Input {
    /// A way in that does not block.
    pub(crate) fn new(fd: OwnedFd, sink: Sink) -> Self {
        Self { fd: Some(fd), sink, chunks: VecDeque::new() }
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Whether bytes wait for the exec to read.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// Adds bytes, and the end of input after them if `end`.
    pub(crate) fn push(
        &mut self,
        bytes: Vec<u8>,
        end: bool,
        asker: Option<Asker>,
    ) -> Result<(), Refusal> {
        if self.fd.is_none() || self.chunks.iter().any(|chunk| chunk.end && self.sink == Sink::Pipe)
        {
            return Err(Refusal::Closed);
        }
        let mut bytes = bytes;
        if end && self.sink == Sink::Terminal {
            bytes.push(END_OF_TRANSMISSION);
        }
        self.chunks.push_back(Chunk { bytes, written: 0, end, asker });
        Ok(())
    }

    /// Writes what the exec takes now. Returns those whose bytes were all taken or never will be.
    pub(crate) fn write(&mut self) -> Vec<(Asker, Result<(), Refusal>)> {
        let mut done = Vec::new();
        while let Some(chunk) = self.chunks.front_mut() {
            let Some(fd) = &self.fd else {
                done.extend(self.chunks.drain(..).filter_map(|chunk| chunk.asker).map(refused));
                break;
            };
            if chunk.written < chunk.bytes.len() {
                match rustix::io::write(fd, &chunk.bytes[chunk.written..]) {
                    Ok(length) => chunk.written += length,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    Err(_) => self.fd = None,
                }
                continue;
            }
            let (end, asker) = (chunk.end, chunk.asker);
            self.chunks.pop_front();
            done.extend(asker.map(|asker| (asker, Ok(()))));
            if end && self.sink == Sink::Pipe {
                self.fd = None;
            }
        }
        done
    }

    /// Gives up what was not taken: the exec has ended.
    pub(crate) fn close(&mut self) -> Vec<(Asker, Result<(), Refusal>)> {
        self.fd = None;
        self.write()
    }
}

fn refused(asker: Asker) -> (Asker, Result<(), Refusal>) {
    (asker, Err(Refusal::Closed))
}

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

/// What waits for one exec at most, before more is refused. One question is always taken.
const MOST_WAITING_BYTES: usize = 8 << 20;
/// What is kept for an exec that has no process yet without letting anybody wait.
const KEPT_BYTES: usize = 1 << 20;

#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    written: usize,
    end: bool,
    asker: Option<Asker>,
}

/// Bytes that wait for an exec, in order.
#[derive(Debug)]
pub(crate) struct Backlog {
    sink: Sink,
    chunks: VecDeque<Chunk>,
}

/// The way into an exec.
#[derive(Debug)]
pub(crate) struct Input {
    fd: Option<OwnedFd>,
    backlog: Backlog,
}

/// Why bytes were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The exec has closed its end, or end of file was sent before.
    Closed,
    /// Too much waits for the exec to read.
    Full,
}

/// Who learns when that bytes which came before the process are with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// They count as taken.
    Now,
    /// Whoever sent them is told once the process has taken them.
    Later,
}

impl Backlog {
    pub(crate) fn new(sink: Sink) -> Self {
        Self { sink, chunks: VecDeque::new() }
    }

    /// Adds bytes, and the end of input after them if `end`.
    fn push(&mut self, bytes: Vec<u8>, end: bool, asker: Option<Asker>) -> Result<(), Refusal> {
        if self.sink == Sink::Pipe && self.chunks.iter().any(|chunk| chunk.end) {
            return Err(Refusal::Closed);
        }
        if self.bytes() >= MOST_WAITING_BYTES {
            return Err(Refusal::Full);
        }
        let mut bytes = bytes;
        if end && self.sink == Sink::Terminal {
            bytes.push(END_OF_TRANSMISSION);
        }
        self.chunks.push_back(Chunk { bytes, written: 0, end, asker });
        Ok(())
    }

    /// Adds bytes for an exec that has no process yet.
    pub(crate) fn keep(
        &mut self,
        bytes: Vec<u8>,
        end: bool,
        asker: Asker,
    ) -> Result<Kept, Refusal> {
        if self.bytes() + bytes.len() <= KEPT_BYTES {
            return self.push(bytes, end, None).map(|()| Kept::Now);
        }
        self.push(bytes, end, Some(asker)).map(|()| Kept::Later)
    }

    /// Gives everything up; those who still wait to hear of theirs.
    pub(crate) fn refuse_all(&mut self) -> Vec<Answer> {
        self.chunks.drain(..).filter_map(|chunk| chunk.asker).map(refused).collect()
    }

    fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.bytes.len() - chunk.written).sum()
    }
}

/// Whether what an asker sent was taken.
pub(crate) type Answer = (Asker, Result<(), Refusal>);

impl Input {
    /// A way in that does not block.
    pub(crate) fn new(fd: OwnedFd, sink: Sink) -> Self {
        Self { fd: Some(fd), backlog: Backlog::new(sink) }
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Begins with what came before there was a process.
    pub(crate) fn begin_with(&mut self, backlog: Backlog) {
        self.backlog = backlog;
    }

    /// Whether bytes wait for the exec to read.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.backlog.chunks.is_empty()
    }

    /// Adds bytes, and the end of input after them if `end`.
    pub(crate) fn push(
        &mut self,
        bytes: Vec<u8>,
        end: bool,
        asker: Option<Asker>,
    ) -> Result<(), Refusal> {
        if self.fd.is_none() {
            return Err(Refusal::Closed);
        }
        self.backlog.push(bytes, end, asker)
    }

    /// Writes what the exec takes now. Returns those whose bytes were all taken or never will be.
    pub(crate) fn write(&mut self) -> Vec<Answer> {
        let mut done = Vec::new();
        while let Some(chunk) = self.backlog.chunks.front_mut() {
            let Some(fd) = &self.fd else {
                done.extend(self.backlog.refuse_all());
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
            self.backlog.chunks.pop_front();
            done.extend(asker.map(|asker| (asker, Ok(()))));
            if end && self.backlog.sink == Sink::Pipe {
                self.fd = None;
            }
        }
        done
    }

    /// Gives up what was not taken: the exec has ended.
    pub(crate) fn close(&mut self) -> Vec<Answer> {
        self.fd = None;
        self.write()
    }
}

fn refused(asker: Asker) -> Answer {
    (asker, Err(Refusal::Closed))
}

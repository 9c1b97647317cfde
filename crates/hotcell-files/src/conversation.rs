//! One thing that is being done for a caller: content that comes, content that goes.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use hotcell_link::{
    DATA_BYTES, DataHead, FrameKind, MAX_FRAME_BYTES, Tell, UPLOAD_WINDOW, data_cost, frame_start,
};
use hotcell_model::{Error, Result};
use rustix::event::{EventfdFlags, eventfd};
use serde::Serialize;

use crate::fault::cancelled;

/// So much of what was taken is told at once.
const CREDIT_STEP: u32 = UPLOAD_WINDOW / 2;

/// An answer and all that is around it fit into one frame.
const MOST_ANSWER_BYTES: usize = MAX_FRAME_BYTES - 1024;

/// On which no conversation is.
const NO_CHANNEL: u32 = 0;

/// The way out, shared by all that is being done.
#[derive(Debug, Clone)]
pub(crate) struct Out(Arc<Mutex<UnixStream>>);

impl Out {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    /// Says that this process works, and nothing more.
    pub(crate) fn tell_alive(&self) {
        self.send(FrameKind::Credit, NO_CHANNEL, &0_u32, &[]);
    }

    fn send<T: Serialize>(&self, kind: FrameKind, channel: u32, head: &T, blob: &[u8]) {
        // The heads are our own types, whose keys are strings: serialising cannot fail.
        let head = serde_json::to_vec(head).unwrap_or_default();
        self.send_raw(kind, channel, &head, blob);
    }

    fn send_raw(&self, kind: FrameKind, channel: u32, head: &[u8], blob: &[u8]) {
        let start = frame_start(kind, channel, head.len(), blob.len());
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A supervisor that is gone has ended this process too, or is about to.
        let _ = write_parts(&mut stream, [&start, head, blob]);
    }
}

/// Writes one after the other, as much at once as is taken.
fn write_parts(stream: &mut UnixStream, parts: [&[u8]; 3]) -> io::Result<()> {
    let mut slices = parts.map(IoSlice::new);
    let mut left = slices.as_mut_slice();
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match stream.write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What has come for a conversation and what may still go.
#[derive(Debug)]
struct Flow {
    came: VecDeque<Vec<u8>>,
    /// What waits to be taken counts so much.
    waiting: u32,
    /// Whether more came than was allowed.
    overrun: bool,
    /// Whether nothing more comes.
    complete: bool,
    /// What may be sent before the other end has taken something.
    credit: i64,
    /// Whether the caller is no longer interested.
    over: bool,
    /// What is told of that beside those who wait for content.
    bell: Option<OwnedFd>,
}

/// One conversation. Both the thread that reads frames and the one that works have it.
#[derive(Debug)]
pub(crate) struct Conversation {
    channel: u32,
    out: Out,
    flow: Mutex<Flow>,
    moved: Condvar,
}

impl Conversation {
    pub(crate) fn new(channel: u32, window: u32, out: Out) -> Self {
        let flow = Flow {
            came: VecDeque::new(),
            waiting: 0,
            overrun: false,
            complete: false,
            credit: i64::from(window),
            over: false,
            bell: None,
        };
        Self { channel, out, flow: Mutex::new(flow), moved: Condvar::new() }
    }

    /// Takes content that came.
    pub(crate) fn receive(&self, head: DataHead, bytes: Vec<u8>) {
        let mut flow = self.lock();
        if !bytes.is_empty() && !flow.over && !flow.overrun {
            flow.waiting = flow.waiting.saturating_add(data_cost(bytes.len()));
            flow.came.push_back(bytes);
            if flow.waiting > UPLOAD_WINDOW {
                flow.overrun = true;
                flow.came.clear();
            }
        }
        flow.complete |= head.last;
        self.moved.notify_all();
    }

    /// Lets more be sent.
    pub(crate) fn add_credit(&self, bytes: u32) {
        let mut flow = self.lock();
        flow.credit = flow.credit.saturating_add(i64::from(bytes));
        self.moved.notify_all();
    }

    /// The caller is no longer interested.
    pub(crate) fn end(&self) {
        let mut flow = self.lock();
        flow.over = true;
        flow.came.clear();
        if let Some(bell) = &flow.bell {
            // It is full when it has been rung before.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
        self.moved.notify_all();
    }

    /// A descriptor that can be read once the caller is no longer interested.
    pub(crate) fn bell(&self) -> io::Result<OwnedFd> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        self.lock().bell = Some(bell.try_clone()?);
        Ok(bell)
    }

    /// Whether the caller is no longer interested.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// Sends content, waiting while the caller has not taken what was sent before.
    pub(crate) fn send(&self, content: &[u8]) -> io::Result<()> {
        for piece in content.chunks(DATA_BYTES) {
            let mut flow = self.lock();
            while flow.credit <= 0 && !flow.over {
                flow = self.moved.wait(flow).unwrap_or_else(PoisonError::into_inner);
            }
            if flow.over {
                return Err(over());
            }
            flow.credit -= i64::from(data_cost(piece.len()));
            drop(flow);
            self.out.send(FrameKind::Data, self.channel, &DataHead { last: false }, piece);
        }
        Ok(())
    }

    /// The next piece of content that comes; `None` after the last.
    pub(crate) fn next_piece(&self, taken: &mut u32) -> Result<Option<Vec<u8>>> {
        let mut flow = self.lock();
        loop {
            if flow.over {
                return Err(cancelled());
            }
            if flow.overrun {
                return Err(Error::invalid("more content was sent than was asked for")
                    .hint("wait for credit before sending more"));
            }
            if let Some(piece) = flow.came.pop_front() {
                let cost = data_cost(piece.len());
                flow.waiting = flow.waiting.saturating_sub(cost);
                drop(flow);
                *taken += cost;
                if *taken >= CREDIT_STEP {
                    self.out.send(FrameKind::Credit, self.channel, taken, &[]);
                    *taken = 0;
                }
                return Ok(Some(piece));
            }
            if flow.complete {
                return Ok(None);
            }
            flow = self.moved.wait(flow).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// All content that comes, as a reader.
    pub(crate) fn content(&self) -> Content<'_> {
        Content { conversation: self, piece: Vec::new(), at: 0, taken: 0 }
    }

    /// Says what came of it, or that it is over. Nothing can be said after that.
    pub(crate) fn answer(&self, tell: &Tell) {
        if self.is_over() {
            return self.out.send(FrameKind::Tell, self.channel, &Tell::Failed(cancelled()), &[]);
        }
        let told = serde_json::to_vec(tell).unwrap_or_default();
        if told.len() < MOST_ANSWER_BYTES {
            self.out.send_raw(FrameKind::Tell, self.channel, &told, &[]);
        } else {
            let bytes = told.len();
            let error = Error::limit_exceeded(format!(
                "it was done, but what came of it is too long to be told: {bytes} bytes"
            ));
            let tell = Tell::Failed(error.hint("look at what is there, and ask for less at once"));
            self.out.send(FrameKind::Tell, self.channel, &tell, &[]);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for &Conversation {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Content as it comes.
#[derive(Debug)]
pub(crate) struct Content<'a> {
    conversation: &'a Conversation,
    piece: Vec<u8>,
    at: usize,
    taken: u32,
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() {
            match self.conversation.next_piece(&mut self.taken) {
                Ok(Some(piece)) => (self.piece, self.at) = (piece, 0),
                Ok(None) => return Ok(0),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        let length = buffer.len().min(self.piece.len() - self.at);
        buffer[..length].copy_from_slice(&self.piece[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}

/// The caller is no longer interested, as an error of reading or writing.
fn over() -> io::Error {
    io::Error::other(Error::cancelled("the call was cancelled"))
}

//! What comes out of an exec: from its pipes or terminal into its log.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hotcell_journal::OutputLog;
use hotcell_masking::{Masker, Masks};
use hotcell_model::{Stream, Timestamp};
use rustix::io::Errno;

/// Read at once; four records.
pub(crate) const READ_BYTES: usize = 64 * 1024;
/// After this much a pipe is worth more of the kernel's memory.
const BUSY_PIPE_BYTES: u64 = 256 * 1024;
const BUSY_PIPE_SIZE: usize = 1 << 20;
/// Read from one pipe before others get their turn, at most.
const FAIR_SHARE_BYTES: u64 = 1 << 20;

/// How much is read at once of an exec whose log keeps this much: well within what is kept, so that
/// a command which waits for its reader is stopped in time.
pub(crate) fn fair_share(output_bytes: u64) -> u64 {
    (output_bytes / 16).clamp(READ_BYTES as u64, FAIR_SHARE_BYTES)
}

/// One source of output.
#[derive(Debug)]
pub(crate) struct Output {
    fd: OwnedFd,
    stream: Stream,
    seen_bytes: u64,
    masker: Masker,
}

/// Whether more can come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Later.
    Open,
    /// Never.
    Closed,
}

impl Output {
    /// A source that does not block.
    pub(crate) fn new(fd: OwnedFd, stream: Stream) -> Self {
        Self { fd, stream, seen_bytes: 0, masker: Masker::default() }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Moves what is there into the log, up to a fair share.
    pub(crate) fn read(
        &mut self,
        log: &mut OutputLog,
        masks: &Masks,
        buffer: &mut [u8],
        share: u64,
    ) -> Flow {
        let mut taken = 0;
        while taken < share {
            match rustix::io::read(&self.fd, &mut *buffer) {
                Ok(0) => return self.close(log, masks),
                Ok(length) => {
                    self.write(log, masks, &buffer[..length]);
                    taken += length as u64;
                    self.note(length);
                    if length < buffer.len() && self.stream != Stream::Pty {
                        // A pipe that gave less than asked is empty; the next event tells of more.
                        return Flow::Open;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Flow::Open,
                // A terminal says EIO when its last process has closed it.
                Err(_) => return self.close(log, masks),
            }
        }
        Flow::Open
    }

    /// Whether something waits for what comes after it.
    pub(crate) fn holds(&self) -> bool {
        self.masker.holds()
    }

    /// Writes what was held back.
    pub(crate) fn release(&mut self, log: &mut OutputLog, masks: &Masks) {
        if self.masker.holds() {
            log.append(self.stream, Timestamp::now(), &self.masker.release(masks));
        }
    }

    fn close(&mut self, log: &mut OutputLog, masks: &Masks) -> Flow {
        self.release(log, masks);
        Flow::Closed
    }

    fn write(&mut self, log: &mut OutputLog, masks: &Masks, bytes: &[u8]) {
        if masks.is_empty() {
            log.append(self.stream, Timestamp::now(), bytes);
            return;
        }
        let masked = self.masker.take(masks, bytes);
        if !masked.is_empty() {
            log.append(self.stream, Timestamp::now(), &masked);
        }
    }

    /// Moves everything that is there into the log; for the end, when nobody writes any more.
    pub(crate) fn drain(&mut self, log: &mut OutputLog, masks: &Masks, buffer: &mut [u8]) {
        loop {
            match rustix::io::read(&self.fd, &mut *buffer) {
                Ok(length @ 1..) => self.write(log, masks, &buffer[..length]),
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => break,
            }
        }
        self.release(log, masks);
    }

    fn note(&mut self, length: usize) {
        let before = self.seen_bytes;
        self.seen_bytes += length as u64;
        if before < BUSY_PIPE_BYTES
            && self.seen_bytes >= BUSY_PIPE_BYTES
            && self.stream != Stream::Pty
        {
            // Refused where the user's share of pipe memory is used up; it works without.
            let _ = rustix::pipe::fcntl_setpipe_size(&self.fd, BUSY_PIPE_SIZE);
        }
    }
}

//! The journal's writer: one write per entry, and none lost when the disk is full.

use std::collections::HashMap;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hotcell_model::ExecId;
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::disk;
use crate::entry::{self, Entry};
use crate::error::JournalError;
use crate::journal_read::{Extent, FILE_NAME, scan};

/// Space taken ahead of the end, so that entries find room on a disk that others filled.
const RESERVE_BYTES: u64 = 64 * 1024;
/// When less than this is left of the reserve, more is taken.
const RESERVE_LOW_BYTES: u64 = 16 * 1024;
/// What the buffer keeps after a large entry.
const BUFFER_BYTES: usize = 16 * 1024;

/// Writes the journal of a cell; there is one per cell at a time.
#[derive(Debug)]
pub struct JournalWriter {
    file: OwnedFd,
    /// Where the next line goes.
    end: u64,
    /// Up to where space is reserved.
    reserved: u64,
    /// Lines that are not in the file yet; empty but for a disk that refuses them.
    pending: Vec<u8>,
}

impl JournalWriter {
    /// Opens or creates the journal below the records directory and cuts off a torn tail. Returns
    /// also the execs that an earlier supervisor left without an end, in the order in which they
    /// were queued; the caller appends their ends.
    ///
    /// # Errors
    /// The journal cannot be opened, read or cut, or a newer Hotcell wrote it.
    pub fn open(records: BorrowedFd<'_>) -> Result<(Self, Vec<ExecId>), JournalError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(records, FILE_NAME, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| JournalError::Open(errno.into()))?;
        let mut open = HashMap::new();
        let mut queued = 0_u64;
        let seen = scan(file.as_fd(), 0, Extent::All, |entry| match entry {
            Entry::Queued { exec, .. } => {
                queued += 1;
                open.insert(exec, queued);
            }
            Entry::Ended { exec, .. } => {
                open.remove(&exec);
            }
            Entry::Opened { .. }
            | Entry::Awaited { .. }
            | Entry::Answered { .. }
            | Entry::Kept { .. }
            | Entry::Started { .. }
            | Entry::Closed { .. } => {}
        })?;
        if seen.size > seen.end {
            rustix::fs::ftruncate(&file, seen.end)
                .map_err(|errno| JournalError::Cut { at: seen.end, source: errno.into() })?;
        }
        let mut writer = Self { file, end: seen.end, reserved: 0, pending: Vec::new() };
        if seen.end == 0 {
            entry::encode_header(&mut writer.pending);
        }
        writer.reserve();
        writer.flush_pending();
        let mut left: Vec<_> = open.into_iter().collect();
        left.sort_unstable_by_key(|(_, place)| *place);
        Ok((writer, left.into_iter().map(|(exec, _)| exec).collect()))
    }

    /// Appends an entry. It never fails: an entry that the disk refuses stays in memory and is
    /// written before the next one, or by [`JournalWriter::flush_pending`].
    pub fn append(&mut self, entry: &Entry) {
        entry::encode_entry(entry, &mut self.pending);
        self.flush_pending();
    }

    /// Writes what the disk refused before; whether nothing is left.
    pub fn flush_pending(&mut self) -> bool {
        while !self.pending.is_empty() {
            let parts = [IoSlice::new(&self.pending)];
            let written = disk::write_at(self.file.as_fd(), &parts, self.end).unwrap_or(0);
            // Readers may have seen the whole lines, so they stay. A torn rest needs no cutting:
            // the same bytes are written over it next time.
            let whole = memchr::memrchr(b'\n', &self.pending[..written]).map_or(0, |at| at + 1);
            if whole == 0 {
                return false;
            }
            self.end += whole as u64;
            self.pending.drain(..whole);
        }
        self.pending.shrink_to(BUFFER_BYTES);
        if self.reserved.saturating_sub(self.end) < RESERVE_LOW_BYTES {
            self.reserve();
        }
        true
    }

    fn reserve(&mut self) {
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.end, RESERVE_BYTES)
        {
            Ok(()) => self.reserved = self.end + RESERVE_BYTES,
            // Tried again with the next entry.
            Err(Errno::NOSPC | Errno::DQUOT | Errno::INTR | Errno::IO | Errno::FBIG) => {}
            // This file system cannot reserve: there is no use in asking again.
            Err(_) => self.reserved = u64::MAX,
        }
    }
}

//! Whether the end of a file is what it was.
//!
//! Records are appended to. But where a disk was full, the last of them may be written over, and a
//! supervisor that begins cuts off what the one before it did not finish.

use std::io;
use std::os::fd::BorrowedFd;

/// More than one record takes.
const WINDOW: u64 = 32 << 10;

/// The sum of the end of the first `length` bytes of a file; `None` if it has fewer.
pub(crate) fn tail_sum(file: BorrowedFd<'_>, length: u64) -> io::Result<Option<u32>> {
    let begin = length.saturating_sub(WINDOW);
    let mut window = vec![0; usize::try_from(length - begin).unwrap_or(0)];
    let read = read_at(file, &mut window, begin)?;
    Ok((read == window.len()).then(|| crc32fast::hash(&window)))
}

/// Fills a buffer from a place in a file, as far as the file goes.
pub(crate) fn read_at(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(file, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(filled)
}

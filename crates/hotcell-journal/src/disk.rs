//! The one write that a full disk may refuse, so that tests can make it refuse.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

/// Writes at a place in a file; may write less than was given.
pub(crate) fn write_at(
    file: BorrowedFd<'_>,
    parts: &[IoSlice<'_>],
    offset: u64,
) -> Result<usize, Errno> {
    #[cfg(test)]
    if let Some(outcome) = full::write_at(file, parts, offset) {
        return outcome;
    }
    loop {
        match rustix::io::pwritev(file, parts, offset) {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
pub(crate) mod full {
    //! A disk of this thread that takes only so many more bytes.

    use std::cell::Cell;
    use std::io::IoSlice;
    use std::os::fd::BorrowedFd;

    use rustix::io::Errno;

    thread_local! {
        static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
    }

    /// Lets the disk take so many more bytes; none for no bound.
    pub(crate) fn leave(bytes: Option<usize>) {
        LEFT.set(bytes);
    }

    pub(super) fn write_at(
        file: BorrowedFd<'_>,
        parts: &[IoSlice<'_>],
        offset: u64,
    ) -> Option<Result<usize, Errno>> {
        let left = LEFT.get()?;
        let all: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
        let taken = all.len().min(left);
        LEFT.set(Some(left - taken));
        if taken == 0 && !all.is_empty() {
            return Some(Err(Errno::NOSPC));
        }
        Some(rustix::io::pwrite(file, &all[..taken], offset))
    }
}

//! Memory that this process has and no longer needs.

use std::fs;

/// Lets go of the pages of the program's code that were used so far: a start needs many that nothing
/// needs later. What is needed again comes back from the kernel's cache.
pub fn release_code() {
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else { return };
    let Some((start, end)) = maps.lines().find_map(own_code) else { return };
    // SAFETY: the mapping holds this very function and is private, of a file, and not writable: all
    // of its pages are the file's, and the kernel forbids writing to a file that is being run.
    // Reading one after this call reads the same bytes.
    unsafe {
        libc::madvise(
            std::ptr::with_exposed_provenance_mut(start),
            end - start,
            libc::MADV_DONTNEED,
        );
    }
}

/// Keeps up to so many bytes that were freed for what is allocated next. Otherwise each large message
/// is written to pages that the kernel has to find and clear first, which costs as much as all else
/// that is done with it.
pub fn keep_freed(bytes: usize) {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    // SAFETY: both only set a number that the allocator reads.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, bytes);
        libc::mallopt(libc::M_TRIM_THRESHOLD, bytes);
    }
}

/// Where a line of `/proc/self/maps` is about the code that this function is part of.
fn own_code(line: &str) -> Option<(usize, usize)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    let here = release_code as fn() as usize;
    (rest.starts_with("r-xp") && (start..end).contains(&here)).then_some((start, end))
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod memory_tests;

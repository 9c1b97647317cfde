//! What `ps` shows of a process.

use std::ffi::CStr;

/// Gives this process a name of at most 15 bytes, and in place of its command line these words as
/// far as there is room. Anybody who sees the process may read both.
pub fn rename_self(name: &CStr, words: &[&CStr]) {
    // What cannot be renamed keeps the name it was started with.
    let _ = rustix::thread::set_name(name);
    let Some((start, end)) = arguments() else { return };
    // SAFETY: there the kernel put the strings of argv, in writable memory of the stack that stays
    // as long as the process; whoever reads them later finds strings that end, because the last
    // byte stays zero.
    let line = unsafe {
        std::slice::from_raw_parts_mut(
            std::ptr::with_exposed_provenance_mut::<u8>(start),
            end - start,
        )
    };
    line.fill(0);
    let text: Vec<u8> = words.iter().flat_map(|word| word.to_bytes_with_nul()).copied().collect();
    let length = text.len().min(line.len().saturating_sub(1));
    line[..length].copy_from_slice(&text[..length]);
}

/// Where the command line of this process lies.
fn arguments() -> Option<(usize, usize)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Fields 48 and 49; the third is the first after the name, which may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(45);
    let mut next = || fields.next()?.parse::<usize>().ok().filter(|address| *address != 0);
    let (start, end) = (next()?, next()?);
    (start < end).then_some((start, end))
}

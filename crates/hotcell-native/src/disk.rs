//! How much a cell has written.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The bytes that a directory tree takes on disk; files with several names count once. What
/// vanishes meanwhile counts nothing.
pub(crate) fn used_bytes(root: &Path) -> io::Result<u64> {
    let mut total = 0;
    let mut seen: HashSet<u64> = HashSet::new();
    let mut to_visit = vec![root.to_owned()];
    while let Some(directory) = to_visit.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                to_visit.push(entry.path());
            } else if metadata.nlink() > 1 && !seen.insert(metadata.ino()) {
                continue;
            }
            total += metadata.blocks() * 512;
        }
    }
    Ok(total)
}

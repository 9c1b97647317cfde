//! What lies on disk.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};

const BLOCK_BYTES: u64 = 512;

/// What everything below a directory takes, as `du` counts it: blocks, and each file once.
pub(super) fn used(directory: &Path) -> Result<u64> {
    let mut seen = HashSet::new();
    let mut directories = vec![directory.to_owned()];
    let mut bytes = 0;
    while let Some(directory) = directories.pop() {
        let read = || format!("look into {}", directory.display());
        for entry in std::fs::read_dir(&directory).with_context(read)? {
            let entry = entry?;
            // What is removed meanwhile takes nothing.
            let Ok(found) = entry.metadata() else { continue };
            if seen.insert((found.dev(), found.ino())) {
                bytes += found.blocks() * BLOCK_BYTES;
            }
            if found.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    Ok(bytes)
}

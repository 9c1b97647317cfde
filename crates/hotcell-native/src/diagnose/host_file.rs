//! Small files that a kernel or a distribution tells things by, below a root that tests can choose.

use std::path::Path;

/// A file's text; `None` when it is not there or not for us.
pub(super) fn read(host: &Path, file: &str) -> Option<String> {
    let bytes = std::fs::read(host.join(file)).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A file that holds a number and nothing else.
pub(super) fn number(host: &Path, file: &str) -> Option<u64> {
    read(host, file)?.trim().parse().ok()
}

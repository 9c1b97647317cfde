//! A machine of files for tests.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// A root directory with these files.
pub(super) fn machine(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        add(root.path(), path, text);
    }
    root
}

/// One more file.
pub(super) fn add(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

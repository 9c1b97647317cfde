//! A machine of files for tests, and what a trial finds on one.

use std::fs;
use std::path::Path;

use hotcell_jail::probe::{Finding, Named, Refusal, Report};
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

/// What the kernel refused with this error.
pub(super) fn refused(step: &str, errno: i32) -> Finding {
    let said = std::io::Error::from_raw_os_error(errno).to_string();
    Finding::Refused(Refusal { step: step.to_owned(), errno: Some(errno), said })
}

/// Under each name something that works.
fn named(names: &[&str]) -> Vec<Named> {
    names.iter().map(|name| Named { name: (*name).to_owned(), finding: Finding::Works }).collect()
}

/// A machine on which a user can make cells.
pub(super) fn all_works() -> Report {
    Report {
        calls: named(&["clone3", "openat2"]),
        namespaces: named(&["user", "mount", "pid", "network", "ipc", "uts", "cgroup"]),
        id_maps: Finding::Works,
        powers: Finding::Works,
        proc: Finding::Works,
        idmapped_mount: Finding::NotTried("only cells of root need it".to_owned()),
        overlay: Finding::Works,
        root: Finding::Works,
        cgroups: Finding::NotTried("none may be used".to_owned()),
        seccomp: Finding::Works,
    }
}

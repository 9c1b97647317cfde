//! The keeper's part: a cell that never lives, made to find out whether it could.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use hotcell_jail::enter::{Inside, MemoryFiles};
use hotcell_jail::ids::{EXEC_ID, IdLayout, Starter, starter};
use hotcell_jail::probe::{Finding, Refusal, Report, Trial, look};
use hotcell_jail::process::Groups;

use crate::base::{EXEC_DIRECTORIES, host_base, layers, make_uppers};
use crate::driver::CgroupUse;
use crate::id_range;
use crate::isolation::hierarchies;
use crate::removal::remove_files;

/// Enough for a `/tmp` and a `/dev/shm` that nobody uses.
const LITTLE: MemoryFiles = MemoryFiles { bytes: 1 << 20, files: 64 };

/// The ids of a cell that would be made now.
pub(super) fn ids_of(starter: &Starter) -> IdLayout {
    match starter {
        Starter::Root => IdLayout::Private { base: id_range::BEYOND },
        Starter::User { layout, .. } => *layout,
    }
}

/// Tries everything that a cell needs, in a directory that is made for it and removed again.
pub(crate) fn try_out(directory: &Path, bases: &Path, cgroups: CgroupUse) -> io::Result<Report> {
    std::fs::create_dir_all(directory)?;
    let ids = ids_of(&starter());
    for left in directory.parent().map(abandoned).unwrap_or_default() {
        // What stays is removed by the next trial.
        let _ = remove_files(&left, &ids);
    }
    let report = try_in(directory, bases, &ids, cgroups);
    let _ = remove_files(directory, &ids);
    Ok(report)
}

fn try_in(directory: &Path, bases: &Path, ids: &IdLayout, cgroups: CgroupUse) -> Report {
    let prepared = host_base(bases).and_then(|base| {
        let layers = layers(&base, &directory.join("files"), ids);
        make_uppers(&layers, ids).map(|()| layers)
    });
    let groups = if ids.has_root() { Groups::Cleared } else { Groups::Kept };
    let inside = prepared.as_ref().ok().map(|layers| Inside {
        layers,
        id: ids.supervisor_inside(),
        groups,
        exec_id: EXEC_ID,
        exec_directories: &EXEC_DIRECTORIES,
        tmp: LITTLE,
        shm: LITTLE,
        segments_bytes: LITTLE.bytes,
        tools: None,
        trusted: None,
    });
    let hierarchies = hierarchies(cgroups);
    let trial = Trial { directory, ids, inside: inside.as_ref(), hierarchies: &hierarchies };
    let mut report = look(&trial);
    if let Err(error) = &prepared {
        report.root = Finding::Refused(Refusal {
            step: format!("make the cell's directories in {}", directory.display()),
            errno: error.raw_os_error(),
            said: error.to_string(),
        });
    }
    report
}

/// Directories of trials whose process died before it could remove them.
fn abandoned(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let of_a_dead_process = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        let numbers = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let pid = numbers.and_then(|it| it.split('-').next()?.parse::<u32>().ok());
        pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    };
    entries.flatten().filter(of_a_dead_process).map(|entry| entry.path()).collect()
}

const PREFIX: &str = "trial-";

/// Where this process has its next trial made: others may be under way.
pub(super) fn directory(parent: &Path) -> PathBuf {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    parent.join(format!("{PREFIX}{}-{number}", std::process::id()))
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod trial_tests;

//! How many tasks the kernel counts as this user's.

use std::fs;
use std::os::unix::fs::MetadataExt;

use hotcell_jail::process::end_now;
use hotcell_jail::{Forked, fork};
use rustix::process::{Resource, Rlimit, WaitOptions, geteuid, getrlimit, setrlimit, waitpid};

/// More than any kernel has.
const MOST: u32 = 1 << 22;

/// Processes and threads that the user has now, as the kernel counts them against `RLIMIT_NPROC`. In
/// a container these are also those outside of it with the same number, which its `/proc` does not
/// show: so it is tried. This process must have a single thread.
pub(crate) fn tasks_of_user() -> u32 {
    let shown = shown_tasks();
    let before = getrlimit(Resource::Nproc);
    let most = before.maximum.and_then(|most| u32::try_from(most).ok()).unwrap_or(MOST);
    // Where nothing can be started at all, something else is in the way.
    let counted = least(shown, most.saturating_sub(1), |tasks| {
        let one_more = Some(u64::from(tasks) + 1);
        let limit = Rlimit { current: one_more, maximum: before.maximum };
        setrlimit(Resource::Nproc, limit).is_ok() && can_fork()
    });
    let _ = setrlimit(Resource::Nproc, before);
    counted.unwrap_or(shown)
}

/// Those that `/proc` shows.
fn shown_tasks() -> u32 {
    let uid = geteuid().as_raw();
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let tasks = entries.flatten().filter_map(|entry| {
        let is_process = entry.file_name().to_str()?.parse::<u32>().is_ok();
        let is_own = is_process && entry.metadata().ok()?.uid() == uid;
        // Links to a directory: one for itself, one from above, one from each below.
        is_own.then(|| fs::metadata(entry.path().join("task")).map_or(1, |task| task.nlink()))
    });
    u32::try_from(tasks.map(|links| links.saturating_sub(2).max(1)).sum::<u64>())
        .unwrap_or(u32::MAX)
}

fn can_fork() -> bool {
    match fork() {
        Ok(Forked::Child) => end_now(0),
        Ok(Forked::Parent { pid, .. }) => {
            while matches!(waitpid(Some(pid), WaitOptions::empty()), Err(rustix::io::Errno::INTR)) {
            }
            true
        }
        Err(_) => false,
    }
}

/// The least number from `from` to `most` that works, where all above one that works do too.
fn least(from: u32, most: u32, mut works: impl FnMut(u32) -> bool) -> Option<u32> {
    let (mut low, mut high, mut step) = (from, from, 1);
    while !works(high) {
        if high >= most {
            return None;
        }
        low = high + 1;
        high = high.saturating_add(step).min(most);
        step *= 2;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        match works(middle) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Some(high)
}

#[cfg(test)]
#[path = "task_count_tests.rs"]
mod task_count_tests;

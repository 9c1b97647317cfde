//! Processes as the host sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal};

/// Every process of the machine.
pub(super) fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Processes that have a file at or below `path` open, or run a program from there.
pub(crate) fn processes_of(path: &Path) -> Vec<i32> {
    let below =
        |link: fs::DirEntry| fs::read_link(link.path()).is_ok_and(|to| to.starts_with(path));
    let has_open = |pid: &i32| {
        fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|links| links.flatten().any(below))
    };
    let runs = |pid: &i32| {
        fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.starts_with(path))
    };
    all().into_iter().filter(|pid| runs(pid) || has_open(pid)).collect()
}

/// Every process below another one, zombies included. Of a supervisor these are all processes of
/// its cell: whatever loses its parent there becomes its child.
pub(crate) fn descendants(of: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for pid in all() {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = BTreeSet::new();
    let mut to_visit = vec![of];
    while let Some(pid) = to_visit.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if found.insert(*child) {
                to_visit.push(*child);
            }
        }
    }
    found.into_iter().collect()
}

fn parent_of(pid: i32) -> Option<i32> {
    stat_number(pid, 1)
}

/// The leader of the session in which a process is.
pub(crate) fn session_of(pid: i32) -> Option<i32> {
    stat_number(pid, 3)
}

/// The processor time that a process has used, in the kernel's ticks.
pub(crate) fn cpu_ticks(pid: i32) -> i32 {
    stat_number(pid, 11).unwrap() + stat_number(pid, 12).unwrap()
}

/// One of the numbers after a process's name and state.
fn stat_number(pid: i32, place: usize) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(place)?.parse().ok()
}

/// Processes with this word among their arguments, those of `hotcell` itself left out.
pub(crate) fn marked(word: &str) -> Vec<i32> {
    let is_marked = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let program = line.split('\0').next().unwrap_or_default();
        line.contains(word) && !program.ends_with("hotcell")
    };
    all().into_iter().filter(is_marked).collect()
}

/// The letter for what a process does, such as `S`, `T` or `Z`.
pub(crate) fn state_of(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Whether a process is there and not a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    state_of(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// How many descriptors a process has open.
pub(crate) fn fd_count(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// How many queues for changes of files a process has open; none once it is gone.
pub(crate) fn inotify_count(pid: i32) -> usize {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_queue = |link: &fs::DirEntry| {
        fs::read_link(link.path()).is_ok_and(|to| to.to_string_lossy().contains("inotify"))
    };
    links.filter(is_queue).count()
}

/// The most memory that a process has used so far, in KiB; nothing once it is gone.
pub(crate) fn peak_kib(pid: i32) -> u64 {
    memory_kib(pid, "VmHWM:")
}

/// The memory that a process uses, in KiB; nothing once it is gone.
pub(crate) fn resident_kib(pid: i32) -> u64 {
    memory_kib(pid, "VmRSS:")
}

fn memory_kib(pid: i32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, |line| line.trim().trim_end_matches("kB").trim().parse().unwrap())
}

/// Sends a signal to one process.
pub(crate) fn send(pid: i32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Kills a process and waits until it is gone.
pub(crate) fn kill_9(pid: i32) {
    send(pid, Signal::KILL);
    super::eventually("a killed process is gone", || !is_alive(pid));
}

/// A number that no other test uses, beginning with these digits: something that can be told to
/// `sleep` and found again with [`marked`].
pub(crate) fn unique(digits: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{digits}{:07}.{count}", std::process::id())
}

/// Whether a process handles a signal itself.
pub(crate) fn handles(pid: i32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    let mask = u64::from_str_radix(caught.trim(), 16).unwrap_or(0);
    mask & (1 << (signal.as_raw() - 1)) != 0
}

/// Whether signals wait for a process that it has not taken yet.
pub(crate) fn has_pending(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let waiting = |line: &str| {
        let mask = line.strip_prefix("ShdPnd:").or_else(|| line.strip_prefix("SigPnd:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    };
    status.lines().filter_map(waiting).any(|mask| mask != 0)
}

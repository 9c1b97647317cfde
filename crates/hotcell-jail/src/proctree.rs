//! Processes and their parents, read from `/proc`; the way to end a tree where no cgroup helps.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::signals;

/// Passes after which a tree that still grows is given up to the next call.
const MOST_PASSES: usize = 200;
/// How long all processes together may take to stop, and how often it is looked.
const STOP_WITHIN: Duration = Duration::from_millis(500);
const STOP_PAUSE: Duration = Duration::from_micros(500);
/// States of threads that do not run: stopped, traced, ended.
const STILL: &[char] = &['T', 't', 'Z', 'X'];

/// Every process with its parent.
fn parents() -> io::Result<Vec<(i32, i32)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // A process may be gone by now, and then it has no descendants either.
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name in parentheses may hold anything, so fields are counted from its last ')'.
        let Some((_, after_name)) = stat.rsplit_once(')') else { continue };
        let mut fields = after_name.split_ascii_whitespace();
        let state = fields.next();
        let Some(parent) = fields.next().and_then(|field| field.parse().ok()) else { continue };
        if state != Some("Z") {
            found.push((pid, parent));
        }
    }
    Ok(found)
}

/// The processes below some that are known.
#[derive(Debug, Default)]
struct Tree(HashMap<i32, Vec<i32>>);

impl Tree {
    fn read() -> io::Result<Self> {
        let mut tree = Self::default();
        for (pid, parent) in parents()? {
            tree.0.entry(parent).or_default().push(pid);
        }
        Ok(tree)
    }

    /// All below `root` but those that `is_apart` and what is below them.
    fn below(&self, root: Pid, is_apart: impl Fn(i32) -> bool) -> HashSet<i32> {
        let mut found = HashSet::new();
        let mut to_visit = vec![root.as_raw_nonzero().get()];
        while let Some(parent) = to_visit.pop() {
            for child in self.0.get(&parent).into_iter().flatten() {
                if !is_apart(*child) && found.insert(*child) {
                    to_visit.push(*child);
                }
            }
        }
        found
    }
}

/// All live descendants of a process.
///
/// # Errors
/// `/proc` cannot be read.
pub fn descendants(root: Pid) -> io::Result<HashSet<i32>> {
    Ok(Tree::read()?.below(root, |_| false))
}

/// A process's parent, the parent of that, and so on.
///
/// # Errors
/// `/proc` cannot be read.
pub fn ancestors(pid: Pid) -> io::Result<HashSet<Pid>> {
    let parents: HashMap<i32, i32> = parents()?.into_iter().collect();
    let mut found = HashSet::new();
    let mut next = parents.get(&pid.as_raw_nonzero().get());
    while let Some(parent) = next.copied().and_then(Pid::from_raw)
        && found.insert(parent)
    {
        next = parents.get(&parent.as_raw_nonzero().get());
    }
    Ok(found)
}

/// Stops all descendants of a process, every thread of them; those that were not stopped before.
///
/// # Errors
/// `/proc` cannot be read, or one of them does not stop; then all go on.
pub fn stop_descendants(root: Pid) -> io::Result<Vec<i32>> {
    let mut stopped = Vec::new();
    match stop_all(root, &mut stopped) {
        Ok(()) => Ok(stopped),
        Err(error) => {
            go_on(&stopped);
            Err(error)
        }
    }
}

/// A signal is only the beginning of a stop: until some thread takes it, all others go on, and fork.
fn stop_all(root: Pid, stopped: &mut Vec<i32>) -> io::Result<()> {
    let until = Instant::now() + STOP_WITHIN;
    let mut seen = HashSet::new();
    for _ in 0..MOST_PASSES {
        let fresh: Vec<i32> = descendants(root)?.difference(&seen).copied().collect();
        if fresh.is_empty() {
            return Ok(());
        }
        for pid in &fresh {
            if !are_threads(*pid, STILL) && Pid::from_raw(*pid).is_some_and(|pid| stop(pid).is_ok())
            {
                stopped.push(*pid);
            }
        }
        for pid in fresh {
            wait_until_still(pid, until)?;
            seen.insert(pid);
        }
    }
    Err(io::Error::other("the processes grow faster than they can be stopped"))
}

/// Stops a process with all its threads.
///
/// # Errors
/// There is none, or it is not ours.
pub fn stop(pid: Pid) -> io::Result<()> {
    signals::send(pid, libc::SIGSTOP)
}

fn wait_until_still(pid: i32, until: Instant) -> io::Result<()> {
    while !are_threads(pid, STILL) {
        if Instant::now() >= until {
            return stuck_in_kernel(pid);
        }
        std::thread::sleep(STOP_PAUSE);
    }
    Ok(())
}

/// Who waits in the kernel for a child that was stopped before it ran its program stays there.
fn stuck_in_kernel(pid: i32) -> io::Result<()> {
    if are_threads(pid, &[STILL, &['D']].concat()) {
        return Ok(());
    }
    Err(io::Error::other(format!("the process {pid} does not stop")))
}

/// Whether all threads of a process are in one of these states, or it is gone.
fn are_threads(pid: i32, states: &[char]) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    threads.into_iter().flatten().flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(')').map(|(_, fields)| fields.trim_start());
        state.is_none_or(|state| state.starts_with(states))
    })
}

/// Lets processes go on that were stopped.
pub fn go_on(stopped: &[i32]) {
    for pid in stopped {
        // One that is gone needs nothing.
        let _ = Pid::from_raw(*pid).map(|pid| signals::send(pid, libc::SIGCONT));
    }
}

/// Kills all descendants of a process. Returns how many there were.
///
/// # Errors
/// `/proc` cannot be read.
pub fn kill_descendants(root: Pid) -> io::Result<usize> {
    kill_all(|| descendants(root))
}

/// Kills all descendants of a process but those that `is_apart` and theirs.
///
/// # Errors
/// `/proc` cannot be read.
pub fn kill_others(root: Pid, is_apart: impl Fn(i32) -> bool) -> io::Result<usize> {
    kill_all(|| Ok(Tree::read()?.below(root, &is_apart)))
}

/// Kills all descendants of a process but one.
///
/// # Errors
/// `/proc` cannot be read.
pub fn kill_all_but(root: Pid, kept: Pid) -> io::Result<usize> {
    let kept = kept.as_raw_nonzero().get();
    kill_all(|| {
        let mut found = descendants(root)?;
        found.remove(&kept);
        Ok(found)
    })
}

/// What a process has used, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessUse {
    /// CPU time of it and of its children that were waited for.
    pub cpu_us: u64,
    /// The largest resident size that it had.
    pub max_rss_kb: u64,
    /// Memory that is its own: no pages of files.
    pub memory_bytes: u64,
}

/// What a live process has used.
#[must_use]
pub fn used_by(pid: Pid) -> Option<ProcessUse> {
    let pid = pid.as_raw_nonzero();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // From the state on, which is field 3: utime, stime, cutime and cstime are fields 14 to 17.
    let (_, fields) = stat.rsplit_once(')')?;
    let times = fields.split_ascii_whitespace().skip(11).take(4);
    let ticks: u64 = times.filter_map(|field| field.parse::<u64>().ok()).sum();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kb = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    Some(ProcessUse {
        cpu_us: ticks * 1_000_000 / rustix::param::clock_ticks_per_second().max(1),
        max_rss_kb: kb("VmHWM"),
        memory_bytes: (kb("RssAnon") + kb("RssShmem") + kb("VmSwap")) * 1024,
    })
}

/// Stops whatever is found, so that none forks away, until two passes find no new one; then kills
/// all of them.
fn kill_all(find: impl Fn() -> io::Result<HashSet<i32>>) -> io::Result<usize> {
    let mut stopped: HashSet<i32> = HashSet::new();
    let mut quiet_passes = 0;
    for _ in 0..MOST_PASSES {
        let fresh: Vec<i32> = find()?.difference(&stopped).copied().collect();
        if fresh.is_empty() {
            quiet_passes += 1;
            if quiet_passes == 2 {
                break;
            }
        } else {
            quiet_passes = 0;
        }
        for pid in fresh {
            // One that is gone already needs no stopping.
            let _ = Pid::from_raw(pid).map(|pid| signals::send(pid, libc::SIGSTOP));
            stopped.insert(pid);
        }
    }
    for pid in &stopped {
        let _ = Pid::from_raw(*pid).map(|pid| signals::send(pid, libc::SIGKILL));
    }
    Ok(stopped.len())
}

#[cfg(test)]
#[path = "proctree_tests.rs"]
mod tests;

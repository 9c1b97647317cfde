//! What this machine has to share out.

use std::path::Path;

use hotcell_model::Machine;

/// Looks at the machine and at the file system of the state directory.
pub(crate) fn look(state_dir: &Path) -> Machine {
    Machine {
        memory_mb: memory_mb().unwrap_or(1024),
        cpus: std::thread::available_parallelism()
            .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
        pids: number("/proc/sys/kernel/pid_max").unwrap_or(32_768),
        disk_mb: disk_mb(state_dir).unwrap_or(u64::MAX >> 20),
    }
}

fn memory_mb() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib / 1024)
}

fn number(path: &str) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn disk_mb(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_blocks.saturating_mul(found.f_frsize) >> 20)
}

//! Memory of processes, as the kernel counts it.

use std::path::Path;

use anyhow::{Context, Result};
use hotcell_model::CellId;

const KIB: u64 = 1024;
pub(crate) const SHARE: &str = "share (PSS)";
pub(crate) const OWN_PAGES: &str = "own pages alone";

/// Memory of a process, and how it was counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) bytes: u64,
    pub(crate) counted: &'static str,
}

/// As much as this user may see of a process's memory.
pub(crate) fn of(pid: u32) -> Result<Memory> {
    match share(pid) {
        Some(bytes) => Ok(Memory { bytes, counted: SHARE }),
        // The kernel shows no more of a process that hides itself.
        None => Ok(Memory { bytes: anonymous(pid)?, counted: OWN_PAGES }),
    }
}

/// The supervisor of a cell, found the way its driver finds it.
pub(crate) fn supervisor(state: &Path, cell: &CellId) -> Result<u32> {
    let file = state.join("native/cells").join(cell.as_str()).join("supervisor.json");
    let text = std::fs::read_to_string(&file).context("find the supervisor")?;
    let value: serde_json::Value = serde_json::from_str(&text)?;
    let pid = value["pid"].as_u64().context("the supervisor's pid")?;
    Ok(u32::try_from(pid)?)
}

/// The keeper that started a supervisor.
pub(crate) fn keeper(supervisor: u32) -> Result<u32> {
    Ok(u32::try_from(status(supervisor, "PPid:")?)?)
}

/// What a process has in memory.
pub(crate) fn resident(pid: u32) -> Result<u64> {
    Ok(status(pid, "VmRSS:")? * KIB)
}

/// The most that a process had in memory.
pub(crate) fn peak(pid: u32) -> Result<u64> {
    Ok(status(pid, "VmHWM:")? * KIB)
}

/// Memory that a process alone has.
pub(crate) fn anonymous(pid: u32) -> Result<u64> {
    Ok(status(pid, "RssAnon:")? * KIB)
}

/// Begins to count this process's peak anew.
pub(crate) fn reset_own_peak() -> Result<()> {
    std::fs::write("/proc/self/clear_refs", "5").context("reset the peak")
}

/// The process's share of memory; shared pages are divided among those that share them. `None`
/// where this user may not look.
pub(crate) fn share(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    field(&text, "Pss:").map(|kib| kib * KIB)
}

fn status(pid: u32, name: &str) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    field(&text, name).with_context(|| format!("{name} of process {pid}"))
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

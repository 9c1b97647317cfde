//! How a user gets ids for cells of its own.

use std::path::Path;

use hotcell_jail::ids::RANGE;

use super::host_file::read;

/// Where distributions begin to give them out.
const FIRST: u64 = 100_000;

/// What to do on the machine whose root is `host`.
pub(super) fn remedy(host: &Path) -> String {
    let start = free_start(host);
    let end = start + u64::from(RANGE) - 1;
    let give =
        format!("`sudo usermod --add-subuids {start}-{end} --add-subgids {start}-{end} $(id -un)`");
    let installed = ["usr/bin", "bin", "usr/sbin", "sbin", "usr/local/bin"]
        .iter()
        .any(|directory| host.join(directory).join("newuidmap").exists());
    match installed {
        true => give,
        false => format!("install newuidmap and newgidmap (Debian: package uidmap), then {give}"),
    }
}

/// The first id after all that are given out.
fn free_start(host: &Path) -> u64 {
    let ends = ["etc/subuid", "etc/subgid"].into_iter().filter_map(|file| {
        let text = read(host, file)?;
        text.lines()
            .filter_map(|line| {
                let mut fields = line.trim().split(':').skip(1);
                let start: u64 = fields.next()?.parse().ok()?;
                let count: u64 = fields.next()?.parse().ok()?;
                start.checked_add(count)
            })
            .max()
    });
    ends.max().unwrap_or(FIRST).max(FIRST)
}

#[cfg(test)]
#[path = "subordinate_ids_tests.rs"]
mod subordinate_ids_tests;

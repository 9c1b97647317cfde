//! The end of a world: its cells are ended, and whatever is still there is found.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::World;
use super::processes::processes_of;

/// How long what was ended may take to be gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ends every cell of a world and names what is left of it on the machine.
pub(super) fn clear(world: &World) -> Vec<String> {
    let mut found = end_cells(world);
    let until = Instant::now() + PATIENCE;
    loop {
        let left = remains(world);
        if left.is_empty() {
            return found;
        }
        if Instant::now() > until {
            found.extend(left);
            end_processes(world);
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn end_cells(world: &World) -> Vec<String> {
    if !world.state_dir().join("version").exists() {
        return Vec::new();
    }
    let cells = ["cells", "--all", "--all-tenants", "--json"];
    let ended = end(world, &cells, ("cells", "id"), &["kill", "--force", "--volumes"]);
    let volumes = ["volume", "list", "--all-tenants", "--json"];
    let removed = end(world, &volumes, ("volumes", "cell"), &["volume", "rm"]);
    // With the last cell the program is of no use to its engine any more.
    let collected = world.wire().map(|_| world.hotcell(["gc"]).run());
    let uncollected = collected.filter(|gc| gc.code() != 0).map(|gc| format!("{gc:?}"));
    ended.into_iter().chain(removed).chain(uncollected).collect()
}

/// Does something with all that is listed, and names what could not be done.
fn end(world: &World, list: &[&str], (what, id): (&str, &str), end: &[&str]) -> Vec<String> {
    let listed = world.hotcell([]).args(list.iter().copied()).run();
    let Ok(found) = serde_json::from_str::<Value>(&listed.stdout()) else {
        return vec![format!("{what} cannot be listed: {listed:?}")];
    };
    let mut ids: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for each in found[what].as_array().unwrap() {
        let tenant = each["tenant"].as_str().unwrap_or("main");
        ids.entry(tenant).or_default().extend(each[id].as_str());
    }
    let mut left = Vec::new();
    for (tenant, ids) in ids {
        let ended = world.hotcell(["--tenant", tenant]).args(end.iter().copied()).args(ids).run();
        // One that ended by itself meanwhile cannot be ended, and need not be.
        if !matches!(ended.code(), 0 | 3) {
            left.push(format!("{what} cannot be ended: {ended:?}"));
        }
    }
    left
}

fn remains(world: &World) -> Vec<String> {
    let state_dir = world.state_dir();
    let mut found: Vec<String> = processes_of(&state_dir)
        .into_iter()
        .map(|pid| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            format!("process {pid}: {}", line.replace('\0', " "))
        })
        .collect();
    found.extend(cgroups(Path::new("/sys/fs/cgroup"), &cells_ever_made(&state_dir), 4));
    found.extend(super::labelled(world));
    found.extend(super::engine::programs(world));
    for directory in ["native/cells", "native/ids", "docker/cells"] {
        let names = names(&state_dir.join(directory));
        found.extend(names.into_iter().map(|name| format!("{directory}/{name}")));
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let shown = state_dir.to_string_lossy().into_owned();
    found.extend(
        mounts.lines().filter(|line| line.contains(&shown)).map(|line| format!("mount {line}")),
    );
    found
}

/// Every cell of which there is a trace: a directory, or its id somewhere in the database.
fn cells_ever_made(state_dir: &Path) -> BTreeSet<String> {
    const ID_BYTES: usize = "c_0123456789".len();
    let mut found: BTreeSet<String> = names(&state_dir.join("cells")).into_iter().collect();
    for file in ["hotcell.db", "hotcell.db-wal"] {
        let bytes = fs::read(state_dir.join(file)).unwrap_or_default();
        for id in bytes.windows(ID_BYTES).filter(|window| window.starts_with(b"c_")) {
            if id[2..].iter().all(u8::is_ascii_alphanumeric) {
                found.insert(String::from_utf8_lossy(id).into_owned());
            }
        }
    }
    found
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Control groups named after this cell.
pub(super) fn cgroups_of(id: &str) -> Vec<String> {
    cgroups(Path::new("/sys/fs/cgroup"), &BTreeSet::from([id.to_owned()]), 4)
}

/// Control groups named after one of these cells, at most so deep.
fn cgroups(below: &Path, cells: &BTreeSet<String>, depth: u32) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(below).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // Beside the cell's own there is that of its carrier.
        if cells.contains(name.strip_suffix("-carrier").unwrap_or(&name)) {
            found.push(format!("cgroup {}", entry.path().display()));
        } else if depth > 0 {
            found.extend(cgroups(&entry.path(), cells, depth - 1));
        }
    }
    found
}

/// Nothing of a failed test may disturb the next one.
fn end_processes(world: &World) {
    for pid in processes_of(&world.state_dir()) {
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

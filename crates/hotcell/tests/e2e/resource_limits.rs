//! What a cell may use: memory, processes, disk, processor time.

use std::fs;

use crate::world::{Need, World, kill_9, require};

in_worlds! { [root]
    too_much_memory_is_reported_as_such,
}

in_worlds! { [root]
    processor_time_is_shared_out,
}

in_worlds! { [root, without_cgroups, rootless, single_id, docker]
    processes_are_counted,
    more_on_disk_than_allowed_ends_the_command,
    a_keeper_that_comes_later_measures_as_well,
    limits_are_shown_and_fixed_once_made,
}

/// Skips where no control group keeps this limit.
pub(crate) fn has_layer(world: &World, name: &str) -> bool {
    world.text(["run", "--cell", "probe", "true"]);
    let info = world.json(["info", "probe", "--json"]);
    let layers = info["cell"]["isolation"]["layers"].as_array().unwrap();
    let found = layers.iter().any(|layer| {
        layer["name"] == name && layer["means"].as_str().is_some_and(|m| m.contains("cgroup"))
    });
    let reason = || format!("no control group keeps the {name}");
    require(Need::Cgroup, found.then_some(()).ok_or_else(reason)).is_some()
}

const GREEDY: &str = "perl -e '$x = \"x\" x 300000000; print \"got \", length $x, \"\\n\"'";

fn too_much_memory_is_reported_as_such(world: &World) {
    if !has_layer(world, "memory_limit") {
        return;
    }
    let finished = world.hotcell(["run", "--cell", "small", "--memory", "64M", GREEDY]).run();
    finished.clone().exited(137);
    assert!(finished.stderr().contains("out of memory"), "{finished:?}");
    let listed = world.json(["ps", "--all", "--cell", "small", "--json"]);
    assert_eq!(listed["execs"][0]["end"]["cause"], "oom_killed");
    assert_eq!(world.text(["run", "--cell", "small", "echo alive"]), "alive\n");
    assert_eq!(world.text(["run", "--memory", "1G", GREEDY]), "got 300000000\n");
}

fn processor_time_is_shared_out(world: &World) {
    if !has_layer(world, "cpu_limit") {
        return;
    }
    world.text(["spawn", "half", "--cpus", "0.5"]);
    let id = world.cell_id("half");
    let quota = cgroup_files(&id, &["cpu.cfs_quota_us", "cpu.max"]);
    assert!(quota.iter().any(|text| text.starts_with("50000")), "{quota:?}");
    let of_other = cgroup_files(&world.cell_id("probe"), &["cpu.cfs_quota_us", "cpu.max"]);
    assert!(!of_other.iter().any(|text| text.starts_with("50000")), "{of_other:?}");
}

/// What these files hold in the control groups of a cell, whatever hierarchies there are.
fn cgroup_files(cell: &str, names: &[&str]) -> Vec<String> {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"];
    let paths = roots
        .iter()
        .flat_map(|root| names.iter().map(move |name| format!("{root}/hotcell/{cell}/{name}")));
    paths.filter_map(|path| fs::read_to_string(path).ok()).collect()
}

fn processes_are_counted(world: &World) {
    let many = "i=0; while test $i -lt 60; do sleep 1000 & i=$((i+1)); done; echo all";
    let few = world.hotcell(["run", "--cell", "few", "--pids", "40", "--", "sh", "-c", many]).run();
    assert!(few.stderr().contains("fork") && !few.stdout().contains("all"), "{few:?}");
    assert_eq!(world.text(["run", "--cell", "few", "echo fine"]), "fine\n");
    assert_eq!(world.text(["run", "--", "sh", "-c", many]), "all\n");
}

fn more_on_disk_than_allowed_ends_the_command(world: &World) {
    let fill = "while :; do head -c 4000000 /dev/zero >> big; sleep 0.02; done";
    let finished = world.hotcell(["run", "--cell", "full", "--disk", "16M", fill]).run();
    assert!(finished.stderr().contains("over its disk limit"), "{finished:?}");
    let listed = world.json(["ps", "--all", "--json"]);
    assert_eq!(listed["execs"][0]["end"]["limit"], "disk");
    world.text(["run", "--cell", "full", "rm big"]);
    assert_eq!(world.text(["run", "--cell", "full", "echo ok > f; cat f"]), "ok\n");
}

fn a_keeper_that_comes_later_measures_as_well(world: &World) {
    // What nobody but the cell's own user may look into.
    world.text(["run", "--cell", "watched", "--disk", "16M", "mkdir -m 700 own"]);
    kill_9(world.keeper("watched"));
    let fill = "while :; do head -c 4000000 /dev/zero >> own/big; sleep 0.02; done";
    let finished = world.hotcell(["run", "--cell", "watched", fill]).run();
    assert!(finished.stderr().contains("over its disk limit"), "{finished:?}");
}

fn limits_are_shown_and_fixed_once_made(world: &World) {
    let args = ["spawn", "fixed", "--pids", "77", "--disk", "2G", "--json"];
    let cell = world.json(args);
    assert_eq!((&cell["limits"]["pids"], &cell["limits"]["disk_mb"]), (&77.into(), &2048.into()));
    let refused = world.hotcell(["run", "--cell", "fixed", "--pids", "78", "true"]).run();
    assert!(refused.exited(125).stderr().contains("--pids"));
    world.text(["run", "--cell", "fixed", "--pids", "77", "true"]);
}

//! Many execs: one after the other, all at once, and more than may run.

use std::fs;
use std::path::Path;

use crate::world::{Live, World, descendants, eventually, fd_count, is_root};

in_worlds! { [root]
    a_thousand_execs_leave_nothing_behind,
}

in_worlds! { [without_cgroups, rootless]
    hundreds_of_execs_with_reapers_leave_nothing_behind,
}

in_every_world! {
    a_hundred_at_once_give_a_hundred_right_results,
    what_may_not_run_yet_waits_in_order,
}

/// What one cell has on the machine at present.
#[derive(Debug, PartialEq, Eq)]
struct Footprint {
    processes: usize,
    descriptors: usize,
    mounts: usize,
    cgroups: usize,
}

fn footprint(world: &World, cell: &str) -> Footprint {
    let (supervisor, id) = (world.supervisor(cell), world.cell_id(cell));
    let lines = |path: String| fs::read_to_string(path).unwrap_or_default().lines().count();
    Footprint {
        processes: descendants(supervisor).len(),
        // Only root may look at what a supervisor has open.
        descriptors: if is_root() { fd_count(supervisor) } else { 0 },
        mounts: lines("/proc/self/mountinfo".to_owned())
            + lines(format!("/proc/{supervisor}/mountinfo")),
        cgroups: directories(Path::new("/sys/fs/cgroup"), &format!("/hotcell/{id}/")),
    }
}

/// Directories with these words in their paths.
fn directories(below: &Path, words: &str) -> usize {
    let entries = fs::read_dir(below).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories
        .map(|entry| {
            let path = entry.path();
            usize::from(path.to_string_lossy().contains(words)) + directories_in(&path, words)
        })
        .sum()
}

fn directories_in(path: &Path, words: &str) -> usize {
    let shown = path.to_string_lossy();
    let leads_there = shown.split('/').count() < 6 || shown.contains("/hotcell");
    if leads_there { directories(path, words) } else { 0 }
}

/// Runs commands in one cell, several at a time; what each printed, in order.
fn run_all(world: &World, cell: &str, commands: &[String], at_once: usize) -> Vec<(i32, String)> {
    let chunks: Vec<&[String]> = commands.chunks(commands.len().div_ceil(at_once)).collect();
    std::thread::scope(|scope| {
        let runs: Vec<_> = chunks
            .into_iter()
            .map(|chunk| {
                scope.spawn(move || {
                    let run = |command: &String| {
                        let finished = world.hotcell(["run", "--cell", cell, command]).run();
                        (finished.code(), finished.stdout())
                    };
                    chunk.iter().map(run).collect::<Vec<_>>()
                })
            })
            .collect();
        runs.into_iter().flat_map(|run| run.join().unwrap()).collect()
    })
}

fn leaves_nothing(world: &World, execs: usize) {
    let warm_up: Vec<String> = (0..8).map(|_| "sleep 0.01 & true".to_owned()).collect();
    run_all(world, "busy", &warm_up, 4);
    let before = footprint(world, "busy");
    let commands: Vec<String> = (0..execs)
        .map(|n| format!("(sleep 100 >/dev/null 2>&1 &) ; echo {n}; exit {}", n % 50))
        .collect();
    let results = run_all(world, "busy", &commands, 6);
    for (number, result) in results.iter().enumerate() {
        let wanted = (i32::try_from(number % 50).unwrap(), format!("{number}\n"));
        assert_eq!(*result, wanted, "exec {number}");
    }
    let mut after = footprint(world, "busy");
    eventually("the cell is as it was", || {
        after = footprint(world, "busy");
        after.processes == 0 && after.descriptors <= before.descriptors + 4
    });
    assert!(after.processes == 0 && after.mounts <= before.mounts, "{before:?} {after:?}");
    assert!(after.cgroups <= before.cgroups + 8, "{before:?} {after:?}");
}

fn a_thousand_execs_leave_nothing_behind(world: &World) {
    leaves_nothing(world, 1000);
}

fn hundreds_of_execs_with_reapers_leave_nothing_behind(world: &World) {
    leaves_nothing(world, 300);
}

fn a_hundred_at_once_give_a_hundred_right_results(world: &World) {
    world.text(["spawn", "crowd"]);
    let gate =
        world.text(["run", "-d", "-i", "--cell", "crowd", "flock gate sh -c 'echo shut; cat'"]);
    eventually("the gate is shut", || world.text(["logs", gate.trim()]).contains("shut"));
    let script =
        |n: usize| format!("flock --shared gate true; echo err {n} >&2; echo {n}; exit {n}");
    let live: Vec<Live> =
        (0..100).map(|n| world.hotcell(["run", "--cell", "crowd", &script(n)]).start()).collect();
    eventually("all of them run at the same time", || {
        world.json(["info", "crowd", "--json"])["stats"]["running"] == 101
    });
    world.text(["input", "--eof", gate.trim()]);
    for (number, live) in live.into_iter().enumerate() {
        let finished = live.finish().exited(i32::try_from(number).unwrap());
        assert_eq!(finished.stdout(), format!("{number}\n"));
        assert_eq!(finished.stderr(), format!("err {number}\n"));
    }
}

fn what_may_not_run_yet_waits_in_order(world: &World) {
    world.hotcell(["spawn", "narrow"]).env("HOTCELL_MAX_RUNNING", "2").run().succeeded();
    let start = |_| world.text(["run", "-d", "-i", "--cell", "narrow", "cat"]).trim().to_owned();
    let execs: Vec<String> = (0..6).map(start).collect();
    let stats = || world.json(["info", "narrow", "--json"])["stats"].clone();
    eventually("two run", || stats()["running"] == 2);
    assert_eq!(stats()["queued"], 4);
    assert_eq!(world.exec(&execs[5])["state"], "queued");

    // One that waits can be cancelled, and those behind it move up.
    world.text(["cancel", &execs[3]]);
    let cancelled = world.ended(&execs[3]);
    assert_eq!(cancelled["end"]["cause"], "cancelled");
    assert!(cancelled.get("started_at").is_none_or(serde_json::Value::is_null), "{cancelled}");

    let mut started = Vec::new();
    for exec in execs.iter().enumerate().filter(|(n, _)| *n != 3).map(|(_, exec)| exec) {
        eventually("it has its turn", || world.exec(exec)["state"] == "running");
        world.text(["input", "--eof", exec]);
        let ended = world.ended(exec);
        assert_eq!(ended["end"]["exit_code"], 0);
        started.push(ended["started_at"].as_str().unwrap().to_owned());
    }
    assert!(started.is_sorted(), "{started:?}");
}

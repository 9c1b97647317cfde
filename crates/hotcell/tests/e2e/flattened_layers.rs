//! Layers that become fewer in the background: nothing changes but their number.

use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;

use crate::world::{Chance, Finished, Kind, World, eventually, processes_of};

in_worlds! { [root, rootless, single_id]
    every_state_stays_while_layers_become_fewer,
}

in_worlds! { [root, rootless]
    layers_made_fewer_by_processes_that_are_killed_show_the_same,
    what_a_cell_removed_gives_room_once_no_checkpoint_needs_it,
    a_cell_that_is_full_of_layers_waits_until_they_are_fewer,
    layers_become_fewer_once_whoever_held_their_lock_is_gone,
}

/// Everything that can be seen of files but for their numbers: an overlay tells others for one file
/// while it is written to and once it is in a layer.
const LOOK: &str = "cd /workspace; \
    ls -lAR . /srv 2>&1 >/dev/null | grep 'No such'; \
    find . /etc /srv -printf '%p|%y|%m|%U:%G|%l|%T@\\n' 2>/dev/null | sort; \
    find . /etc/fonts* /srv -type f -exec cksum {} + 2>/dev/null | sort";

fn create(world: &World, cell: &str) -> String {
    let made = world.json(["checkpoint", "create", cell, "--json"]);
    made["id"].as_str().unwrap().to_owned()
}

/// Whoever has power over everything in the cell, where there is one.
fn run(world: &World, cell: &str, script: &str) -> String {
    finish(world, cell, script).succeeded().stdout()
}

fn finish(world: &World, cell: &str, script: &str) -> Finished {
    if world.kind() != Kind::SingleId {
        world.hotcell(["run", "--cell", cell, "--as-root", script]).run()
    } else {
        world.hotcell(["run", "--cell", cell, script]).run()
    }
}

/// The most layers that a part of the cell has.
fn depth(world: &World, cell: &str) -> usize {
    let file = std::fs::read(world.native_dir(cell).join("cell.json")).unwrap();
    let placed: Value = serde_json::from_slice(&file).unwrap();
    let parts = placed["layers"].as_array().unwrap().iter();
    parts.map(|part| part["lowers"].as_array().unwrap().len()).max().unwrap()
}

fn some_path(chance: &mut Chance) -> String {
    let names = ["a", "b", "c", "d"];
    let length = 1 + chance.below(3);
    let path: Vec<&str> = (0..length).map(|_| *chance.among(&names)).collect();
    path.join("/")
}

/// Some changes, most of which work.
fn changes(chance: &mut Chance, round: usize) -> String {
    let mut script = String::from("cd /workspace; exec 2>/dev/null\n");
    for number in 0..12 {
        let (one, other) = (some_path(chance), some_path(chance));
        let what = match chance.below(14) {
            0..=3 => format!("mkdir -p $(dirname {one}); echo {round}.{number} > {one}"),
            4 => format!("rm -rf {one}"),
            5 => format!("mkdir -p {one}"),
            6 | 7 => format!("[ -e {other} ] || mv {one} {other}"),
            8 => {
                format!("chmod {}{}{} {one}", 4 + chance.below(4), chance.below(8), chance.below(8))
            }
            9 => format!("ln -s {other} {one}"),
            10 => format!("ln {one} {other}"),
            11 => format!("rm -rf {one}; echo instead > {one}"),
            12 => format!("rm -rf {one}; mkdir -p {one}; echo new > {one}/d"),
            _ => format!(
                "mv /etc/fonts* /etc/fonts{number}; mv /srv/x /srv/y || mkdir -p /srv/x/{number}"
            ),
        };
        script.push_str(&what);
        script.push('\n');
    }
    script.push_str("true\n");
    script
}

fn every_state_stays_while_layers_become_fewer(world: &World) {
    let mut chance = Chance::new();
    let mut states = Vec::new();
    run(world, "deep", "true");
    for round in 0..40 {
        run(world, "deep", &changes(&mut chance, round));
        let seen = run(world, "deep", LOOK);
        states.push((create(world, "deep"), seen));
        assert!(depth(world, "deep") <= 51, "there are too many layers");
        if chance.below(4) == 0 {
            let (forgotten, _) = states.swap_remove(chance.below(states.len() as u64) as usize);
            world.text(["checkpoint", "delete", "deep", &forgotten]);
        }
    }
    let seen = run(world, "deep", LOOK);
    eventually("the layers are few", || depth(world, "deep") <= 12);
    assert_eq!(run(world, "deep", LOOK), seen, "layers that became fewer show something else");
    while !states.is_empty() {
        let at = chance.below(states.len() as u64) as usize;
        let (checkpoint, seen) = states.swap_remove(at);
        world.text(["checkpoint", "restore", "deep", &checkpoint]);
        assert_eq!(run(world, "deep", LOOK), seen, "{checkpoint} is not what it was");
        if chance.below(2) == 0 {
            world.text(["checkpoint", "delete", "deep", &checkpoint]);
        }
    }
    eventually("the layers are few", || depth(world, "deep") <= 12);
}

/// Whoever was killed while it exchanged layers leaves a cell that falls asleep, and with it what
/// was just begun in it: that is told, and done anew.
fn look_at_torn(world: &World) -> String {
    let first = finish(world, "torn", LOOK);
    if first.stderr().contains("the command was cancelled") {
        return run(world, "torn", LOOK);
    }
    first.succeeded().stdout()
}

/// Prints what is needed to understand why nobody makes the layers fewer.
fn tell_about_flattening(world: &World, round: usize, looks: usize, used: &Finished) {
    let error = std::fs::read_to_string(world.native_dir("torn").join("flattening.error"));
    let (depth, stderr) = (depth(world, "torn"), used.stderr());
    eprintln!("round {round}, look {looks}: {depth} layers, last error {error:?}, run: {stderr:?}");
}

fn layers_made_fewer_by_processes_that_are_killed_show_the_same(world: &World) {
    let mut chance = Chance::new();
    // So much that it takes a while, where nobody looks.
    run(world, "torn", "mkdir /var/many; cd /var/many; touch $(seq 4000)");
    let lock = world.native_dir("torn").join("flattening.lock");
    let mut states: Vec<(String, String)> = Vec::new();
    let mut killed = 0;
    for round in 0..60 {
        run(world, "torn", &changes(&mut chance, round));
        let seen = run(world, "torn", LOOK);
        states.push((create(world, "torn"), seen.clone()));
        if chance.below(3) == 0 {
            let (forgotten, _) = states.swap_remove(chance.below(states.len() as u64) as usize);
            world.text(["checkpoint", "delete", "torn", &forgotten]);
        }
        // With so many layers somebody begins at each checkpoint, or when the cell is used again after
        // it fell asleep with whoever was killed.
        let (mut looks, mut found) = (0, Vec::new());
        eventually("somebody makes the layers fewer", || {
            looks += 1;
            if looks % 200 == 0 {
                let used = finish(world, "torn", "true");
                tell_about_flattening(world, round, looks, &used);
                states.push((create(world, "torn"), seen.clone()));
            }
            let processes = processes_of(&lock).into_iter().filter_map(Pid::from_raw);
            found = processes.filter_map(|it| pidfd_open(it, PidfdFlags::empty()).ok()).collect();
            !found.is_empty() || depth(world, "torn") <= 31
        });
        // At any point of what may take a millisecond or many.
        let longest = 1 << chance.below(15);
        std::thread::sleep(Duration::from_micros(chance.below(longest)));
        for process in found {
            // It may be done already.
            killed += usize::from(pidfd_send_signal(&process, Signal::KILL).is_ok());
        }
        assert_eq!(look_at_torn(world), seen, "round {round}");
    }
    for (checkpoint, seen) in &states {
        world.text(["checkpoint", "restore", "torn", checkpoint]);
        assert_eq!(run(world, "torn", LOOK), *seen, "{checkpoint} is not what it was");
    }
    assert!(killed > 0, "nothing was killed");
    world.text(["kill", "--volumes", "--force", "torn"]);
    let layers = world.state_dir().join("native/layers");
    eventually("no layer is left", || std::fs::read_dir(&layers).unwrap().count() == 0);
}

fn what_a_cell_removed_gives_room_once_no_checkpoint_needs_it(world: &World) {
    let grow = "for i in $(seq 60); do head -c 20000 /dev/zero >> more; sleep 0.05; done; echo all";
    world.text(["run", "--cell", "full", "--disk", "16M", "true"]);
    let mut kept = Vec::new();
    for number in 0..5 {
        let write = format!("head -c 4000000 /dev/zero > big{number}; echo {number} >> small");
        world.text(["run", "--cell", "full", &write]);
        kept.push(create(world, "full"));
    }
    let is_full = || world.hotcell(["run", "--cell", "full", grow]).run().stdout() != "all\n";
    assert!(is_full());
    for checkpoint in &kept {
        world.text(["checkpoint", "delete", "full", checkpoint]);
    }
    assert!(is_full(), "the files are still there");
    world.text(["run", "--cell", "full", "rm big0 big1 big2"]);
    eventually("there is room again", || !is_full());
    let seen = world.text(["run", "--cell", "full", "cat big3 big4 | wc -c; cat small"]);
    assert_eq!(seen, "8000000\n0\n1\n2\n3\n4\n");
}

fn a_cell_that_is_full_of_layers_waits_until_they_are_fewer(world: &World) {
    world.text(["run", "--cell", "full", "true"]);
    // Whoever would make them fewer in the background finds that somebody does.
    let lock = world.native_dir("full").join("flattening.lock");
    let lock = std::fs::File::create(lock).unwrap();
    lock.lock().unwrap();
    let mut kept = Vec::new();
    let mut deepest = 0;
    for round in 0..55 {
        let write = format!("echo {round} >> all; mkdir d{round}; rm -rf d{}", round - 2);
        world.text(["run", "--cell", "full", &write]);
        kept.push(create(world, "full"));
        deepest = deepest.max(depth(world, "full"));
    }
    assert!(deepest == 50 || deepest == 13, "there were {deepest} layers");
    assert!(depth(world, "full") < deepest, "the layers never became fewer");
    for round in [20, 48, 50, 54] {
        world.text(["checkpoint", "restore", "full", &kept[round]]);
        let seen = world.text(["run", "--cell", "full", "tail -n 1 all; ls -d d*"]);
        assert_eq!(seen, format!("{round}\nd{}\nd{round}\n", round - 1));
    }
}

fn layers_become_fewer_once_whoever_held_their_lock_is_gone(world: &World) {
    world.text(["run", "--cell", "held", "true"]);
    let path = world.native_dir("held").join("flattening.lock");
    let lock = std::fs::File::create(&path).unwrap();
    world.own(&path);
    lock.lock().unwrap();
    for round in 0..42 {
        world.text(["run", "--cell", "held", &format!("echo {round} >> all")]);
        create(world, "held");
        if depth(world, "held") > 31 {
            // So long that another one begins each time.
            std::thread::sleep(Duration::from_millis(600));
        }
    }
    assert!(depth(world, "held") > 31, "somebody merged the layers all the same");
    drop(lock);
    eventually("the layers are few", || depth(world, "held") <= 12);
    assert_eq!(world.text(["run", "--cell", "held", "wc -l < all"]), "42\n");
}

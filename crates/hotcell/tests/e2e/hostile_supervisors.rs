//! A cell whose pid 1 was taken over harms itself alone: whatever it writes into its records and its
//! link, other cells, the ledger and `hotcell kill --force` stay right.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::world::{World, eventually, hostile_program, is_alive};

in_worlds! { [root, rootless]
    the_program_of_these_tests_runs_cells_if_it_does_not_attack,
    journals_that_are_no_files_are_reported_and_passed,
    logs_that_are_no_files_are_reported_and_passed,
    a_link_that_makes_no_sense_does_not_keep_its_cell_alive,
    a_forged_end_of_another_cells_exec_is_ignored,
}

in_worlds! { [root, rootless, single_id]
    no_directory_of_the_host_is_above_the_records,
}

/// A cell that behaves, and after it only cells whose pid 1 is the attacker's.
fn prepare(world: &World) -> bool {
    let Some(hostile) = hostile_program() else { return false };
    world.text(["spawn", "victim", "--persistent"]);
    let programs = world.state_dir().join("native/programs");
    let copies: Vec<_> = fs::read_dir(&programs).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(!copies.is_empty());
    for copy in copies {
        // In another process, so that no file that is open for writing is run here.
        let draft = copy.with_extension("draft");
        assert!(Command::new("cp").arg(&hostile).arg(&draft).status().unwrap().success());
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
        world.own(&draft);
        fs::rename(&draft, &copy).unwrap();
    }
    true
}

/// A cell as it is listed, which asks no supervisor.
fn listed(world: &World, cell: &str) -> Value {
    let cells = world.json(["cells", "--json"]);
    let found = cells["cells"].as_array().unwrap().iter().find(|it| it["alias"] == cell);
    found.unwrap_or_else(|| panic!("{cell} is not in {cells}")).clone()
}

fn id_of(world: &World, cell: &str) -> String {
    listed(world, cell)["id"].as_str().unwrap().to_owned()
}

fn check_victim(world: &World) {
    assert_eq!(listed(world, "victim")["state"], "ready");
    assert_eq!(world.text(["run", "--cell", "victim", "echo fine"]), "fine\n");
    world.hotcell(["audit", "verify"]).run().succeeded();
}

/// Ends a cell that does not cooperate.
fn kill(world: &World, cell: &str) {
    let supervisor = world.supervisor_of(&id_of(world, cell));
    assert!(is_alive(supervisor), "{cell}: there is nothing to end");
    world.hotcell(["kill", "--force", "--volumes", cell]).run().succeeded();
    eventually(&format!("the supervisor of {cell} is gone"), || !is_alive(supervisor));
    world.hotcell(["info", cell]).run().exited(3);
}

fn ends_of(world: &World, exec: &str) -> Vec<Value> {
    let printed = world.text(["audit", "--json", "-n", "10000"]);
    let entries = printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries.filter(|it| it["kind"] == "exec_end" && it["exec"] == exec).collect()
}

/// The only exec that a cell says it has.
fn exec_of(world: &World, cell: &str) -> String {
    let id = id_of(world, cell);
    let listed = world.json(["ps", "--all", "--json"]);
    let execs = listed["execs"].as_array().unwrap();
    let own = execs.iter().find(|exec| exec["cell"] == id.as_str());
    own.unwrap_or_else(|| panic!("{cell} has no exec: {listed}"))["id"].as_str().unwrap().to_owned()
}

fn the_program_of_these_tests_runs_cells_if_it_does_not_attack(world: &World) {
    if !prepare(world) {
        return;
    }
    assert_eq!(world.text(["run", "--cell", "honest", "echo honest"]), "honest\n");
    check_victim(world);
}

fn journals_that_are_no_files_are_reported_and_passed(world: &World) {
    if !prepare(world) {
        return;
    }
    for trap in ["fifo", "link", "directory", "sparse", "endless"] {
        let cell = format!("journal-{trap}");
        world.text(["spawn", &cell, "--persistent"]);
        let id = id_of(world, &cell);
        let journal = world.state_dir().join("cells").join(&id).join("records/journal");
        assert!(fs::symlink_metadata(&journal).is_ok(), "the trap was not laid");
        let listed = world.hotcell(["ps", "--all", "--json"]).run().succeeded();
        assert!(listed.stderr().contains(&id), "nothing is said of {cell}: {listed:?}");
        check_victim(world);
        kill(world, &cell);
    }
    check_victim(world);
}

fn logs_that_are_no_files_are_reported_and_passed(world: &World) {
    if !prepare(world) {
        return;
    }
    for trap in ["fifo", "link", "directory", "sparse"] {
        let cell = format!("log-{trap}");
        world.text(["spawn", &cell, "--persistent"]);
        let exec = exec_of(world, &cell);
        let read = world.hotcell(["logs", &exec]).run();
        assert!(read.code() != 0 && read.stdout().is_empty(), "{read:?}");
        assert!(read.stderr().contains(&exec), "{read:?}");
        check_victim(world);
        kill(world, &cell);
    }
}

fn a_link_that_makes_no_sense_does_not_keep_its_cell_alive(world: &World) {
    if !prepare(world) {
        return;
    }
    for cell in ["silent", "garbage", "oversized", "babble"] {
        world.text(["spawn", cell, "--persistent"]);
        check_victim(world);
        kill(world, cell);
    }
    check_victim(world);
}

fn a_forged_end_of_another_cells_exec_is_ignored(world: &World) {
    if !prepare(world) {
        return;
    }
    let exec = world.detach("victim", "until test -e go; do sleep 0.01; done; exit 8");
    assert_eq!(world.exec(&exec)["state"], "running");
    let cell = format!("forge.{exec}");
    world.text(["spawn", &cell, "--persistent"]);
    // What the attacker says of its own exec is believed: the forged entries were read as well.
    let own = exec_of(world, &cell);
    assert_eq!(world.exec(&own)["end"]["exit_code"], 77);
    assert_eq!(ends_of(world, &own).len(), 1);

    assert_eq!(world.exec(&exec)["state"], "running");
    assert_eq!(ends_of(world, &exec).len(), 0);
    world.text(["run", "--cell", "victim", "touch go"]);
    let ended = world.ended(&exec);
    assert_eq!(
        (&ended["end"]["exit_code"], &ended["cell"]),
        (&8.into(), &id_of(world, "victim").into())
    );
    let ends = ends_of(world, &exec);
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0]["cell"], id_of(world, "victim"));
    check_victim(world);
    kill(world, &cell);
}

fn no_directory_of_the_host_is_above_the_records(world: &World) {
    if !prepare(world) {
        return;
    }
    world.text(["spawn", "climb", "--persistent"]);
    let exec = exec_of(world, "climb");
    assert_eq!(world.exec(&exec)["end"]["exit_code"], 0, "so many directories of the host");
    kill(world, "climb");
}

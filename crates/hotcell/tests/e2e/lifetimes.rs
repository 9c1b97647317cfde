//! Cells end, sleep and wake on time, with no other process of hotcell alive.

use std::fs;

use crate::world::{World, eventually, is_alive};

in_worlds! { [root, without_cgroups, rootless, single_id, docker]
    a_ttl_ends_a_cell_and_what_runs_in_it,
    an_idle_ttl_ends_a_cell_in_which_nothing_runs,
    a_cell_sleeps_and_wakes_with_its_files,
    a_cell_with_something_running_does_not_sleep,
    a_sleeping_cell_can_be_killed,
}

/// The supervisor by its file alone: asking for it would be a use of the cell.
fn supervisor_of_only_cell(world: &World) -> i32 {
    let cell = fs::read_dir(world.cells_dir()).unwrap().flatten().next().unwrap();
    world.supervisor_of(&cell.file_name().to_string_lossy())
}

/// Whether the native driver has removed what the only cell wrote.
fn files_are_gone(world: &World) -> bool {
    let cells = fs::read_dir(world.cells_dir()).unwrap();
    cells.flatten().all(|cell| !cell.path().join("files").exists())
}

fn a_ttl_ends_a_cell_and_what_runs_in_it(world: &World) {
    world.text(["spawn", "brief", "--ttl", "8s"]);
    let exec = world.detach("brief", "echo up; sleep 1000");
    let supervisor = supervisor_of_only_cell(world);
    eventually("the cell has ended", || !is_alive(supervisor));
    eventually("its files are gone", || files_are_gone(world));
    world.hotcell(["info", "brief"]).run().exited(3);
    assert_eq!(world.ended(&exec)["end"]["cause"], "cancelled");
    assert_eq!(world.text(["logs", &exec]), "up\n");
    world.text(["spawn", "brief"]);
}

fn an_idle_ttl_ends_a_cell_in_which_nothing_runs(world: &World) {
    world.text(["spawn", "idle", "--persistent", "--idle-ttl", "4s"]);
    let supervisor = supervisor_of_only_cell(world);
    assert_eq!(world.text(["run", "--cell", "idle", "sleep 5; echo busy"]), "busy\n");
    eventually("the cell has ended", || !is_alive(supervisor));
    eventually("its files are gone", || files_are_gone(world));
    world.hotcell(["info", "idle"]).run().exited(3);
}

fn a_cell_sleeps_and_wakes_with_its_files(world: &World) {
    let run = |script: &str| {
        let run = world.hotcell(["run", "--cell", "sleepy", script]);
        run.env("HOTCELL_SLEEP_AFTER_S", "1").run().succeeded().stdout()
    };
    run("echo kept > f; echo lost > /tmp/f");
    let supervisor = supervisor_of_only_cell(world);
    eventually("the cell sleeps", || !is_alive(supervisor));
    let listed = world.json(["cells", "--all", "--json"]);
    assert_eq!(listed["cells"][0]["state"], "asleep");
    assert!(world.text(["cells"]).contains("asleep"));
    let info = world.json(["info", "sleepy", "--json"]);
    assert_eq!(info["cell"]["state"], "asleep");
    assert_eq!(run("cat f; test -e /tmp/f || echo gone"), "kept\ngone\n");
    assert_ne!(supervisor_of_only_cell(world), supervisor);
    let listed = world.json(["ps", "--all", "--json"]);
    assert_eq!(listed["execs"].as_array().unwrap().len(), 2, "what ran before is still known");
}

fn a_cell_with_something_running_does_not_sleep(world: &World) {
    let spawn = world.hotcell(["spawn", "--persistent", "busy"]).env("HOTCELL_SLEEP_AFTER_S", "1");
    spawn.run().succeeded();
    let supervisor = supervisor_of_only_cell(world);
    let finished = world.hotcell(["run", "--cell", "busy", "sleep 2.5; echo still here"]).run();
    assert_eq!(finished.succeeded().stdout(), "still here\n");
    eventually("then it sleeps", || !is_alive(supervisor));
}

fn a_sleeping_cell_can_be_killed(world: &World) {
    let spawn =
        world.hotcell(["spawn", "--persistent", "dozing"]).env("HOTCELL_SLEEP_AFTER_S", "1");
    spawn.run().succeeded();
    let supervisor = supervisor_of_only_cell(world);
    eventually("the cell sleeps", || !is_alive(supervisor));
    world.text(["kill", "--volumes", "dozing"]);
    assert_eq!(world.json(["cells", "--all", "--json"])["cells"].as_array().unwrap().len(), 0);
    assert!(files_are_gone(world));
}

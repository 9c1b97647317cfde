//! Any process may be killed at any moment: execs, output and exit codes are not lost.

use serde_json::Value;

use crate::world::{World, descendants, eventually, is_alive, kill_9, marked, unique};

in_every_world_whatsoever! {
    killing_the_client_leaves_the_exec_of_a_named_cell_running,
    killing_the_client_of_an_unnamed_cell_ends_the_cell_after_its_grace,
    a_dead_supervisor_ends_its_execs_and_keeps_its_files,
}

in_worlds! { [root, without_cgroups, rootless, single_id, without_namespaces]
    a_killed_keeper_is_replaced,
    a_killed_keeper_does_not_keep_a_cell_from_ending,
    supervisor_and_keeper_killed_together_leave_a_cell_that_wakes,
}

in_worlds! { [root]
    groups_that_a_dead_supervisor_and_keeper_left_are_removed_by_whoever_comes_by,
    ids_of_a_cell_whose_maker_died_before_it_was_written_down_are_given_back,
}

fn await_log(world: &World, exec: &str, text: &str) {
    eventually(&format!("{exec} prints {text:?}"), || world.text(["logs", exec]).contains(text));
}

fn killing_the_client_leaves_the_exec_of_a_named_cell_running(world: &World) {
    let script = "echo one; until test -e go; do sleep 0.01; done; echo two; exit 9";
    let client = world.hotcell(["run", "--cell", "kept", script]).start();
    client.await_stdout("one\n");
    client.kill();
    let exec = world.json(["ps", "--json"])["execs"][0]["id"].as_str().unwrap().to_owned();
    world.text(["run", "--cell", "kept", "touch go"]);
    world.hotcell(["wait", &exec]).run().exited(9);
    assert_eq!(world.text(["logs", &exec]), "one\ntwo\n");
}

fn killing_the_client_of_an_unnamed_cell_ends_the_cell_after_its_grace(world: &World) {
    let mark = unique("61");
    let client = world
        .hotcell(["run", &format!("echo up; sleep {mark}")])
        .env("HOTCELL_ORPHAN_GRACE_S", "1")
        .start();
    client.await_stdout("up\n");
    let exec = world.json(["ps", "--json"])["execs"][0]["id"].as_str().unwrap().to_owned();
    client.kill();
    // No other process of hotcell is there: the cell ends by itself.
    eventually("the cell has ended", || marked(&mark).is_empty());
    assert_eq!(world.ended(&exec)["end"]["cause"], "cancelled");
    assert_eq!(world.text(["logs", &exec]), "up\n");
}

fn a_killed_keeper_is_replaced(world: &World) {
    let exec = world.detach("kept", "echo up; until test -e go; do sleep 0.01; done; exit 8");
    await_log(world, &exec, "up");
    let keeper = world.keeper("kept");
    kill_9(keeper);
    assert_eq!(world.text(["run", "--cell", "kept", "echo fine; touch go"]), "fine\n");
    assert_eq!(world.ended(&exec)["end"]["exit_code"], 8);
    let next = world.keeper("kept");
    assert!(next != keeper && is_alive(next));
    kill_9(next);
    world.text(["kill", "--volumes", "--force", "kept"]);
    world.hotcell(["info", "kept"]).run().exited(3);
}

fn a_killed_keeper_does_not_keep_a_cell_from_ending(world: &World) {
    world
        .hotcell(["spawn", "short", "--persistent"])
        .env("HOTCELL_SLEEP_AFTER_S", "1")
        .run()
        .succeeded();
    kill_9(world.keeper("short"));
    eventually("the cell is asleep", || {
        let cells = world.json(["cells", "--all", "--json"]);
        cells["cells"][0]["state"] == "asleep"
    });
    assert_eq!(world.text(["run", "--cell", "short", "echo awake"]), "awake\n");
}

fn a_dead_supervisor_ends_its_execs_and_keeps_its_files(world: &World) {
    let mark = unique("62");
    let script = format!("echo x > f; echo before; setsid sleep {mark} & sleep {mark}");
    let exec = world.detach("dies", &script);
    await_log(world, &exec, "before");
    eventually("all of it runs", || marked(&mark).len() >= 3);
    let client = world.hotcell(["run", "--cell", "dies", "echo client; sleep 1000"]).start();
    client.await_stdout("client\n");

    let supervisor = world.supervisor("dies");
    kill_9(supervisor);
    let lost = client.finish().exited(125);
    assert!(lost.stderr().contains("lost"), "{lost:?}");
    eventually("nothing of it is left", || marked(&mark).is_empty());
    // The kernel takes a moment to end the rest of its namespace.
    eventually("nothing below it is left", || descendants(supervisor).is_empty());
    let ended = world.ended(&exec);
    assert_eq!(ended["end"]["cause"], "lost");
    assert!(ended["end"].get("exit_code").is_none_or(Value::is_null), "{ended}");
    assert_eq!(world.text(["logs", &exec]), "before\n");
    let cells = world.json(["cells", "--all", "--json"]);
    assert_eq!(cells["cells"][0]["state"], "stopped");

    assert_eq!(world.text(["run", "--cell", "dies", "cat f"]), "x\n");
    assert_ne!(world.supervisor("dies"), supervisor);
    assert_eq!(world.exec(&exec)["end"]["cause"], "lost");
}

fn supervisor_and_keeper_killed_together_leave_a_cell_that_wakes(world: &World) {
    let exec = world.detach("both", "echo x > f; echo up; sleep 1000");
    await_log(world, &exec, "up");
    let (keeper, supervisor) = (world.keeper("both"), world.supervisor("both"));
    kill_9(keeper);
    kill_9(supervisor);
    assert_eq!(world.text(["run", "--cell", "both", "cat f"]), "x\n");
    assert_eq!(world.exec(&exec)["end"]["cause"], "lost");
}

fn ids_of_a_cell_whose_maker_died_before_it_was_written_down_are_given_back(world: &World) {
    world.text(["spawn", "cut-short"]);
    let (supervisor, keeper) = (world.supervisor("cut-short"), world.keeper("cut-short"));
    let directory = world.native_dir("cut-short");
    kill_9(keeper);
    kill_9(supervisor);
    let ranges = || {
        let entries = std::fs::read_dir(world.state_dir().join("native/ids")).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    };
    let before = ranges();
    assert_eq!(before.len(), 1);
    // As it is between the taking of a range and the writing of the cell.
    std::fs::remove_file(directory.join("cell.json")).unwrap();
    std::fs::remove_dir_all(world.state_dir().join("native/layers")).unwrap();
    assert_eq!(world.text(["run", "--cell", "cut-short", "echo made"]), "made\n");
    assert_eq!(ranges().len(), 1, "{before:?} {:?}", ranges());
}

fn groups_that_a_dead_supervisor_and_keeper_left_are_removed_by_whoever_comes_by(world: &World) {
    world.text(["spawn", "orphaned", "--persistent"]);
    let id = world.cell_id("orphaned");
    let (supervisor, keeper) = (world.supervisor("orphaned"), world.keeper("orphaned"));
    if world.cgroups_of(&id).is_empty() {
        return;
    }
    kill_9(keeper);
    kill_9(supervisor);
    assert!(!world.cgroups_of(&id).is_empty());
    world.text(["cells"]);
    eventually("the groups are gone", || world.cgroups_of(&id).is_empty());
    let cells = world.json(["cells", "--all", "--json"]);
    assert_eq!(cells["cells"][0]["state"], "stopped");
    assert_eq!(world.text(["run", "--cell", "orphaned", "echo awake"]), "awake\n");
}

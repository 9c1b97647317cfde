//! Keeping house: what killed cells leave, what is collected, what is brought together, and cells that are
//! ready before they are asked for.

use std::fs;

use serde_json::Value;

use crate::world::{Era, Invocation, McpClient, World, ask_engine, eventually, kill_9};

in_every_world_whatsoever! {
    a_persistent_cell_that_is_killed_comes_back_with_its_files,
    what_is_known_and_what_is_there_are_brought_together,
    what_is_over_is_collected_and_told,
    a_server_gives_out_cells_that_it_made_before,
}

fn a_persistent_cell_that_is_killed_comes_back_with_its_files(world: &World) {
    world.text(["run", "--cell", "work", "echo mine > file; echo home > ~/file"]);
    let id = world.cell_id("work");
    let killed = world.hotcell(["kill", "work"]).run().succeeded();
    assert!(killed.stderr().contains("hotcell volume restore"), "{killed:?}");
    assert_eq!(world.json(["cells", "--all", "--json"])["cells"], Value::Array(Vec::new()));
    let volumes = world.json(["volume", "list", "--json"]);
    assert_eq!(volumes["volumes"][0]["cell"], id.as_str(), "{volumes}");
    assert_eq!(volumes["volumes"][0]["alias"], "work");

    // Its name is another one's meanwhile.
    assert_eq!(world.text(["run", "--cell", "work", "ls"]), "");
    world.hotcell(["volume", "restore", &id]).run().exited(4);
    world.text(["kill", "--volumes", "work"]);
    world.text(["volume", "restore", &id]);
    assert_eq!(world.text(["run", "--cell", "work", "cat file ~/file"]), "mine\nhome\n");
    assert_eq!(world.json(["volume", "list", "--json"])["volumes"], Value::Array(Vec::new()));

    world.text(["kill", "work"]);
    world.text(["volume", "rm", &id]);
    world.hotcell(["volume", "restore", &id]).run().exited(3);
    assert_eq!(fs::read_dir(world.cells_dir()).unwrap().count(), 0);
}

fn what_is_known_and_what_is_there_are_brought_together(world: &World) {
    world.text(["run", "--cell", "stays", "echo kept > file"]);
    world.text(["run", "--cell", "goes", "true"]);
    let goes = world.cell_id("goes");
    for name in ["hotcell.db", "hotcell.db-wal", "hotcell.db-shm"] {
        let _ = fs::remove_file(world.state_dir().join(name));
    }
    // What an interrupted spawn may leave.
    let orphan = world.cells_dir().join("c_0000000007");
    fs::create_dir(&orphan).unwrap();
    world.own(&orphan);
    let done = world.json(["reconcile", "--json"]);
    let counts = ["discovered", "adopted", "orphaned", "missing"].map(|it| done[it].as_u64());
    assert_eq!(counts, [Some(3), Some(2), Some(1), Some(0)], "{done}");
    assert_eq!(world.text(["run", "--cell", "stays", "cat file"]), "kept\n");

    // Somebody removed all that there was of it.
    kill_9(world.supervisor_of(&goes));
    eventually("it has no supervisor", || state_of(world, "goes") == "stopped");
    lose(world, &goes);
    let done = world.json(["reconcile", "--json"]);
    assert_eq!((done["missing"].as_u64(), done["adopted"].as_u64()), (Some(1), Some(0)), "{done}");
    assert_eq!(world.json(["cells", "--all", "--json"])["cells"].as_array().unwrap().len(), 1);
    let again = world.json(["reconcile", "--json"]);
    let counts = ["discovered", "adopted", "cleaned_up", "orphaned", "missing"];
    assert_eq!(counts.map(|it| again[it].as_u64()), [Some(1), Some(0), Some(0), Some(0), Some(0)]);
}

fn state_of(world: &World, cell: &str) -> String {
    world.json(["info", "--json", cell])["cell"]["state"].as_str().unwrap().to_owned()
}

/// Removes all that its driver has of a cell.
fn lose(world: &World, id: &str) {
    if world.kind().has_containers() {
        for volume in ["workspace", "home"] {
            eventually("a volume is nobody's", || {
                let answer = ask_engine("DELETE", &format!("/volumes/hotcell-{id}-{volume}"));
                !answer["message"].as_str().unwrap_or_default().contains("in use")
            });
        }
    }
    eventually("its directory is gone", || {
        let _ = fs::remove_dir_all(world.cells_dir().join(id));
        !world.cells_dir().join(id).exists()
    });
}

fn what_is_over_is_collected_and_told(world: &World) {
    let removed = |done: &Value, kind: &str| {
        let removed = done["removed"].as_array().unwrap();
        let found = removed.iter().find(|it| it["kind"] == kind);
        found.map_or(0, |it| it["count"].as_u64().unwrap())
    };
    let gc = |args: &[&'static str]| {
        let gc = world.hotcell(["gc", "--json"]).args(args.iter().copied());
        let gc = gc.env("HOTCELL_LOG_KEEP_S", "2").env("HOTCELL_VOLUME_KEEP_S", "1");
        serde_json::from_str::<Value>(&gc.run().succeeded().stdout()).unwrap()
    };
    world.text(["run", "--cell", "work", "echo old output"]);
    let exec = world.json(["ps", "--all", "--json"])["execs"][0]["id"].as_str().unwrap().to_owned();
    eventually("its time is over", || removed(&gc(&["--dry-run"]), "logs") == 1);
    assert_eq!(removed(&gc(&["--dry-run"]), "logs"), 1);
    assert_eq!(world.text(["logs", &exec]), "old output\n");
    let done = gc(&[]);
    assert_eq!((removed(&done, "logs"), removed(&done, "cells")), (1, 0), "{done}");
    let logs = world.hotcell(["logs", &exec]).run();
    assert_eq!(logs.stdout(), "");
    assert!(logs.stderr().contains("11 B of output were not kept"), "{logs:?}");

    // A volume whose time is over.
    world.text(["kill", "work"]);
    eventually("its time is over", || removed(&gc(&[]), "volumes") == 1);
    assert_eq!(fs::read_dir(world.cells_dir()).unwrap().count(), 0);
    eventually("its records are gone too", || gc(&[])["removed"] == Value::Array(Vec::new()));
}

fn a_server_gives_out_cells_that_it_made_before(world: &World) {
    let pooled =
        |call: Invocation| call.env("HOTCELL_POOL_SIZE", "2").env("HOTCELL_ORPHAN_GRACE_S", "2");
    let mut client = McpClient::start_with(pooled(world.hotcell(["serve"])), Era::Legacy);
    let places = || fs::read_dir(world.cells_dir()).map_or(0, Iterator::count);
    eventually("the pool is full", || places() == 2);
    let ready = || {
        let names = fs::read_dir(world.cells_dir()).unwrap();
        names.map(|it| it.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let made = ready();
    assert_eq!(world.json(["cells", "--all", "--json"])["cells"], Value::Array(Vec::new()));
    // The command line is given one, and so are the server's own callers.
    let spawn = world.hotcell(["spawn", "mine", "--persistent", "-e", "GIVEN=yes"]);
    pooled(spawn).run().succeeded();
    assert!(made.contains(&world.cell_id("mine")), "it was made anew");
    assert_eq!(world.text(["run", "--cell", "mine", "echo $GIVEN; touch file"]), "yes\n");
    eventually("the pool is full again", || places() == 3);
    client.call("cell_spawn", serde_json::json!({ "alias": "agents" }));
    let known = client.call("cell_info", serde_json::json!({ "cell": "agents" }));
    assert_eq!(known["cell"]["alias"], "agents", "{known}");
    // What is given out stays when the server goes; what is not goes.
    client.leave();
    eventually("only what somebody has is left", || {
        // Containers have nobody who clears up after them but whoever comes by.
        world.text(["cells"]);
        ready() == [world.cell_id("mine")]
    });
    assert_eq!(world.text(["run", "--cell", "mine", "ls"]), "file\n");
}

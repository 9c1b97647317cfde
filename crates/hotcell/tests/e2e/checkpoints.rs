//! Checkpoints and forks, as a person and an agent use them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{Chance, Era, McpClient, World, eventually, kill_9};

in_every_world! {
    a_mistake_is_one_command_away_from_undone,
    a_checkpoint_of_a_busy_cell_is_copied,
    forks_go_their_own_ways_and_outlive_their_parent,
    nothing_stays_of_cells_that_shared_layers,
    what_cannot_be_done_is_said,
}

in_worlds! { [root, rootless]
    a_call_that_is_given_up_leaves_no_cell_held_still,
    clients_killed_while_they_change_layers_leave_one_state_or_the_other,
    a_copy_needs_room_below_the_disk_limit,
    what_checkpoints_hold_counts_against_the_disk_limit,
    deleting_checkpoints_gives_room_back,
    what_a_fork_begins_with_counts_for_its_parent,
    a_fork_that_was_killed_leaves_no_checkpoint,
}

fn create(world: &World, cell: &str) -> Value {
    world.json(["checkpoint", "create", cell, "--json"])
}

fn id_of(checkpoint: &Value) -> &str {
    checkpoint["id"].as_str().unwrap()
}

fn a_mistake_is_one_command_away_from_undone(world: &World) {
    world.text(["run", "--cell", "work", "mkdir src; echo good > src/a; echo t > /tmp/t"]);
    let kept = create(world, "work");
    assert_eq!(kept["means"], "stacked");
    world.text(["run", "--cell", "work", "rm -rf src; echo bad > b"]);
    let diff = world.text(["checkpoint", "diff", "work", id_of(&kept)]);
    assert_eq!(diff, "A /workspace/b\nD /workspace/src/\nD /workspace/src/a\n");
    let patch = world.text(["checkpoint", "diff", "-p", "work", id_of(&kept)]);
    let expected = "diff --git a/workspace/b b/workspace/b\nnew file mode 100644\n--- /dev/null\n\
                    +++ b/workspace/b\n@@ -0,0 +1 @@\n+bad\n\
                    diff --git a/workspace/src/a b/workspace/src/a\ndeleted file mode 100644\n\
                    --- a/workspace/src/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-good\n";
    assert_eq!(patch, expected);
    world.text(["checkpoint", "restore", "work", id_of(&kept)]);
    assert_eq!(world.text(["run", "--cell", "work", "cat src/a /tmp/t; ls"]), "good\nt\nsrc\n");
    assert_eq!(world.text(["checkpoint", "diff", "work", id_of(&kept)]), "");
    let listed = world.json(["checkpoint", "list", "work", "--json"]);
    assert_eq!(listed["checkpoints"][0]["id"], kept["id"]);
    world.text(["checkpoint", "delete", "work", id_of(&kept)]);
    assert_eq!(world.text(["checkpoint", "list", "work"]), "");
    assert_eq!(world.text(["run", "--cell", "work", "cat src/a"]), "good\n");
}

fn a_checkpoint_of_a_busy_cell_is_copied(world: &World) {
    world.text(["run", "--cell", "busy", "echo kept > f"]);
    let exec = world.detach("busy", "sleep 1000");
    let kept = create(world, "busy");
    assert_eq!(kept["means"], "copied");
    world.text(["run", "--cell", "busy", "echo lost > f"]);
    let refused = world.hotcell(["checkpoint", "restore", "busy", id_of(&kept)]).run();
    refused.exited(4);
    world.text(["checkpoint", "restore", "--force", "busy", id_of(&kept)]);
    assert_eq!(world.text(["run", "--cell", "busy", "cat f"]), "kept\n");
    assert_eq!(world.exec(&exec)["end"]["cause"], "lost");
}

fn forks_go_their_own_ways_and_outlive_their_parent(world: &World) {
    world.text(["run", "--cell", "parent", "echo 1 > f"]);
    let forks = world.json(["fork", "parent", "--name", "child", "-n", "2", "--json"]);
    let aliases: Vec<&Value> =
        forks["cells"].as_array().unwrap().iter().map(|cell| &cell["alias"]).collect();
    assert_eq!(aliases, [&json!("child-1"), &json!("child-2")]);
    world.text(["run", "--cell", "child-1", "echo 2 >> f; echo own > g"]);
    assert_eq!(world.text(["run", "--cell", "child-2", "cat f; ls"]), "1\nf\n");
    assert_eq!(world.text(["run", "--cell", "parent", "cat f; ls"]), "1\nf\n");
    world.text(["kill", "--volumes", "--force", "parent"]);
    assert_eq!(world.text(["run", "--cell", "child-1", "cat f g"]), "1\n2\nown\n");
    let kept = create(world, "child-1");
    world.text(["run", "--cell", "child-1", "rm g"]);
    world.text(["fork", "child-1", "--checkpoint", id_of(&kept), "--name", "grandchild"]);
    world.text(["kill", "--volumes", "--force", "child-1"]);
    assert_eq!(world.text(["run", "--cell", "grandchild", "cat f g; id -u"]), "1\n2\nown\n1000\n");
}

fn nothing_stays_of_cells_that_shared_layers(world: &World) {
    world.text(["run", "--cell", "one", "echo 1 > f"]);
    for _ in 0..3 {
        create(world, "one");
        world.text(["run", "--cell", "one", "echo more >> f"]);
    }
    world.text(["fork", "one", "--name", "two"]);
    world.text(["kill", "--volumes", "--force", "one", "two"]);
    let layers = world.state_dir().join("native/layers");
    eventually("no layer is left", || std::fs::read_dir(&layers).unwrap().count() == 0);
}

fn what_cannot_be_done_is_said(world: &World) {
    world.text(["run", "--cell", "here", "echo 1 > f"]);
    let unknown = world.hotcell(["checkpoint", "restore", "here", "k_0000000000"]).run();
    unknown.exited(3);
    world.hotcell(["checkpoint", "create", "nowhere"]).run().exited(3);
    world.hotcell(["checkpoint", "diff", "here", "c_0000000000"]).run().exited(2);
    world.hotcell(["fork", "here", "-n", "0"]).run().exited(2);
    world.text(["run", "--cell", "taken", "true"]);
    world.hotcell(["fork", "here", "--name", "taken"]).run().exited(4);
    let cells = world.json(["cells", "--all", "--json"]);
    assert_eq!(cells["cells"].as_array().unwrap().len(), 2, "a fork was left: {cells}");
}

fn clients_killed_while_they_change_layers_leave_one_state_or_the_other(world: &World) {
    let mut chance = Chance::new();
    world.text(["run", "--cell", "torn", "echo kept > f"]);
    let kept = create(world, "torn");
    for round in 0..25 {
        world.text(["run", "--cell", "torn", &format!("echo {round} > f; echo {round} > g")]);
        let keeper = world.keeper("torn");
        let restores = chance.below(2) == 0;
        let change = if restores {
            world.hotcell(["checkpoint", "restore", "torn", id_of(&kept)]).start()
        } else {
            world.hotcell(["checkpoint", "create", "torn"]).start()
        };
        std::thread::sleep(Duration::from_micros(chance.below(25_000)));
        if chance.below(4) == 0 {
            kill_9(keeper);
        }
        change.kill();
        let seen = world.text(["run", "--cell", "torn", "cat f; cat g 2>&1 || true"]);
        let unchanged = format!("{round}\n{round}\n");
        let restored = restores && seen.starts_with("kept\ncat: g");
        assert!(seen == unchanged || restored, "round {round}, {restores}: {seen:?}");
    }
    world.text(["kill", "--volumes", "--force", "torn"]);
    let layers = world.state_dir().join("native/layers");
    eventually("no layer is left", || std::fs::read_dir(&layers).unwrap().count() == 0);
}

fn a_call_that_is_given_up_leaves_no_cell_held_still(world: &World) {
    let mut chance = Chance::new();
    let mut client = McpClient::start(world, Era::Modern);
    client.call("cell_spawn", json!({ "alias": "held", "persistent": true }));
    for round in 0..20 {
        let write = json!({ "cell": "held", "command": format!("echo {round} > f"), "wait_s": 30 });
        let wrote = client.call("exec_run", write);
        assert_eq!(wrote["exit_code"], 0, "round {round}: {wrote}");
        let asked = json!({ "cell": "held", "action": "create" });
        let call = client.ask_tool("cell_checkpoint", asked);
        std::thread::sleep(Duration::from_micros(chance.below(6000)));
        client.send(&json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": call, "reason": "given up" },
        }));
        let read = json!({ "cell": "held", "command": "cat f", "wait_s": 30 });
        let seen = client.call("exec_run", read);
        assert_eq!(seen["stdout"], format!("{round}\n"), "{seen}");
    }
    client.call("cell_kill", json!({ "cell": "held", "force": true, "volumes": true }));
    client.leave().0.succeeded();
}

fn a_copy_needs_room_below_the_disk_limit(world: &World) {
    let write = "head -c 6000000 /dev/zero > f";
    world.text(["run", "--cell", "busy", "--disk", "16M", write]);
    world.detach("busy", "sleep 1000");
    let first = create(world, "busy");
    assert_eq!(first["means"], "copied");
    let refused = world.hotcell(["checkpoint", "create", "busy"]).run();
    assert!(refused.stderr().contains("over its disk limit of 16 MiB"), "{refused:?}");
    assert!(refused.stderr().contains("delete checkpoints"), "{refused:?}");
    world.text(["checkpoint", "delete", "busy", id_of(&first)]);
    create(world, "busy");
}

fn what_checkpoints_hold_counts_against_the_disk_limit(world: &World) {
    let grow = "for i in $(seq 60); do head -c 20000 /dev/zero >> more; sleep 0.05; done; echo all";
    for cell in ["loop", "other"] {
        world.text(["run", "--cell", cell, "--disk", "16M", "true"]);
    }
    for _ in 0..5 {
        for cell in ["loop", "other"] {
            world.text(["run", "--cell", cell, "head -c 4000000 /dev/zero > big"]);
        }
        create(world, "loop");
    }
    let ended = world.hotcell(["run", "--cell", "loop", grow]).run();
    assert!(ended.stderr().contains("over its disk limit"), "{ended:?}");
    // It is the checkpoints: without them the same is far from the limit.
    assert_eq!(world.text(["run", "--cell", "other", grow]), "all\n");
    let listed = world.json(["checkpoint", "list", "loop", "--json"]);
    for checkpoint in listed["checkpoints"].as_array().unwrap() {
        let bytes = checkpoint["bytes"].as_u64().unwrap();
        assert!((4_000_000..4_500_000).contains(&bytes), "{listed}");
    }
}

fn deleting_checkpoints_gives_room_back(world: &World) {
    let grow = "for i in $(seq 60); do head -c 20000 /dev/zero >> more; sleep 0.05; done; echo all";
    world.text(["run", "--cell", "loop", "--disk", "16M", "true"]);
    let mut kept = Vec::new();
    for _ in 0..5 {
        world.text(["run", "--cell", "loop", "head -c 4000000 /dev/zero > big"]);
        kept.push(create(world, "loop"));
    }
    let disk = || world.json(["info", "loop", "--json"])["stats"]["disk_bytes"].as_u64();
    eventually("the cell takes much", || disk().is_some_and(|bytes| bytes > 20_000_000));
    for checkpoint in &kept {
        world.text(["checkpoint", "delete", "loop", id_of(checkpoint)]);
    }
    eventually("the cell takes little", || disk().is_some_and(|bytes| bytes < 6_000_000));
    eventually("there is room again", || {
        world.hotcell(["run", "--cell", "loop", grow]).run().stdout() == "all\n"
    });
    assert_eq!(world.text(["run", "--cell", "loop", "wc -c < big"]), "4000000\n");
}

fn what_a_fork_begins_with_counts_for_its_parent(world: &World) {
    world.text(["run", "--cell", "parent", "head -c 8000000 /dev/zero > big"]);
    world.text(["fork", "parent", "--name", "child"]);
    let disk = |cell: &str, least: u64| {
        world.text(["run", "--cell", cell, "head -c 3000000 /dev/zero > own"]);
        let info = || world.json(["info", cell, "--json"])["stats"]["disk_bytes"].as_u64();
        eventually("it was measured", || info().is_some_and(|bytes| bytes > least));
        info().unwrap()
    };
    let (parent, child) = (disk("parent", 11_000_000), disk("child", 3_000_000));
    assert!((11_000_000..12_000_000).contains(&parent), "the parent takes {parent}");
    assert!((3_000_000..4_000_000).contains(&child), "the child takes {child}");
    let kept = create(world, "child");
    let listed = world.json(["checkpoint", "list", "child", "--json"]);
    let bytes = listed["checkpoints"][0]["bytes"].as_u64().unwrap();
    assert!(bytes < 4_000_000, "{} takes {bytes}", id_of(&kept));
}

fn a_fork_that_was_killed_leaves_no_checkpoint(world: &World) {
    let mut chance = Chance::new();
    world.text(["run", "--cell", "parent", "true"]);
    let files = |kind: &str| {
        let cells = world.state_dir().join("native/cells");
        let cells = std::fs::read_dir(cells).unwrap().map(|cell| cell.unwrap().path().join(kind));
        let files = cells.flat_map(std::fs::read_dir).flatten();
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect::<Vec<_>>()
    };
    for round in 0..15 {
        world.text(["run", "--cell", "parent", &format!("echo {round} > f")]);
        let fork = world.hotcell(["fork", "parent", "-n", "3"]).start();
        std::thread::sleep(Duration::from_micros(chance.below(60_000)));
        fork.kill();
        assert_eq!(world.text(["checkpoint", "list", "parent"]), "");
    }
    let kept = create(world, "parent");
    world.text(["run", "--cell", "parent", "echo more > f"]);
    world.text(["checkpoint", "restore", "parent", id_of(&kept)]);
    let left = files("checkpoints");
    assert_eq!(left.len(), 1, "checkpoints of forks are left: {left:?}");
}

//! What all cells of a state directory may have together.

use serde_json::json;

use crate::world::{Era, Finished, McpClient, World, eventually};

in_worlds! { [root, single_id]
    a_cell_that_waits_can_be_seen_and_ended,
    a_server_runs_only_so_many_execs,
}

in_worlds! { [root]
    the_sum_is_kept_by_the_kernel_too,
}

in_every_world! {
    what_would_be_too_much_together_is_refused_with_the_reason,
    a_cell_waits_for_room,
    only_so_many_cells_have_processes,
}

const DISK: &str = "HOTCELL_ADMISSION_DISK_MB";
const WAIT: &str = "HOTCELL_ADMISSION_WAIT_S";
const EXECS: &str = "HOTCELL_ADMISSION_EXECS";

fn refused(finished: Finished, words: &[&str]) {
    let finished = finished.exited(6);
    let said = finished.stderr();
    for word in words {
        assert!(said.contains(word), "{word} is missing in {said}");
    }
}

fn what_would_be_too_much_together_is_refused_with_the_reason(world: &World) {
    let bounded = |name: &str, disk: &str| {
        world.hotcell(["spawn", name, "--persistent", "--disk", disk]).env(DISK, "1000").run()
    };
    bounded("first", "600M").succeeded();
    refused(bounded("second", "401M"), &["401", "1000", "600", "first", "admission.disk_mb"]);
    refused(bounded("never", "1001M"), &["1001", "admission.disk_mb"]);
    // Nothing of what was refused is left, and what fits is let in.
    let listed = world.json(["cells", "--json"]);
    assert_eq!(listed["cells"].as_array().unwrap().len(), 1, "{listed}");
    bounded("third", "400M").succeeded();
    // One that ended gives its room back.
    world.text(["kill", "--volumes", "first"]);
    bounded("second", "600M").succeeded();

    // Without the bound the same is let in.
    world.text(["spawn", "fourth", "--disk", "1001M"]);
}

fn a_cell_waits_for_room(world: &World) {
    world.text(["spawn", "first", "--disk", "600M"]);
    let waits = world
        .hotcell(["run", "--disk", "600M", "echo in"])
        .env(DISK, "1000")
        .env(WAIT, "60")
        .start();
    // It is in the index while it waits, and has no supervisor yet.
    eventually("the second cell is known", || {
        world.json(["cells", "--json"])["cells"].as_array().unwrap().len() == 2
    });
    world.text(["kill", "--volumes", "first"]);
    assert_eq!(waits.finish().succeeded().stdout(), "in\n");
    // What never fits is not waited for.
    let never = world
        .hotcell(["run", "--disk", "1001M", "true"])
        .env(DISK, "1000")
        .env(WAIT, "86400")
        .run();
    assert!(never.exited(125).stderr().contains("1001"));
}

fn only_so_many_cells_have_processes(world: &World) {
    let spawn = |name: &str| {
        let spawn = world.hotcell(["spawn", name, "--persistent"]);
        spawn.env("HOTCELL_ADMISSION_CELLS", "2").env("HOTCELL_SLEEP_AFTER_S", "1").run()
    };
    spawn("first").succeeded();
    world.text(["spawn", "second"]);
    refused(spawn("third"), &["2 cells", "first", "second", "admission.cells"]);
    // One that has fallen asleep does not count, and waking it does.
    eventually("the first is asleep", || {
        world.json(["info", "first", "--json"])["cell"]["state"] == "asleep"
    });
    spawn("third").succeeded();
    eventually("the third is asleep", || {
        world.json(["info", "third", "--json"])["cell"]["state"] == "asleep"
    });
    world.text(["spawn", "fourth"]);
    let woken =
        world.hotcell(["run", "--cell", "first", "true"]).env("HOTCELL_ADMISSION_CELLS", "2").run();
    assert!(woken.exited(125).stderr().contains("admission.cells"));
    world.text(["run", "--cell", "first", "true"]);
}

/// Whoever waits holds nothing that others need.
fn a_cell_that_waits_can_be_seen_and_ended(world: &World) {
    world.text(["spawn", "first", "--disk", "600M"]);
    let waits = |name: &str| {
        let spawn = world.hotcell(["spawn", name, "--disk", "600M"]).env(DISK, "1000");
        spawn.env(WAIT, "3600").start()
    };
    let known = |name: &str| {
        eventually("it is known", || {
            world.hotcell(["info", name, "--json"]).run().stdout().contains("\"starting\"")
        });
    };
    let waiting = waits("second");
    known("second");
    world.text(["kill", "--volumes", "second"]);
    let told = waiting.finish();
    assert_ne!(told.code(), 0);
    assert!(told.stderr().contains("ended while it waited"), "{told:?}");
    // Of two that wait, each for itself alone, neither keeps the other out.
    let (one, other) = (waits("second"), waits("third"));
    known("second");
    known("third");
    world.text(["kill", "--volumes", "first"]);
    eventually("one of them is let in", || {
        let listed = world.json(["cells", "--json"]);
        listed["cells"].as_array().unwrap().iter().any(|cell| cell["state"] == "ready")
    });
    let listed = world.json(["cells", "--json"]);
    let ready = listed["cells"].as_array().unwrap().iter().find(|it| it["state"] == "ready");
    let ready = ready.unwrap()["alias"].as_str().unwrap().to_owned();
    world.text(["kill", "--volumes", &ready]);
    // Those who waited longest are not first, but each has its turn.
    for waiting in [one, other] {
        waiting.finish();
    }
    let last = if ready == "second" { "third" } else { "second" };
    assert_eq!(world.json(["info", last, "--json"])["cell"]["state"], "ready");
}

fn a_server_runs_only_so_many_execs(world: &World) {
    let start = |wait: &str| {
        let serve = world.hotcell(["serve", "--cell", "busy"]).env(EXECS, "2").env(WAIT, wait);
        McpClient::start_with(serve, Era::Legacy)
    };
    let run = |agent: &mut McpClient, command: &str| {
        let arguments = json!({ "command": command, "wait_s": 0.1 });
        agent.request("tools/call", json!({ "name": "exec_run", "arguments": arguments }))
    };
    let mut agent = start("0");
    let first = agent.call("exec_run", json!({ "command": "sleep 1000", "wait_s": 0 }));
    // One whose end is waited for and one whose end is not.
    agent.call("exec_run", json!({ "command": "true", "wait_s": 20 }));
    let reads = json!({ "command": "read it", "stdin_open": true, "wait_s": 0 });
    let reads = agent.call("exec_run", reads);
    let refused = run(&mut agent, "true")["result"].to_string();
    for word in
        ["2 execs may be", "2 of them are", "admission.execs", first["exec_id"].as_str().unwrap()]
    {
        assert!(refused.contains(word), "{word} is missing in {refused}");
    }
    agent.call("exec_cancel", json!({ "exec_id": first["exec_id"] }));
    eventually("there is room again", || run(&mut agent, "true")["result"]["isError"] != true);
    // What a server began counts for the next one as well.
    agent.call("exec_cancel", json!({ "exec_id": reads["exec_id"] }));
    drop(agent);
    // One that may wait begins once there is room.
    let mut agent = start("600");
    let first = agent.call("exec_run", json!({ "command": "sleep 1000", "wait_s": 0 }));
    agent.call("exec_run", json!({ "command": "sleep 1000", "wait_s": 0 }));
    let waits = agent.ask_tool("exec_run", json!({ "command": "echo in" }));
    agent.call("exec_cancel", json!({ "exec_id": first["exec_id"] }));
    let answer = agent.answer(waits);
    assert_eq!(answer["result"]["structuredContent"]["stdout"], "in\n", "{answer}");
}

/// Where groups keep limits, one group for all cells keeps what they may have together.
fn the_sum_is_kept_by_the_kernel_too(world: &World) {
    let spawn = |name: &str| {
        let spawn = ["spawn", name, "--memory", "128M", "--pids", "100", "--allow", "good.test"];
        let spawn = world.hotcell(spawn);
        spawn.env("HOTCELL_ADMISSION_MEMORY_MB", "300").env("HOTCELL_ADMISSION_PIDS", "500").run()
    };
    spawn("first").succeeded();
    spawn("second").succeeded();
    let parent = |name: &str, controller: &str, is_carrier: bool| {
        let groups = world.cgroups_of(&world.cell_id(name));
        let group = groups.iter().map(|group| group.trim_start_matches("cgroup ").to_owned());
        let mut group = group.filter(|group| {
            let path = std::path::Path::new(group);
            path.join(controller).exists() && group.ends_with("-carrier") == is_carrier
        });
        std::path::PathBuf::from(group.next().unwrap()).parent().unwrap().to_owned()
    };
    let group = |name: &str, controller: &str| parent(name, controller, false);
    let limit = ["memory.limit_in_bytes", "memory.max"];
    let file = limit.into_iter().find(|file| {
        world.cgroups_of(&world.cell_id("first")).iter().any(|group| {
            std::path::Path::new(group.trim_start_matches("cgroup ")).join(file).exists()
        })
    });
    let Some(file) = file else { return };
    let all = group("first", file);
    assert_eq!(all, group("second", file), "both are in one group");
    assert!(all.file_name().unwrap().to_string_lossy().starts_with("s_"), "{}", all.display());
    // What carries has bounds of its own, and takes nothing of what cells may have.
    assert_eq!(Some(parent("first", file, true).as_path()), all.parent());
    let read = |file: &str| std::fs::read_to_string(all.join(file)).unwrap();
    assert_eq!(read(file).trim(), (300_u64 << 20).to_string());
    let pids = group("first", "pids.max").join("pids.max");
    let pids: u64 = std::fs::read_to_string(pids).unwrap().trim().parse().unwrap();
    assert_eq!(pids, 502, "one of ours for each cell");
    // The arithmetic made wrong: what both use together is more than all may.
    std::fs::write(all.join(file), (96_u64 << 20).to_string()).unwrap();
    let eat =
        "import time; kept = bytearray(80 << 20); print('eaten', flush=True); time.sleep(1000)";
    let first = world.hotcell(["run", "-d", "--cell", "first", "--", "python3", "-c", eat]).run();
    let first = first.succeeded().stdout().trim().to_owned();
    eventually("the first has it", || world.text(["logs", &first]).contains("eaten"));
    let second = world.hotcell(["run", "--cell", "second", "--", "python3", "-c", eat]).start();
    // One of the two is ended by the kernel; the machine is not asked for more.
    eventually("one is ended", || {
        let listed = world.json(["ps", "--all", "--json"]).to_string();
        listed.contains("oom_killed") || listed.contains("\"KILL\"")
    });
    drop(second);
    // It goes with the last cell in it.
    world.text(["kill", "--volumes", "first", "--force"]);
    world.text(["kill", "--volumes", "second", "--force"]);
    eventually("the group is gone", || !all.exists());
}

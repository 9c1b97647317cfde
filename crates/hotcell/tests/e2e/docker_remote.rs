//! Cells at a Docker engine of another machine: whatever becomes of the way to them, no byte of what
//! they print is lost, and no exit code.

use std::fs;
use std::time::Duration;

use crate::world::{
    Chance, Kind, OwnEngine, SMALL_IMAGE, Wire, World, ask_engine, eventually, eventually_some,
    labelled, processes_of, small_root,
};

in_worlds! { [remote]
    a_way_that_is_cut_or_frozen_loses_nothing,
    whoever_stands_between_may_be_killed,
    an_engine_that_is_killed_gives_back_what_was_written,
    a_container_that_somebody_removed_is_a_cell_that_sleeps,
    clients_killed_while_they_start_or_end_cells_leave_nothing,
    nothing_of_the_outpost_is_seen_from_the_cell,
    much_output_of_many_commands_comes_whole,
    records_that_are_not_wanted_any_more_go_there_too,
    a_disk_that_is_full_here_is_told_and_loses_nothing,
    volumes_that_somebody_removed_are_told_and_take_no_records_with_them,
    a_starter_that_is_killed_leaves_a_cell_that_can_be_started_and_killed,
}

/// Prints so many lines, some a second, and ends with a code of its own.
fn counting(lines: u32) -> String {
    format!("i=0; while [ $i -lt {lines} ]; do echo $i; i=$((i+1)); sleep 0.02; done; exit 7")
}

fn counted(lines: u32) -> String {
    (0..lines).map(|line| format!("{line}\n")).collect()
}

fn assert_whole(world: &World, exec: &str, lines: u32) {
    assert_eq!(world.ended(exec)["end"]["exit_code"], 7, "{exec}");
    assert_eq!(world.text(["logs", exec]), counted(lines));
}

fn a_way_that_is_cut_or_frozen_loses_nothing(world: &World) {
    let Some(wire) = world.wire() else { return };
    world.text(["spawn", "--persistent", "far"]);
    let exec = world.detach("far", &counting(300));
    wire.cut();
    let refused = world.hotcell(["run", "--cell", "far", "true"]).run();
    assert_eq!(refused.code(), 125, "{refused:?}");
    assert!(refused.stderr().contains("is kept"), "{refused:?}");
    assert_eq!(world.json(["info", "--json", "far"])["cell"]["state"], "unavailable");
    assert_eq!(world.exec(&exec)["state"], "running", "nobody knows better");
    wire.mend();
    assert_eq!(world.text(["run", "--cell", "far", "echo again"]), "again\n");
    assert_whole(world, &exec, 300);

    let exec = world.detach("far", &counting(300));
    wire.freeze();
    let refused = world.hotcell(["run", "--cell", "far", "true"]).run();
    assert_eq!(refused.code(), 125, "{refused:?}");
    wire.mend();
    assert_whole(world, &exec, 300);
}

/// The relay of a cell, which has its lock.
fn relay_of(world: &World, cell: &str) -> i32 {
    world.keeper(cell)
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn whoever_stands_between_may_be_killed(world: &World) {
    world.text(["spawn", "--persistent", "far"]);
    let id = world.cell_id("far");
    let exec = world.detach("far", &counting(200));
    kill(relay_of(world, "far"));
    assert_whole(world, &exec, 200);

    let exec = world.detach("far", &counting(200));
    ask_engine("DELETE", &format!("/containers/hotcell-{id}-outpost?force=1"));
    assert_whole(world, &exec, 200);

    // All at once, while somebody follows it.
    let live = world.hotcell(["run", "--cell", "far", &counting(200)]).start();
    live.await_stdout("50\n");
    let relay = relay_of(world, "far");
    ask_engine("DELETE", &format!("/containers/hotcell-{id}-outpost?force=1"));
    kill(relay);
    let exec = eventually_some("it is known", || {
        let listed = world.json(["ps", "--json"]);
        listed["execs"][0]["id"].as_str().map(str::to_owned)
    });
    assert_whole(world, &exec, 200);
    live.finish();
}

fn an_engine_that_is_killed_gives_back_what_was_written(world: &World) {
    let Some(mut engine) = OwnEngine::start(None) else { return };
    engine.give_image(SMALL_IMAGE, &small_root(world.home()));
    let wire = Wire::to(&engine.socket());
    let there = |args: &[&str]| {
        let call = world.hotcell([]).args(args.iter().copied());
        let call = call.env("HOTCELL_DOCKER_HOST", wire.address());
        call.env("HOTCELL_DOCKER_IMAGE", format!("{SMALL_IMAGE}:1")).run()
    };
    let text = |args: &[&str]| there(args).succeeded().stdout();
    let exec = text(&["run", "-d", "--cell", "far", &format!("touch file; {}", counting(2000))]);
    let exec = exec.trim();
    eventually("it prints", || text(&["logs", exec]).contains("20\n"));
    engine.kill();
    assert_eq!(there(&["run", "--cell", "far", "true"]).code(), 125);
    engine.restart();
    // An engine that comes back ends what it had, and this is what it had written by then.
    let lost = text(&["logs", exec]);
    assert!(counted(2000).starts_with(&lost) && lost.contains("20\n"), "{lost}");
    assert_eq!(text(&["run", "--cell", "far", "echo file*"]), "file\n");
    let lost_state = there(&["wait", "--json", exec]);
    assert!(lost_state.stdout().contains("lost") || lost_state.code() == 7, "{lost_state:?}");
    text(&["kill", "--force", "--volumes", "far"]);
    // An engine that was killed may find what it had removed before.
    eventually("nothing is left", || {
        text(&["reconcile"]);
        text(&["gc"]);
        engine.counts() == (0, 0)
    });
}

fn a_container_that_somebody_removed_is_a_cell_that_sleeps(world: &World) {
    world.text(["run", "--cell", "far", "echo kept > file"]);
    let id = world.cell_id("far");
    let exec = world.detach("far", "echo begun; sleep 1000");
    eventually("it has begun", || world.text(["logs", &exec]) == "begun\n");
    ask_engine("DELETE", &format!("/containers/hotcell-{id}?force=1"));
    assert_eq!(world.ended(&exec)["end"]["cause"], "lost");
    assert_eq!(world.text(["logs", &exec]), "begun\n");
    eventually("its outpost goes with it", || {
        labelled(world).iter().all(|one| !one.starts_with("container"))
    });
    assert_eq!(world.text(["run", "--cell", "far", "cat file"]), "kept\n");
}

fn clients_killed_while_they_start_or_end_cells_leave_nothing(world: &World) {
    let mut chance = Chance::new();
    for number in 0..8 {
        let name = format!("cell-{number}");
        let live = world.hotcell(["spawn", "--persistent", &name]).start();
        std::thread::sleep(Duration::from_millis(chance.below(1500)));
        live.kill();
        if number % 2 == 0 {
            let live = world.hotcell(["kill", "--force", "--volumes", &name]).start();
            std::thread::sleep(Duration::from_millis(chance.below(600)));
            live.kill();
        }
    }
    eventually("nothing is left", || {
        let cells = world.json(["cells", "--all", "--json"]);
        for cell in cells["cells"].as_array().unwrap() {
            world.hotcell(["kill", "--force", "--volumes", cell["id"].as_str().unwrap()]).run();
        }
        world.text(["reconcile"]);
        labelled(world).is_empty()
    });
    eventually("and nothing runs here", || processes_of(&world.state_dir()).is_empty());
}

fn nothing_of_the_outpost_is_seen_from_the_cell(world: &World) {
    world.text(["spawn", "far"]);
    let id = world.cell_id("far");
    let inside = ask_engine("GET", &format!("/containers/hotcell-{id}/json"));
    let beside = ask_engine("GET", &format!("/containers/hotcell-{id}-outpost/json"));
    let targets = |container: &serde_json::Value| -> Vec<String> {
        let mounts = container["Mounts"].as_array().cloned().unwrap_or_default();
        mounts.iter().map(|one| one["Destination"].as_str().unwrap().to_owned()).collect()
    };
    // The control: the outpost has them.
    for place in ["/.hotcell/place", "/.hotcell/records"] {
        assert!(targets(&beside).iter().any(|target| target == place), "{beside}");
        assert!(targets(&inside).iter().all(|target| target != place), "{inside}");
    }
    let written = "for f in $(find / -xdev -writable 2>/dev/null); do echo $f; done; \
                   find / \\( -name '*.sock' -o -name authority.json -o -name journal \\) 2>/dev/null; true";
    let seen = world.text(["run", "--cell", "far", written]);
    for name in ["place", "records", "journal", "authority", "link.sock", "keeper.sock"] {
        assert!(!seen.contains(name), "{name}: {seen}");
    }
    let config = &beside["HostConfig"];
    assert_eq!(config["Privileged"], false);
    assert_eq!(config["ReadonlyRootfs"], true);
    assert_eq!(config["CapDrop"], serde_json::json!(["ALL"]));
    assert_eq!(config["PidMode"], "");
    assert!(config["SecurityOpt"].to_string().contains("no-new-privileges"), "{config}");
}

fn much_output_of_many_commands_comes_whole(world: &World) {
    world.text(["spawn", "far"]);
    let execs: Vec<String> = (0..12)
        .map(|number| {
            let script = format!("yes 'this is line of {number}' | head -n 20000; exit {number}");
            world.detach("far", &script)
        })
        .collect();
    for (number, exec) in execs.iter().enumerate() {
        assert_eq!(world.ended(exec)["end"]["exit_code"], number);
        let expected = format!("this is line of {number}\n").repeat(20_000);
        assert_eq!(world.text(["logs", exec]), expected, "{number}");
    }
    // What is followed as it comes is the same.
    let followed = world.text(["run", "--cell", "far", "yes | head -c 3000000; echo end >&2"]);
    assert_eq!(followed.len(), 3_000_000);
}

fn records_that_are_not_wanted_any_more_go_there_too(world: &World) {
    world.text(["spawn", "--persistent", "far"]);
    let id = world.cell_id("far");
    let exec = world.detach("far", "yes | head -c 200000");
    assert_eq!(world.ended(&exec)["end"]["exit_code"], 0);
    let volume = ask_engine("GET", &format!("/volumes/hotcell-{id}-records"));
    let there = std::path::PathBuf::from(volume["Mountpoint"].as_str().unwrap()).join("log");
    let logs = || {
        let entries = fs::read_dir(&there).unwrap().flatten();
        entries.filter(|entry| entry.metadata().is_ok_and(|it| it.is_file())).count()
    };
    assert!(logs() > 0);
    std::thread::sleep(Duration::from_millis(1100));
    world.hotcell(["gc"]).env("HOTCELL_LOG_KEEP_S", "1").run().succeeded();
    kill(relay_of(world, "far"));
    assert_eq!(world.text(["run", "--cell", "far", "echo on"]), "on\n");
    eventually("it is let go of there", || logs() <= 1);
    let told = world.hotcell(["logs", &exec]).run();
    assert!(told.stderr().contains("200000") || told.stdout().is_empty(), "{told:?}");
}

/// Only what the far machine has is complete then; it is taken up again where it stopped.
fn a_disk_that_is_full_here_is_told_and_loses_nothing(world: &World) {
    world.text(["spawn", "--persistent", "far"]);
    let id = world.cell_id("far");
    let records = world.state_dir().join("cells").join(&id).join("records");
    let bound = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
        .arg(&records)
        .status();
    assert_eq!(world.kind(), Kind::Remote);
    assert!(bound.unwrap().success());
    kill(relay_of(world, "far"));
    let run = world.hotcell(["run", "--cell", "far", "yes | head -c 2000000"]).run();
    assert_ne!(run.code(), 0, "{run:?}");
    let unmounted = std::process::Command::new("umount").arg("-l").arg(&records).status();
    assert!(unmounted.unwrap().success());
    eventually("it is there again", || {
        world.hotcell(["run", "--cell", "far", "true"]).run().code() == 0
    });
    let listed = world.json(["ps", "--all", "--json"]);
    let all = listed["execs"].as_array().unwrap();
    let exec = all.iter().find(|exec| exec.to_string().contains("2000000")).unwrap();
    let exec = exec["id"].as_str().unwrap();
    assert_eq!(world.text(["logs", exec]).len(), 2_000_000);
}

fn volumes_that_somebody_removed_are_told_and_take_no_records_with_them(world: &World) {
    world.text(["spawn", "--persistent", "poor"]);
    let id = world.cell_id("poor");
    let exec = world.detach("poor", "echo said; exit 7");
    assert_eq!(world.ended(&exec)["end"]["exit_code"], 7);
    ask_engine("DELETE", &format!("/containers/hotcell-{id}?force=1"));
    for purpose in ["records", "workspace"] {
        eventually("its volume is removed", || {
            ask_engine("DELETE", &format!("/volumes/hotcell-{id}-{purpose}"));
            let found = ask_engine("GET", &format!("/volumes/hotcell-{id}-{purpose}"));
            found["Name"].is_null()
        });
    }
    let refused = world.hotcell(["run", "--cell", "poor", "true"]).run();
    assert!(refused.stderr().contains("is gone, and its files with it"), "{refused:?}");
    assert_eq!(world.text(["logs", &exec]), "said\n", "what is here stays");
    assert_eq!(world.ended(&exec)["end"]["exit_code"], 7);
    world.text(["kill", "--force", "--volumes", "poor"]);
}

fn a_starter_that_is_killed_leaves_a_cell_that_can_be_started_and_killed(world: &World) {
    for next in [&["run", "--cell", "half", "echo well"][..], &["kill", "--volumes", "half"]] {
        let live = world.hotcell(["spawn", "--persistent", "half"]).start();
        // The moment at which it is written down that it may be there.
        eventually("it is begun", || {
            let cells = fs::read_dir(world.cells_dir()).into_iter().flatten().flatten();
            cells.into_iter().any(|cell| cell.path().join("begun.json").exists())
        });
        live.kill();
        let call = world.hotcell([]).args(next.iter().copied()).run();
        assert_eq!(call.code(), 0, "{call:?}");
        world.hotcell(["kill", "--force", "--volumes", "half"]).run();
        eventually("nothing is left", || {
            world.text(["reconcile"]);
            labelled(world).is_empty()
        });
    }
}

//! What is lost or damaged on disk is found again, or stated; nothing else is lost with it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::world::{World, eventually, is_alive, kill_9, marked, unique};

in_every_world! {
    a_deleted_database_is_rebuilt,
    a_damaged_database_is_put_aside_and_rebuilt,
    a_machine_that_was_restarted_is_recognised,
    cells_whose_state_directory_was_removed_end,
}

in_worlds! { [root, rootless, single_id]
    a_damaged_description_costs_its_cell_alone,
    cells_that_the_index_lost_are_found_after_a_restart,
}

in_worlds! { [single_id]
    a_description_that_cannot_be_read_is_not_missing,
}

in_worlds! { [root, single_id]
    a_damaged_record_costs_itself_alone,
    a_damaged_line_of_the_journal_costs_itself_alone,
    a_supervisor_that_is_written_down_wrongly_is_nobodys_fault,
}

/// A world with a bit of everything in it: an exec that ended, one that runs, a cell that is gone.
struct Past {
    ended: String,
    running: String,
    of_gone_cell: String,
    mark: String,
}

fn make_past(world: &World) -> Past {
    let mark = unique("51");
    let ended = world.detach("lasting", "echo kept > f; echo output; exit 6");
    world.ended(&ended);
    let started = world.json(["run", "-d", "--json", "echo from a cell that is gone; exit 2"]);
    let of_gone_cell = started["exec"]["id"].as_str().unwrap().to_owned();
    world.ended(&of_gone_cell);
    let gone = started["cell"]["id"].as_str().unwrap();
    eventually("the cell is gone", || world.hotcell(["info", gone]).run().code() == 3);
    let running = world.detach("lasting", &format!("echo begun; sleep {mark}"));
    eventually("it runs", || world.text(["logs", &running]).contains("begun"));
    Past { ended, running, of_gone_cell, mark }
}

fn assert_all_is_found(world: &World, past: &Past) {
    let listed = world.json(["cells", "--json"]);
    assert_eq!(listed["cells"][0]["alias"], "lasting", "{listed}");
    assert_eq!(world.text(["run", "--cell", "lasting", "cat f"]), "kept\n");
    let exec = world.ended(&past.ended);
    assert_eq!((&exec["end"]["cause"], &exec["end"]["exit_code"]), (&"exited".into(), &6.into()));
    assert_eq!(world.text(["logs", &past.ended]), "output\n");
    assert_eq!(world.exec(&past.running)["state"], "running");
    assert_eq!(world.text(["logs", &past.running]), "begun\n");
    assert!(!marked(&past.mark).is_empty(), "the exec runs on");
    assert_eq!(world.ended(&past.of_gone_cell)["end"]["exit_code"], 2);
    assert_eq!(world.text(["logs", &past.of_gone_cell]), "from a cell that is gone\n");
    world.text(["cancel", "--grace", "0", &past.running]);
    assert_eq!(world.ended(&past.running)["end"]["cause"], "cancelled");
}

fn a_deleted_database_is_rebuilt(world: &World) {
    let past = make_past(world);
    for name in ["hotcell.db", "hotcell.db-wal", "hotcell.db-shm"] {
        fs::remove_file(world.state_dir().join(name)).unwrap();
    }
    assert_all_is_found(world, &past);
}

fn a_damaged_database_is_put_aside_and_rebuilt(world: &World) {
    let past = make_past(world);
    let database = world.state_dir().join("hotcell.db");
    let length = usize::try_from(fs::metadata(&database).unwrap().len()).unwrap();
    fs::write(&database, vec![0x5a; length]).unwrap();
    world.own(&database);
    let told = world.hotcell(["cells"]).run().succeeded();
    assert!(told.stderr().contains("damaged"), "{told:?}");
    assert_all_is_found(world, &past);
    let names = fs::read_dir(world.state_dir()).unwrap().flatten();
    let aside = names.filter(|entry| entry.file_name().to_string_lossy().contains("corrupt"));
    assert!(aside.count() >= 1, "the damaged one is kept");
}

/// Ends the processes of a cell as a power failure does, and makes the past another boot's.
fn restart_machine(world: &World, cell: &str, edit: impl FnOnce(&mut Value)) -> PathBuf {
    let file = world.native_dir(cell).join("supervisor.json");
    let (keeper, supervisor) = (world.keeper(cell), world.supervisor(cell));
    kill_9(keeper);
    kill_9(supervisor);
    let mut process: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    edit(&mut process);
    fs::write(&file, serde_json::to_vec(&process).unwrap()).unwrap();
    file
}

fn a_machine_that_was_restarted_is_recognised(world: &World) {
    let exec = world.detach("old", "echo kept > f; echo begun; sleep 1000");
    eventually("it runs", || world.text(["logs", &exec]).contains("begun"));
    // After a restart the number belongs to another process, which nobody may touch.
    let mut bystander = Command::new("sleep")
        .arg("1000")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = bystander.id();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start: u64 =
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
    restart_machine(world, "old", |process| {
        process["boot"] = "00000000-0000-0000-0000-000000000000".into();
        process["pid"] = pid.into();
        process["start_time"] = start.into();
    });

    assert_eq!(world.ended(&exec)["end"]["cause"], "lost");
    assert_eq!(world.text(["logs", &exec]), "begun\n");
    let cells = world.json(["cells", "--all", "--json"]);
    assert_eq!(cells["cells"][0]["state"], "stopped");
    assert_eq!(world.text(["run", "--cell", "old", "cat f"]), "kept\n");
    restart_machine(world, "old", |process| {
        process["boot"] = "00000000-0000-0000-0000-000000000000".into();
        process["pid"] = pid.into();
        process["start_time"] = start.into();
    });
    world.text(["kill", "--volumes", "--force", "old"]);
    assert!(bystander.try_wait().unwrap().is_none(), "a process of somebody else was killed");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

/// As after a power cut, which can take the last transactions of the database with it.
fn cells_that_the_index_lost_are_found_after_a_restart(world: &World) {
    world.text(["run", "--cell", "early", "echo early > f"]);
    let database = world.state_dir().join("hotcell.db");
    let old = fs::read(&database).unwrap();
    let exec = world.detach("late", "echo late > f; exit 3");
    world.ended(&exec);
    for ending in ["-wal", "-shm"] {
        let _ = fs::remove_file(world.state_dir().join(format!("hotcell.db{ending}")));
    }
    fs::write(&database, old).unwrap();
    let index = |sql: &str| {
        let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); \
                      print(c.execute(sys.argv[2]).fetchall())";
        let path = database.to_str().unwrap();
        world.other("python3", ["-c", script, path, sql]).run().succeeded().stdout()
    };
    // The control: the index does not have it.
    assert_eq!(index("SELECT count(*) FROM cell WHERE alias = 'late'"), "[(0,)]\n");
    assert_eq!(world.text(["run", "--cell", "late", "cat f"]), "late\n");
    assert_eq!(world.ended(&exec)["end"]["exit_code"], 3);
    assert_eq!(world.text(["run", "--cell", "early", "cat f"]), "early\n");
}

fn a_supervisor_that_is_written_down_wrongly_is_nobodys_fault(world: &World) {
    world.text(["run", "--cell", "odd", "echo kept > f"]);
    let file = restart_machine(world, "odd", |_| {});
    fs::write(&file, "{ not json").unwrap();
    let finished = world.hotcell(["run", "--cell", "odd", "cat f"]).run();
    assert_eq!(finished.clone().succeeded().stdout(), "kept\n", "{finished:?}");
}

/// The only segment of an exec's log.
fn segment(world: &World, cell: &str, exec: &str) -> PathBuf {
    let log = world.state_dir().join("cells").join(world.cell_id(cell)).join("records/log");
    let entries = fs::read_dir(log).unwrap().flatten();
    entries.map(|entry| entry.path()).find(|path| names(path, exec)).unwrap()
}

fn names(path: &Path, exec: &str) -> bool {
    path.file_name().unwrap().to_string_lossy().starts_with(exec)
}

fn layers(world: &World) -> Vec<String> {
    let entries = fs::read_dir(world.state_dir().join("native/layers")).unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

fn a_damaged_description_costs_its_cell_alone(world: &World) {
    for cell in ["sound", "damaged", "lost"] {
        world.text(["run", "--cell", cell, &format!("echo of {cell} > f")]);
        world.text(["checkpoint", "create", cell]);
    }
    let of = |cell: &str| world.native_dir(cell).join("cell.json");
    let (damaged, lost) = (of("damaged"), of("lost"));
    let (damaged_dir, lost_id) = (world.native_dir("damaged"), world.cell_id("lost"));
    let end = |cell| {
        kill_9(world.keeper(cell));
        kill_9(world.supervisor(cell));
    };
    end("damaged");
    end("lost");
    let whole = fs::read(&damaged).unwrap();
    fs::write(&damaged, "").unwrap();
    fs::write(&lost, &whole[..whole.len() / 2]).unwrap();
    fs::remove_file(lost.with_file_name("cell.json.previous")).unwrap();

    // It says what is wrong and what to do, and nothing of it is removed.
    let told = world.hotcell(["run", "--cell", "damaged", "cat f"]).run();
    assert_ne!(told.code(), 0, "{told:?}");
    assert!(told.stderr().contains("cell.json is damaged"), "{told:?}");
    assert!(told.stderr().contains("kill --force"), "{told:?}");
    for cell in ["damaged", "lost"] {
        let told = world.hotcell(["kill", "--volumes", cell]).run();
        assert!(told.stderr().contains("kill --force"), "{cell}: {told:?}");
    }
    let told = world.hotcell(["reconcile"]).run();
    assert!(told.stderr().contains("cell.json is damaged"), "{told:?}");
    world.text(["gc"]);

    // Other cells go on, and their layers are removed with them.
    assert_eq!(world.text(["run", "--cell", "sound", "cat f"]), "of sound\n");
    world.text(["checkpoint", "create", "sound"]);
    let sound = world.cell_id("sound");
    assert!(layers(world).iter().any(|layer| layer.ends_with(&sound)));
    world.text(["kill", "--volumes", "sound"]);
    eventually("its layers are removed", || {
        world.text(["gc"]);
        !layers(world).iter().any(|layer| layer.ends_with(&sound))
    });

    // Nor does it begin again without its files if the description is lost altogether.
    fs::remove_file(&damaged).unwrap();
    let told = world.hotcell(["run", "--cell", "damaged", "cat f"]).run();
    assert!(told.stderr().contains("cell.json is missing"), "{told:?}");
    // With its description it is as it was.
    fs::write(&damaged, &whole).unwrap();
    assert_eq!(world.text(["run", "--cell", "damaged", "cat f"]), "of damaged\n");
    end("damaged");
    fs::write(&damaged, "{").unwrap();
    for cell in ["damaged", "lost"] {
        world.text(["kill", "--volumes", "--force", cell]);
    }
    assert!(!damaged_dir.exists());
    assert_eq!(
        world.json(["cells", "--all", "--json"])["cells"],
        serde_json::json!([]),
        "{lost_id}"
    );
    eventually("all layers are removed", || {
        world.text(["gc"]);
        layers(world).is_empty()
    });
    let ids = world.state_dir().join("native/ids");
    assert_eq!(fs::read_dir(ids).map_or(0, Iterator::count), 0, "its ids are given back");
}

/// As with a disk that fails, or a process that has too many files open.
fn a_description_that_cannot_be_read_is_not_missing(world: &World) {
    world.text(["run", "--cell", "hidden", "echo kept > f"]);
    world.text(["run", "--cell", "other", "true"]);
    let file = world.native_dir("hidden").join("cell.json");
    kill_9(world.keeper("hidden"));
    kill_9(world.supervisor("hidden"));
    let readable = fs::metadata(&file).unwrap().permissions();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    let told = world.hotcell(["reconcile"]).run();
    assert!(told.stderr().contains("cell.json cannot be read: Permission denied"), "{told:?}");
    world.text(["gc"]);
    fs::set_permissions(&file, readable).unwrap();
    assert_eq!(world.text(["run", "--cell", "hidden", "cat f"]), "kept\n");
}

fn a_damaged_record_costs_itself_alone(world: &World) {
    let script = "for i in 1 2 3 4 5; do echo line $i; sleep 0.05; done; exit 3";
    let exec = world.detach("marred", script);
    world.ended(&exec);
    let path = segment(world, "marred", &exec);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(6).position(|window| window == b"line 3").unwrap();
    bytes[at] ^= 0xff;
    fs::write(&path, &bytes).unwrap();

    let logs = world.hotcell(["logs", &exec]).run().succeeded();
    let text = logs.stdout();
    assert!(text.contains("line 1\n") && text.contains("line 2\n"), "{logs:?}");
    assert!(!text.contains("line 3"), "{logs:?}");
    assert!(text.contains("line 4\n") && text.contains("line 5\n"), "{logs:?}");
    assert!(logs.stderr().contains("not kept"), "the gap is stated: {logs:?}");
    world.hotcell(["wait", &exec]).run().exited(3);

    fs::write(&path, b"not a log at all").unwrap();
    let logs = world.hotcell(["logs", &exec]).run();
    assert!(logs.code() == 0 || logs.stderr().contains("error: "), "{logs:?}");
    assert_eq!(world.text(["run", "--cell", "marred", "echo fine"]), "fine\n");
}

fn a_damaged_line_of_the_journal_costs_itself_alone(world: &World) {
    let execs: Vec<String> =
        (0..4).map(|n| world.detach("scarred", &format!("echo {n}; exit {n}"))).collect();
    for exec in &execs {
        world.ended(exec);
    }
    let cell = world.cell_id("scarred");
    let journal = world.state_dir().join("cells").join(&cell).join("records/journal");
    let (keeper, supervisor) = (world.keeper("scarred"), world.supervisor("scarred"));
    kill_9(keeper);
    kill_9(supervisor);
    let text = fs::read_to_string(&journal).unwrap();
    let ended = |line: &&str| line.contains("\"ended\"") && line.contains(&execs[1]);
    let line = text.lines().find(ended).unwrap();
    fs::write(&journal, text.replace(line, &line.replace("exited", "exTted"))).unwrap();
    for name in ["hotcell.db", "hotcell.db-wal", "hotcell.db-shm"] {
        fs::remove_file(world.state_dir().join(name)).unwrap();
    }
    for number in [0, 2, 3] {
        assert_eq!(world.ended(&execs[number])["end"]["exit_code"], number, "exec {number}");
    }
    assert_eq!(world.ended(&execs[1])["end"]["cause"], "lost", "its end is not known any more");
    assert_eq!(world.text(["logs", &execs[1]]), "1\n");
    assert_eq!(world.text(["run", "--cell", "scarred", "echo fine"]), "fine\n");
}

fn cells_whose_state_directory_was_removed_end(world: &World) {
    let mark = unique("52");
    let exec = world.detach("removed", &format!("echo up; while :; do sleep {mark}; done"));
    eventually("it runs", || world.text(["logs", &exec]).contains("up"));
    let keeper = world.keeper("removed");
    // Whoever still writes there may put something into a directory that is about to go.
    eventually("all of it is removed", || {
        fs::remove_dir_all(world.state_dir()).is_ok() || !world.state_dir().exists()
    });
    eventually("nothing of it runs", || marked(&mark).is_empty() && !is_alive(keeper));
}

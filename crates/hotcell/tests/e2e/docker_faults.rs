//! What can go wrong with a Docker engine: after it, what is known and what is there agree, and nothing
//! is left.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use crate::world::{
    Chance, Finished, OwnEngine, SMALL_IMAGE, World, ask_engine, docker, eventually, labelled,
    small_root, unique,
};

in_worlds! { [docker]
    an_engine_that_is_killed_under_load_loses_no_command_and_no_file,
    an_engine_without_room_is_told_and_nothing_is_left,
    a_slow_engine_is_waited_for,
    an_engine_that_is_stuck_is_told,
    clients_killed_while_they_end_cells_leave_nothing,
    a_volume_that_somebody_uses_is_told_and_goes_later,
    what_is_left_at_the_engine_is_found_by_its_label,
}

/// Hotcell at an engine of the test's own.
struct There<'a> {
    world: &'a World,
    address: String,
}

impl There<'_> {
    fn hotcell(&self, args: &[&str]) -> Finished {
        let call = self.world.hotcell([]).args(args.iter().copied());
        let call = call.env("HOTCELL_DOCKER_HOST", &self.address);
        call.env("HOTCELL_DOCKER_IMAGE", format!("{SMALL_IMAGE}:1")).run()
    }

    fn text(&self, args: &[&str]) -> String {
        self.hotcell(args).succeeded().stdout()
    }
}

fn an_engine_that_is_killed_under_load_loses_no_command_and_no_file(world: &World) {
    let Some(mut engine) = OwnEngine::start(None) else { return };
    engine.give_image(SMALL_IMAGE, &small_root(world.home()));
    let there = There { world, address: engine.address() };
    let script =
        "touch file; i=0; while [ $i -lt 60 ]; do echo $i; i=$((i+1)); sleep 0.02; done; exit 7";
    let cells = ["one", "two", "three"];
    let execs: Vec<String> = cells
        .iter()
        .flat_map(|cell| [cell, cell])
        .map(|cell| there.text(&["run", "-d", "--cell", cell, script]).trim().to_owned())
        .collect();
    engine.kill();
    for cell in cells {
        assert_eq!(there.text(&["run", "--cell", cell, "echo on"]), "on\n");
    }
    let refused = there.hotcell(&["spawn", "more"]);
    assert_eq!(refused.code(), 10, "{refused:?}");
    let all: String = (0..60).map(|line| format!("{line}\n")).collect();
    for exec in &execs {
        assert_eq!(there.hotcell(&["wait", exec]).code(), 7);
        assert_eq!(there.text(&["logs", exec]), all);
    }
    engine.restart();
    for cell in cells {
        assert_eq!(there.text(&["run", "--cell", cell, "echo file*"]), "file\n");
    }
    there.text(&["spawn", "more"]);
    for cell in ["one", "two", "three", "more"] {
        there.text(&["kill", "--force", "--volumes", cell]);
    }
    let done: serde_json::Value =
        serde_json::from_str(&there.text(&["reconcile", "--json"])).unwrap();
    // An engine that was killed may find what it had removed before.
    assert_eq!(done["errors"], serde_json::json!([]), "{done}");
    eventually("nothing is left", || engine.counts() == (0, 0));
}

fn an_engine_without_room_is_told_and_nothing_is_left(world: &World) {
    let Some(engine) = OwnEngine::start(Some(128)) else { return };
    engine.give_image(SMALL_IMAGE, &small_root(world.home()));
    let there = There { world, address: engine.address() };
    there.text(&["run", "--cell", "before", "echo kept > file"]);
    let filler = engine.data().join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    while file.write_all(&[0; 65536]).is_ok() {}
    let refused = there.hotcell(&["run", "true"]);
    assert!(refused.stderr().contains("no space left"), "{refused:?}");
    drop(file);
    fs::remove_file(filler).unwrap();
    assert_eq!(there.text(&["run", "--cell", "before", "cat file"]), "kept\n");
    assert_eq!(there.text(&["run", "echo well"]), "well\n");
    there.text(&["kill", "--force", "--volumes", "before"]);
    eventually("nothing is left", || {
        there.text(&["reconcile"]);
        engine.counts() == (0, 0)
    });
}

/// What stands between a client and the engine.
#[derive(Clone, Copy)]
enum Way {
    Slow,
    Stuck,
}

/// A socket that leads to the engine by such a way.
fn lead(world: &World, way: Way) -> String {
    let (socket, _) = docker().unwrap();
    let path = world.home().join("way.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let engine = UnixStream::connect(&socket).unwrap();
            let (to, from) = (client.try_clone().unwrap(), engine.try_clone().unwrap());
            std::thread::spawn(move || carry(client, engine, way));
            std::thread::spawn(move || carry(from, to, way));
        }
    });
    format!("unix://{}", path.display())
}

fn carry(mut from: UnixStream, mut to: UnixStream, way: Way) {
    let mut piece = [0; 65536];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        match way {
            Way::Slow => std::thread::sleep(Duration::from_millis(150)),
            Way::Stuck => continue,
        }
        if to.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

fn a_slow_engine_is_waited_for(world: &World) {
    let address = lead(world, Way::Slow);
    let slow = |args: &[&str]| {
        world.hotcell([]).args(args.iter().copied()).env("HOTCELL_DOCKER_HOST", &address).run()
    };
    assert_eq!(slow(&["run", "echo well"]).succeeded().stdout(), "well\n");
    slow(&["spawn", "slow", "--persistent"]).succeeded();
    slow(&["kill", "--volumes", "slow"]).succeeded();
    eventually("nothing is left", || {
        world.text(["cells"]);
        labelled(world).is_empty()
    });
}

fn an_engine_that_is_stuck_is_told(world: &World) {
    let address = lead(world, Way::Stuck);
    let refused = world.hotcell(["run", "true"]).env("HOTCELL_DOCKER_HOST", &address).run();
    assert!(refused.stderr().contains("does not answer"), "{refused:?}");
    assert_eq!(labelled(world), Vec::<String>::new());
}

fn clients_killed_while_they_end_cells_leave_nothing(world: &World) {
    let mut chance = Chance::new();
    for number in 0..8 {
        let name = format!("cell-{number}");
        world.text(["spawn", "--persistent", &name]);
        let live = world.hotcell(["kill", "--force", "--volumes", &name]).start();
        std::thread::sleep(Duration::from_millis(chance.below(400)));
        live.kill();
    }
    let cells = world.json(["cells", "--all", "--json"]);
    for cell in cells["cells"].as_array().unwrap() {
        world.hotcell(["kill", "--force", "--volumes", cell["id"].as_str().unwrap()]).run();
    }
    eventually("nothing is left", || {
        world.text(["reconcile"]);
        labelled(world).is_empty()
    });
    assert_eq!(world.json(["cells", "--all", "--json"])["cells"].as_array().unwrap().len(), 0);
}

fn a_volume_that_somebody_uses_is_told_and_goes_later(world: &World) {
    world.text(["spawn", "--persistent", "shared"]);
    let id = world.cell_id("shared");
    let (_, image) = docker().unwrap();
    let name = unique("hotcell-test-other").to_lowercase();
    let body = serde_json::json!({
        "Image": image, "Cmd": ["sleep", "1000"], "NetworkDisabled": true,
        "HostConfig": { "Binds": [format!("hotcell-{id}-workspace:/data")] },
    });
    let path = format!("/containers/create?name={name}");
    let body = body.to_string();
    assert!(post_json(&path, &body)["Id"].is_string());
    let refused = world.hotcell(["kill", "--force", "--volumes", "shared"]).run();
    assert!(refused.stderr().contains("in use"), "{refused:?}");
    ask_engine("DELETE", &format!("/containers/{name}?force=1"));
    eventually("it goes with the next look", || {
        world.text(["reconcile"]);
        labelled(world).is_empty()
    });
}

/// What the engine answers to a question with JSON.
fn post_json(path: &str, body: &str) -> serde_json::Value {
    let (socket, _) = docker().unwrap();
    let mut stream = UnixStream::connect(socket).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nHost: docker\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim());
    serde_json::from_str(body).unwrap_or_default()
}

/// What carries the label of this state directory is removed, and what carries another's stays.
fn what_is_left_at_the_engine_is_found_by_its_label(world: &World) {
    world.text(["spawn", "--persistent", "mine"]);
    let state = fs::read_to_string(world.state_dir().join("docker/id.json")).unwrap();
    let volume = |cell: &str, state: &str| {
        let labels = serde_json::json!({ "dev.hotcell.cell": cell, "dev.hotcell.state": state });
        let body =
            serde_json::json!({ "Name": format!("hotcell-{cell}-workspace"), "Labels": labels });
        assert!(post_json("/volumes/create", &body.to_string())["Name"].is_string());
    };
    volume("c_0000000011", state.trim_matches('"'));
    volume("c_0000000012", "another");
    let done = world.json(["reconcile", "--json"]);
    let counts = ["discovered", "adopted", "orphaned", "missing"].map(|it| done[it].as_u64());
    assert_eq!(counts, [Some(2), Some(0), Some(1), Some(0)], "{done}");
    let stays = ask_engine("GET", "/volumes/hotcell-c_0000000012-workspace");
    assert_eq!(stays["Labels"]["dev.hotcell.state"], "another", "{stays}");
    ask_engine("DELETE", "/volumes/hotcell-c_0000000012-workspace");
    assert_eq!(world.text(["run", "--cell", "mine", "echo fine"]), "fine\n");
}

//! The network of a cell while processes come and go: clients, carriers, keepers, the cell itself.

use serde_json::json;

use crate::egress::{carrier, dripping, in_cell, python, spawn, waiting};
use crate::world::{
    Era, McpClient, Outside, World, descendants, eventually, is_alive, kill_9, send,
};

in_worlds! { [root, rootless, single_id, docker]
    the_death_of_a_client_cuts_no_connection,
    a_killed_carrier_is_replaced,
    a_killed_keeper_cuts_no_connection,
    a_cell_that_slept_reaches_what_it_may,
}

in_worlds! { [root, rootless, single_id]
    a_carrier_without_sockets_is_replaced,
    a_restored_cell_and_a_fork_reach_what_they_may,
}

fn the_death_of_a_client_cuts_no_connection(world: &World) {
    let outside = Outside::start(&["good.test"]);
    let rule = outside.rule("good.test");
    let settings = outside.settings();
    let serve = settings
        .iter()
        .fold(world.hotcell(["serve", "--cell", "c", "--allow", &rule]), |it, (k, v)| it.env(k, v));
    let mut agent = McpClient::start_with(serve, Era::Legacy);
    let script = format!(
        "
import time
with socket.create_connection(('good.test', {}), 100) as s:
    s.sendall(b'drip\\n')
    got = 0
    while not __import__('os').path.exists('/workspace/stop'):
        part = s.recv(65536)
        assert part
        got += len(part)
        open('/workspace/got', 'w').write(str(got))
    print('whole')",
        outside.port
    );
    let begun = agent.call("exec_run", json!({ "command": python(&script), "wait_s": 0 }));
    let exec = begun["exec_id"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
    let got = || -> u64 {
        let end = &world.exec(&exec)["end"];
        assert!(end.is_null(), "{end}: {:?}", world.hotcell(["logs", &exec]).run());
        let read = world.hotcell(["cat", "c:/workspace/got"]).run();
        read.stdout().trim().parse().unwrap_or_default()
    };
    eventually("something was carried", || got() > 0);
    agent.kill();
    let before = got();
    eventually("more is carried", || got() > before);
    world.text(["run", "--cell", "c", "touch /workspace/stop"]);
    world.hotcell(["wait", &exec]).run().succeeded();
}

fn a_killed_carrier_is_replaced(world: &World) {
    let outside = Outside::start(&["good.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test")]);
    let cut = dripping(world, &outside, "c", "good.test");
    let first = carrier(world, "c");
    kill_9(first);
    eventually("another carries", || carrier(world, "c") != first);
    let ended = cut.finish().succeeded().stdout();
    assert!(ended.ends_with("reset\n") || ended.ends_with("end\n"), "{ended}");
    let live = waiting(world, &outside, "good.test");
    live.await_stdout("waits\n5\n");
    live.finish().succeeded();
}

/// Answers of a process that hangs could come when something else was asked.
fn a_carrier_without_sockets_is_replaced(world: &World) {
    let outside = Outside::start(&["good.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test"), "*.wide.test".to_owned()]);
    let first = carrier(world, "c");
    let makers = descendants(first);
    assert_eq!(makers.len(), 1, "{makers:?}");
    send(makers[0], rustix::process::Signal::STOP);
    let script = "
try:
    print(socket.gethostbyname('a.wide.test'))
except socket.gaierror:
    print('not there')";
    in_cell(world, &outside, "c", script).succeeded();
    eventually("another carries", || carrier(world, "c") != first && !is_alive(first));
    kill_9(makers[0]);
    let live = waiting(world, &outside, "good.test");
    live.await_stdout("waits\n5\n");
    live.finish().succeeded();
}

fn a_killed_keeper_cuts_no_connection(world: &World) {
    let outside = Outside::start(&["good.test", "late.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test")]);
    let kept = dripping(world, &outside, "c", "good.test");
    let (keeper, process) = (world.keeper("c"), carrier(world, "c"));
    kill_9(keeper);
    eventually("it is gone", || !is_alive(keeper));
    kept.await_stdout("more\n");
    // The next keeper leaves it as it is, and its rules can be changed.
    outside.hotcell(world, ["net", "allow", "c", &outside.rule("late.test")]).run().succeeded();
    assert_eq!(carrier(world, "c"), process);
    let live = waiting(world, &outside, "late.test");
    live.await_stdout("waits\n5\n");
    live.finish().succeeded();
    outside.hotcell(world, ["net", "deny", "c", "good.test"]).run().succeeded();
    kept.await_stdout("reset\n");
    kept.finish().succeeded();
}

fn a_cell_that_slept_reaches_what_it_may(world: &World) {
    let outside = Outside::start(&["good.test", "late.test"]);
    let rule = outside.rule("good.test");
    outside
        .hotcell(world, ["spawn", "c", "--persistent", "--allow", &rule])
        .env("HOTCELL_SLEEP_AFTER_S", "1")
        .run()
        .succeeded();
    let process = carrier(world, "c");
    eventually("the cell is asleep", || {
        world.json(["info", "--json", "c"])["cell"]["state"] == "asleep"
    });
    eventually("nothing carries for it", || !is_alive(process));
    outside.hotcell(world, ["net", "allow", "c", &outside.rule("late.test")]).run().succeeded();
    let script = format!(
        "print(*[len(ask(n, {}, 'send 5')) for n in ('good.test', 'late.test')])",
        outside.port
    );
    assert_eq!(in_cell(world, &outside, "c", &script).succeeded().stdout(), "5 5\n");
}

fn a_restored_cell_and_a_fork_reach_what_they_may(world: &World) {
    let outside = Outside::start(&["good.test", "taken.test"]);
    spawn(world, &outside, "c", &[outside.rule("good.test"), outside.rule("taken.test")]);
    let kept = outside.hotcell(world, ["checkpoint", "create", "c"]).run().succeeded().stdout();
    outside.hotcell(world, ["net", "deny", "c", "taken.test"]).run().succeeded();
    outside.hotcell(world, ["checkpoint", "restore", "c", kept.trim()]).run().succeeded();
    outside.hotcell(world, ["fork", "c", "--name", "f"]).run().succeeded();
    let script = format!(
        "
print(len(ask('good.test', {port}, 'send 5')))
try:
    ask('taken.test', {port}, 'send 5')
except socket.gaierror:
    print('not there')",
        port = outside.port
    );
    for cell in ["c", "f"] {
        assert_eq!(
            in_cell(world, &outside, cell, &script).succeeded().stdout(),
            "5\nnot there\n",
            "{cell}"
        );
    }
}

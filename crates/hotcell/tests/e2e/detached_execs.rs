//! Execs in the background: seen, read, fed, waited for, ended.

use rustix::process::Signal;
use serde_json::Value;

use crate::world::{World, eventually, handles, send};

in_every_world_whatsoever! {
    an_exec_goes_on_without_us_and_is_waited_for,
    a_log_is_read_from_any_point_and_filtered,
    following_shows_what_comes_until_the_end,
    attaching_shows_new_output_and_passes_input,
    leaving_an_exec_leaves_it_running,
    a_signal_reaches_the_command,
    cancelling_asks_first_and_says_what_became_of_it,
    a_command_that_ignores_the_request_is_killed,
    a_detached_run_without_a_name_takes_its_cell_with_it,
    the_list_of_execs_has_pages,
}

fn messages(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn await_log(world: &World, exec: &str, text: &str) {
    eventually(&format!("{exec} prints {text:?}"), || world.text(["logs", exec]).contains(text));
}

fn an_exec_goes_on_without_us_and_is_waited_for(world: &World) {
    let command = "echo out; echo err >&2; until test -e go; do sleep 0.01; done; exit 5";
    let exec = world.detach("bg", command);
    let listed = world.json(["ps", "--json"]);
    assert_eq!(listed["execs"][0]["id"], exec.as_str());
    assert_eq!(listed["execs"][0]["state"], "running");
    assert!(world.text(["ps"]).contains(&exec));

    let waiting = world.hotcell(["wait", &exec]).start();
    world.text(["run", "--cell", "bg", "touch go"]);
    waiting.finish().exited(5);
    let ended = world.ended(&exec);
    assert_eq!(ended["end"]["cause"], "exited");
    assert_eq!(ended["end"]["exit_code"], 5);
    assert_eq!(ended["end"]["usage"]["stdout_bytes"], 4);
    assert_eq!(ended["end"]["usage"]["stderr_bytes"], 4);
    assert!(!world.text(["ps"]).contains(&exec), "it is no longer among those that run");
    assert!(world.text(["ps", "--all"]).contains("exited 5"));

    let logs = world.hotcell(["logs", &exec]).run().succeeded();
    assert_eq!((logs.stdout().as_str(), logs.stderr().as_str()), ("out\n", "err\n"));
}

fn a_log_is_read_from_any_point_and_filtered(world: &World) {
    let script = "for i in $(seq 1 200); do echo line $i; done; echo apart >&2; echo last";
    let exec = world.detach("log", script);
    world.ended(&exec);
    let whole = world.text(["logs", &exec]);
    assert_eq!(whole.lines().count(), 201);
    assert_eq!(
        world.text(["logs", "--tail", "2", &exec]).lines().count(),
        2 - 1,
        "of the last two lines of both streams one went to each"
    );
    assert_eq!(
        world.text(["logs", "--tail", "3", "--stream", "stdout", &exec]),
        "line 199\nline 200\nlast\n"
    );
    assert_eq!(world.text(["logs", "--grep", "^line 1[05]$", &exec]), "line 10\nline 15\n");
    assert_eq!(world.text(["logs", "--stream", "stderr", "--grep", "line", &exec]), "");

    let all = messages(&world.text(["logs", "--json", &exec]));
    let seqs: Vec<u64> = all.iter().map(|m| m["seq"].as_u64().unwrap()).collect();
    assert!(seqs[0] == 1 && seqs.windows(2).all(|pair| pair[1] > pair[0]), "{seqs:?}");
    let middle = seqs[seqs.len() / 2].to_string();
    let rest = messages(&world.text(["logs", "--json", "--after", &middle, &exec]));
    assert_eq!(rest, all[seqs.len() / 2 + 1..]);
    let end = seqs.last().unwrap().to_string();
    assert_eq!(world.text(["logs", "--json", "--after", &end, &exec]), "");
}

fn following_shows_what_comes_until_the_end(world: &World) {
    let exec = world.text(["run", "-d", "-i", "--cell", "fed", "echo one; cat; echo end; exit 2"]);
    let exec = exec.trim();
    let live = world.hotcell(["logs", "-f", exec]).start();
    live.await_stdout("one\n");
    world.text(["input", exec, "two"]);
    live.await_stdout("two\n");
    world.text(["input", "-n", exec, "three "]);
    world.hotcell(["input", exec, "-"]).input("four\n").run().succeeded();
    live.await_stdout("three four\n");
    world.text(["input", "--eof", exec]);
    assert_eq!(live.finish().succeeded().stdout(), "one\ntwo\nthree four\nend\n");
    world.hotcell(["wait", exec]).run().exited(2);
    let refused = world.hotcell(["input", exec, "too late"]).run().exited(4);
    assert!(refused.stderr().contains("has ended"), "{refused:?}");
}

fn attaching_shows_new_output_and_passes_input(world: &World) {
    let exec =
        world.text(["run", "-d", "-i", "--cell", "joined", "read a; echo got $a; read b; exit 4"]);
    let mut live = world.hotcell(["attach", exec.trim()]).start_with_input();
    live.await_stderr("joined");
    live.write(b"something\n");
    live.await_stdout("got something\n");
    live.write(b"more\n");
    live.finish().exited(4);
}

fn leaving_an_exec_leaves_it_running(world: &World) {
    let exec = world.detach("left", "echo up; sleep 1000");
    await_log(world, &exec, "up");
    let live = world.hotcell(["attach", &exec]).start();
    live.await_stderr("joined");
    eventually("it listens for signals", || handles(live.pid(), Signal::INT));
    send(live.pid(), Signal::INT);
    let left = live.finish().succeeded();
    assert!(left.stderr().contains("it runs on"), "{left:?}");
    assert_eq!(world.exec(&exec)["state"], "running");
}

fn a_signal_reaches_the_command(world: &World) {
    let exec = world.detach("sig", "trap 'echo usr1' USR1; echo up; while :; do sleep 0.02; done");
    await_log(world, &exec, "up");
    world.text(["input", "--signal", "USR1", &exec]);
    await_log(world, &exec, "usr1");
    assert_eq!(world.exec(&exec)["state"], "running");
}

fn cancelling_asks_first_and_says_what_became_of_it(world: &World) {
    let exec =
        world.detach("stop", "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.02; done");
    await_log(world, &exec, "up");
    let waiting = world.hotcell(["wait", &exec]).start();
    assert!(world.text(["cancel", &exec]).contains("cancelled"));
    waiting.finish().exited(130);
    let ended = world.ended(&exec);
    assert_eq!(ended["end"]["cause"], "cancelled");
    assert!(world.text(["logs", &exec]).contains("bye"));
    assert!(world.text(["cancel", &exec]).contains("already ended"));
    let again = world.json(["cancel", "--json", &exec]);
    assert_eq!(again["status"], "already_ended");
}

fn a_command_that_ignores_the_request_is_killed(world: &World) {
    let exec = world.detach("deaf", "trap '' TERM INT; echo up; while :; do sleep 0.02; done");
    await_log(world, &exec, "up");
    world.text(["cancel", "--signal", "INT", "--grace", "0.2", &exec]);
    let ended = world.ended(&exec);
    assert_eq!(
        (&ended["end"]["cause"], &ended["end"]["signal"]),
        (&"cancelled".into(), &"KILL".into())
    );
}

fn a_detached_run_without_a_name_takes_its_cell_with_it(world: &World) {
    let started = world.json(["run", "-d", "--json", "echo done; exit 1"]);
    let exec = started["exec"]["id"].as_str().unwrap();
    let cell = started["cell"]["id"].as_str().unwrap();
    world.hotcell(["wait", exec]).run().exited(1);
    eventually("the cell is gone", || world.hotcell(["info", cell]).run().code() == 3);
    assert_eq!(world.text(["logs", exec]), "done\n", "the output outlives the cell");
    assert_eq!(world.text(["cells", "--all"]).lines().count(), 1, "only the table's head");
}

fn the_list_of_execs_has_pages(world: &World) {
    for number in 0..5 {
        world.text(["run", "--cell", "many", &format!("echo {number}")]);
    }
    let first = world.json(["ps", "--all", "--limit", "2", "--json"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = world.json(["ps", "--all", "--limit", "10", "--cursor", cursor, "--json"]);
    assert!(second.get("next_cursor").is_none_or(Value::is_null), "{second}");
    let ids = |page: &Value| -> Vec<String> {
        let execs = page["execs"].as_array().unwrap();
        execs.iter().map(|exec| exec["command"]["shell"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        [ids(&first), ids(&second)].concat(),
        ["echo 4", "echo 3", "echo 2", "echo 1", "echo 0"]
    );
}

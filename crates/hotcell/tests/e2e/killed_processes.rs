//! Any process may be killed at any moment: execs, output and exit codes are not lost.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::world::{World, descendants, eventually, is_alive, kill_9, marked, unique};

in_every_world! {
    killing_the_client_leaves_the_exec_of_a_named_cell_running,
    killing_the_client_of_an_unnamed_cell_ends_the_cell_after_its_grace,
    a_killed_keeper_is_replaced,
    a_killed_keeper_does_not_keep_a_cell_from_ending,
    a_dead_supervisor_ends_its_execs_and_keeps_its_files,
    supervisor_and_keeper_killed_together_leave_a_cell_that_wakes,
}

in_worlds! { [root, single_id]
    clients_and_keepers_killed_at_random_lose_nothing,
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
    world.text(["kill", "--force", "kept"]);
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
    assert_eq!(descendants(supervisor), Vec::<i32>::new());
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

/// What an exec of the random test prints: numbered lines on both streams.
fn chatter(number: u64) -> String {
    let lines = 40 + number % 60;
    format!(
        "for i in $(seq 1 {lines}); do echo \"{number}:$i\"; \
         test $((i % 7)) = 0 && echo \"{number}!$i\" >&2; \
         test $((i % 11)) = 0 && sleep 0.005; done; exit {}",
        number % 90
    )
}

fn wanted(number: u64) -> (String, String) {
    let lines = 40 + number % 60;
    let out = (1..=lines).map(|i| format!("{number}:{i}\n")).collect();
    let err = (1..=lines).filter(|i| i % 7 == 0).map(|i| format!("{number}!{i}\n")).collect();
    (out, err)
}

/// A sequence that differs from run to run and is told when the test fails.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Reads an exec's output by cursor, in pages of one request each, each by another process.
fn read_by_cursor(world: &World, exec: &str) -> (String, String) {
    let (mut after, mut out, mut err) = (0, String::new(), String::new());
    loop {
        let text = world.text(["logs", "--json", "--after", &after.to_string(), exec]);
        if text.is_empty() {
            return (out, err);
        }
        for line in text.lines() {
            let message: Value = serde_json::from_str(line).unwrap();
            let seq = message["seq"].as_u64().unwrap();
            assert_eq!(seq, after + 1, "no seq is left out: {line}");
            after = seq;
            let sink = if message["stream"] == "stdout" { &mut out } else { &mut err };
            sink.push_str(message["data"].as_str().unwrap());
        }
    }
}

fn random_kills(world: &World, rounds: u64) {
    let mut seed = [0; 8];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()).unwrap();
    let seed = u64::from_le_bytes(seed) | 1;
    eprintln!("seed {seed}");
    let mut chance = Chance(seed);
    let mut keys = BTreeMap::new();
    for round in 0..rounds {
        let key = format!("round-{round}");
        let mut clients = Vec::new();
        // One that starts the exec, and one that reads along when it can.
        let run = ["run", "--cell", "storm", "--idempotency-key", &key];
        clients.push(world.hotcell(run).arg(&chatter(round)).start());
        if let Some(other) = keys.keys().next_back().and_then(|last: &u64| keys.get(last)) {
            let other: &String = other;
            clients.push(world.hotcell(["logs", "-f", other]).start());
        }
        std::thread::sleep(std::time::Duration::from_micros(chance.below(60_000)));
        if chance.below(8) == 0 {
            kill_9(world.keeper("storm"));
        }
        for client in clients {
            client.kill();
        }
        // Asked again with the same key, it is the same exec, started or not before.
        let started = world.json([
            "run",
            "-d",
            "--json",
            "--cell",
            "storm",
            "--idempotency-key",
            &key,
            &chatter(round),
        ]);
        keys.insert(round, started["exec"]["id"].as_str().unwrap().to_owned());
    }
    for (round, exec) in &keys {
        let ended = world.ended(exec);
        let code = i64::try_from(round % 90).unwrap();
        assert_eq!(
            (&ended["end"]["cause"], &ended["end"]["exit_code"]),
            (&"exited".into(), &code.into()),
            "seed {seed}, round {round}: {ended}"
        );
        assert_eq!(read_by_cursor(world, exec), wanted(*round), "seed {seed}, round {round}");
    }
    let ids: std::collections::BTreeSet<&String> = keys.values().collect();
    assert_eq!(ids.len() as u64, rounds, "seed {seed}: every key is an exec of its own");
    let listed = world.json(["ps", "--all", "--limit", "1000", "--json"]);
    assert_eq!(
        listed["execs"].as_array().unwrap().len() as u64,
        rounds,
        "seed {seed}: none ran twice"
    );
}

fn clients_and_keepers_killed_at_random_lose_nothing(world: &World) {
    world.text(["spawn", "storm"]);
    random_kills(world, 60);
}

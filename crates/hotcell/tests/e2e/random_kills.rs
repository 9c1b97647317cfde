//! Processes killed at random moments, round after round: nothing is lost and nothing is left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::world::{Chance, World, eventually, kill_9, processes_of, session_of};

in_worlds! { [root, single_id]
    clients_and_keepers_killed_at_random_lose_nothing,
}

in_worlds! { [root, rootless]
    clients_and_keepers_killed_while_they_make_cells_leave_nothing,
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
    let mut chance = Chance::new();
    let seed = chance.state();
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
        // Not to wait for anything: to strike at any moment.
        std::thread::sleep(Duration::from_micros(chance.below(60_000)));
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
    let ids: BTreeSet<&String> = keys.values().collect();
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

fn clients_and_keepers_killed_while_they_make_cells_leave_nothing(world: &World) {
    let mut chance = Chance::new();
    world.text(["run", "true"]);
    let cells = world.state_dir().join("native/cells");
    for round in 0..50 {
        let client = world.hotcell(["run", "echo made"]).env("HOTCELL_ORPHAN_GRACE_S", "1").start();
        std::thread::sleep(Duration::from_micros(chance.below(50_000)));
        if round % 2 == 0 {
            // A keeper has a session of its own; its child becomes a supervisor, which is spared.
            for pid in processes_of(&cells).into_iter().filter(|pid| session_of(*pid) == Some(*pid))
            {
                // It may have ended by itself meanwhile.
                let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
            }
            let finished = client.finish();
            assert!([0, 125].contains(&finished.code()), "{finished:?}");
        } else {
            client.kill();
        }
    }
    let mut left = String::new();
    let gone = std::panic::catch_unwind(AssertUnwindSafe(|| {
        eventually("every cell ends by itself or at the next look", || {
            let listed = world.json(["cells", "--all", "--json"])["cells"].clone();
            let placed: Vec<_> =
                fs::read_dir(&cells).unwrap().flatten().map(|e| e.path()).collect();
            left = format!("{listed} {placed:?}");
            placed.is_empty() && listed.as_array().unwrap().is_empty()
        });
    }));
    assert!(gone.is_ok(), "{left}");
    // What clears away the last of them may take a moment longer than that.
    eventually("no process is left", || processes_of(&cells).is_empty());
    assert_eq!(world.text(["run", "echo works"]), "works\n");
}

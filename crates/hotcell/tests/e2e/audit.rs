//! The ledger: every call by whatever way it came, and whatever is done to it is found.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::egress::python;
use crate::world::{Era, HttpServer, McpClient, Outside, Sent, World, eventually};

in_worlds! { [root, rootless]
    calls_are_written_down_by_whatever_way_they_came,
    what_was_tampered_with_is_found,
}

in_worlds! { [root]
    nothing_that_was_said_is_in_the_ledger,
    connections_are_written_down_once_and_outlive_their_cell,
    whoever_has_the_key_can_verify_what_was_exported,
    many_processes_write_to_one_ledger,
}

/// Every entry, as it is printed.
fn entries(world: &World, args: &[&str]) -> Vec<Value> {
    let printed =
        world.hotcell(["audit", "--json", "-n", "10000"]).args(args.iter().copied()).run();
    let printed = printed.succeeded().stdout();
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn find<'a>(entries: &'a [Value], kind: &str, what: &str, who: &str) -> &'a Value {
    let found = entries
        .iter()
        .find(|it| it["kind"] == kind && it["what"] == what && it["principal"] == who);
    found.unwrap_or_else(|| panic!("no {kind} {what} of {who} in {entries:#?}"))
}

fn segment(world: &World) -> PathBuf {
    let directory = world.state_dir().join("ledger");
    fs::read_dir(directory).unwrap().map(|it| it.unwrap().path()).max().unwrap()
}

fn calls_are_written_down_by_whatever_way_they_came(world: &World) {
    world.hotcell(["run", "--cell", "work", "exit 3"]).run().exited(3);
    let me = format!("local:{}", fs::metadata(world.state_dir()).unwrap().uid());
    let told = entries(world, &["--cell", "work"]);
    let cell = world.cell_id("work");
    let start = find(&told, "exec_start", "exec_start", &me);
    let end = find(&told, "exec_end", "exec_end", "hotcell");
    assert_eq!((&start["cell"], &start["exec"]), (&json!(cell), &end["exec"]));
    assert_eq!((&end["outcome"], &end["details"]["exit_code"]), (&json!("exited"), &json!(3)));
    let call = find(&told, "call", "exec_run", &me);
    assert_eq!((&call["outcome"], &call["role"]), (&json!("ok"), &json!("operator")));
    assert_eq!((&call["args"], &call["call_id"]), (&start["args"], &start["call_id"]));
    // An exec that nobody waits for ends as well.
    let detached = world.detach("work", "exit 5");
    eventually("its end is written down", || {
        entries(world, &["--exec", &detached, "--kind", "exec_end"]).len() == 1
    });
    // An agent over stdio, and one over HTTP.
    let mut client = McpClient::start(world, Era::Modern);
    client.call("exec_run", json!({ "cell": "work", "command": "true" }));
    client.leave().0.succeeded();
    let server = HttpServer::start(world);
    let run = json!({ "cell": "work", "command": "exit 7" });
    let sent = Sent::post("/v1/execs", &run).with("x-request-id", "call-of-the-test");
    let ran = server.ask(&sent).is(201).json();
    // The ledger is not for agents.
    server.ask(&Sent::get("/v1/audit")).is(403);
    server.ask(&Sent::get("/v1/audit/summary")).is(403);
    server.terminate().succeeded();
    let agents: Vec<Value> = entries(world, &["--kind", "call"])
        .into_iter()
        .filter(|it| it["role"] == "agent" && it["what"] == "exec_run")
        .collect();
    assert_eq!(agents.len(), 2, "{agents:#?}");
    let exec = ran["exec"]["id"].as_str().unwrap();
    let kinds: Vec<Value> =
        entries(world, &["--exec", exec]).iter().map(|it| it["kind"].clone()).collect();
    assert_eq!(kinds, ["exec_start", "call", "exec_end"]);
    let refused = entries(world, &["--verdict", "denied"]);
    assert_eq!(refused.len(), 2);
    assert_eq!(
        (&refused[0]["what"], &refused[0]["rule"]),
        (&json!("audit_query"), &json!("scope:audit"))
    );
    let summary = world.json(["audit", "summary", "--json"]);
    assert_eq!(summary["rules"][0], json!({ "name": "scope:audit", "count": 2 }));
    assert!(world.text(["audit", "summary"]).contains("scope:audit"));
    assert!(world.text(["audit"]).contains("exec_start"));
    let report = world.json(["audit", "verify", "--json"]);
    assert_eq!((&report["state"], &report["first"]), (&json!("intact"), &json!(1)));
    assert_eq!(report["verified"], report["last"]);
}

fn what_was_tampered_with_is_found(world: &World) {
    for _ in 0..3 {
        world.text(["run", "--cell", "work", "true"]);
    }
    let verify = || world.hotcell(["audit", "verify"]).run();
    let said = verify().succeeded().stdout();
    assert!(said.starts_with("intact: "), "{said}");
    let known = said.lines().find_map(|line| line.strip_prefix("the newest entry is ")).unwrap();
    world.hotcell(["audit", "verify", "--expect", known]).run().succeeded();
    let (segment, head) = (segment(world), world.state_dir().join("ledger.head"));
    let whole = fs::read_to_string(&segment).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let written = |lines: &[&str]| fs::write(&segment, lines.join("\n") + "\n").unwrap();
    let kept_head = fs::read(&head).unwrap();
    let found = |word: &str| {
        // Whoever verifies changes nothing: a second time the same is said.
        for _ in 0..2 {
            let said = verify().exited(1).stdout();
            assert!(said.contains(word), "{word}: {said}");
        }
        fs::write(&segment, &whole).unwrap();
        fs::write(&head, &kept_head).unwrap();
        assert!(verify().succeeded().stdout().starts_with("intact: "));
    };
    written(&[&lines[..3], &lines[4..]].concat());
    found("removed: entry 3 is gone");
    let changed = lines[3].replace("local:", "locax:");
    written(&[&lines[..3], &[changed.as_str()], &lines[4..]].concat());
    found("changed: entry 3 is not as it was written");
    written(&[&lines[..3], &[lines[4], lines[3]], &lines[5..]].concat());
    found("reordered: entry 3 is not in its place");
    written(&[&lines[..3], &[lines[2]], &lines[3..]].concat());
    found("duplicated: entry 2 is there more than once");
    written(&lines[..lines.len() - 1]);
    found(" is gone from the end");
    fs::write(&head, "").unwrap();
    found("head_missing: ");
    // Whoever writes goes on, and what was found stays in the ledger.
    written(&lines[..lines.len() - 1]);
    world.text(["cells"]);
    let said = verify().exited(1).stdout();
    assert!(said.contains("broken: ") && said.contains(": cut"), "{said}");
    let after = said.lines().find(|line| line.starts_with("broken: entry ")).unwrap();
    let after = after.split(' ').nth(2).unwrap();
    world.hotcell(["audit", "verify", "--after", after]).run().succeeded();
    fs::remove_dir_all(segment.parent().unwrap()).unwrap();
    fs::create_dir(segment.parent().unwrap()).unwrap();
    fs::write(&segment, &whole).unwrap();
    fs::write(&head, &kept_head).unwrap();
    let key = world.state_dir().join("ledger.key");
    let kept_key = fs::read(&key).unwrap();
    fs::write(&key, "ab".repeat(32)).unwrap();
    assert!(verify().exited(1).stdout().contains("key_wrong: "));
    fs::write(&key, kept_key).unwrap();
    assert!(verify().succeeded().stdout().starts_with("intact: "));
}

fn nothing_that_was_said_is_in_the_ledger(world: &World) {
    let secret = ["sw", "ordf", "ish-4711"].concat();
    world.hotcell(["secret", "set", "token"]).input(secret.as_str()).run().succeeded();
    let run = ["run", "--cell", "work", "--secret", "token", "-e", "FLAVOUR=vanilla-4711"];
    world.hotcell(run).arg("echo chocolate-4711; test -n \"$TOKEN\"").run().succeeded();
    world
        .hotcell(["run", "--cell", "work", "-i", "cat"])
        .input("strawberry-4711")
        .run()
        .succeeded();
    let server = HttpServer::start_with(world, &[], &[("HOTCELL_SERVE_SECRETS", "token")]);
    let put = Sent::put("/v1/cells/work/files/hazelnut.txt", "pistachio-4711");
    let put = server.ask(&put);
    assert!(put.status < 300, "{put:?}");
    let words = json!({ "cell": "work", "command": "cat", "stdin": "lemon-4711" });
    server.ask(&Sent::post("/v1/execs", &words)).is(201);
    server.terminate().succeeded();
    let told = entries(world, &[]);
    assert!(told.len() > 8, "{told:#?}");
    assert_eq!(
        find(&told, "admin", "secret_set", told[0]["principal"].as_str().unwrap())["details"]["secret"],
        "token"
    );
    let mut files =
        vec![world.state_dir().join("ledger.head"), world.state_dir().join("ledger.key")];
    files.extend(
        fs::read_dir(world.state_dir().join("ledger")).unwrap().map(|it| it.unwrap().path()),
    );
    assert!(files.len() >= 3);
    for file in files {
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o077, 0, "{}", file.display());
        let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        for said in [
            secret.as_str(),
            "vanilla",
            "chocolate",
            "strawberry",
            "hazelnut",
            "pistachio",
            "lemon",
        ] {
            assert!(!text.contains(said), "{said} is in {}", file.display());
        }
    }
}

fn connections_are_written_down_once_and_outlive_their_cell(world: &World) {
    let outside = Outside::start(&["allowed.test"]);
    let rule = outside.rule("allowed.test");
    let port = rule.rsplit(':').next().unwrap().to_owned();
    let script = python(&format!(
        "ask('allowed.test', {port}, 'echo')\ntry:\n  ask('refused.test', {port}, 'echo')\nexcept OSError: pass"
    ));
    outside.hotcell(world, ["run", "--cell", "net", "--allow", &rule, &script]).run().succeeded();
    let cell = world.cell_id("net");
    let told = |verdict: &str| {
        entries(world, &["--cell", &cell, "--kind", "egress", "--verdict", verdict])
    };
    eventually("the end of the connection is written down", || {
        told("allowed").iter().any(|it| it["what"] == "closed")
    });
    let (allowed, denied) = (told("allowed"), told("denied"));
    assert_eq!(allowed.len(), 2, "{allowed:#?}");
    assert_eq!(allowed[0]["details"]["name"], "allowed.test");
    assert!(denied.iter().all(|it| it["details"]["name"] == "refused.test") && !denied.is_empty());
    world.text(["kill", "--volumes", "--force", "net"]);
    // Nothing is taken over a second time.
    assert_eq!((told("allowed").len(), told("denied").len()), (2, denied.len()));
    world.hotcell(["audit", "verify"]).run().succeeded();
}

/// What somebody else writes to verify an export, from what `docs/audit.md` says.
const VERIFY: &str = r#"
import hashlib, hmac, json, sys
key = bytes.fromhex(open(sys.argv[1]).read().strip())
chain = hmac.new(key, b"hotcell ledger 1 chain", hashlib.sha256).digest()
before = hmac.new(chain, b"hotcell ledger" + bytes.fromhex(sys.argv[2]), hashlib.sha256).digest()
count = 0
for line in sys.stdin.buffer:
    body, mac = line[:-len(b',"mac":""}\n') - 64] + b"}", json.loads(line)["mac"]
    before = hmac.new(chain, before + body, hashlib.sha256).digest()
    assert before.hex() == mac, line
    count += 1
print(count)
"#;

fn whoever_has_the_key_can_verify_what_was_exported(world: &World) {
    world.text(["run", "--cell", "work", "true"]);
    let exported = world.text(["audit", "export"]);
    let count = exported.lines().count();
    assert!(count >= 4, "{exported}");
    let key = world.state_dir().join("ledger.key");
    let report = world.json(["audit", "verify", "--json"]);
    let ledger = report["ledger"].as_str().unwrap();
    let verify = |text: &str| {
        world.other("python3", ["-c", VERIFY, key.to_str().unwrap(), ledger]).input(text).run()
    };
    assert_eq!(verify(&exported).succeeded().stdout().trim(), count.to_string());
    let changed = exported.replacen("exec_run", "exec_get", 1);
    assert_ne!(verify(&changed).code(), 0);
    assert!(world.text(["audit", "export", "--after", "2"]).starts_with("{\"n\":3,"));
}

fn many_processes_write_to_one_ledger(world: &World) {
    world.text(["spawn", "work"]);
    let live: Vec<_> =
        (0..12).map(|_| world.hotcell(["run", "--cell", "work", "true"]).start()).collect();
    for (number, live) in live.into_iter().enumerate() {
        if number % 3 == 0 {
            live.kill();
        } else {
            live.finish().succeeded();
        }
    }
    let report = world.json(["audit", "verify", "--json"]);
    assert_eq!(report["state"], "intact", "{report:#}");
    let numbers: Vec<u64> =
        entries(world, &[]).iter().map(|it| it["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

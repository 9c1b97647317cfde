//! Tokens that the operator makes: who bears one, what it opens, and how it ends.

use std::fs;

use serde_json::{Value, json};

use crate::world::{HttpServer, Sent, World, eventually, initialize, kill_9};

in_worlds! {
    [root]
    a_token_works_until_it_is_revoked_while_the_server_runs,
    a_token_that_is_revoked_ends_what_it_has_open,
    whoever_waits_is_told_that_its_token_is_revoked,
    tokens_survive_whoever_is_killed_while_it_writes,
    a_token_ends_at_its_time,
    roles_and_scopes_hold_at_the_door,
    sessions_are_their_tokens_own,
    a_server_never_opens_because_its_last_token_is_gone,
}

in_worlds! {
    [root, rootless]
    tokens_are_kept_as_digests_and_made_side_by_side,
}

fn bearing(sent: Sent, token: &str) -> Sent {
    sent.with("authorization", &format!("Bearer {token}"))
}

/// Makes a token; what is told of it.
#[track_caller]
fn create(world: &World, args: &[&str]) -> Value {
    let made = world.hotcell(["token", "create", "--json"]).args(args.iter().copied());
    serde_json::from_str(&made.run().succeeded().stdout()).unwrap()
}

#[track_caller]
fn token(world: &World, args: &[&str]) -> String {
    create(world, args)["token"].as_str().unwrap().to_owned()
}

fn look(server: &HttpServer, token: &str) -> u16 {
    server.ask(&bearing(Sent::get("/v1/cells"), token)).status
}

fn required(world: &World) -> HttpServer {
    HttpServer::start_with(world, &[], &[("HOTCELL_HTTP_AUTH", "required")])
}

fn a_token_works_until_it_is_revoked_while_the_server_runs(world: &World) {
    let server = required(world);
    server.ask(&Sent::get("/v1/cells")).is(401);
    let made = create(world, &["--name", "ci"]);
    let text = made["token"].as_str().unwrap();
    assert!(text.starts_with(&format!("hc_{}_", made["id"].as_str().unwrap())), "{text}");
    assert_eq!(look(&server, text), 200);
    let run = Sent::tool("exec_run", json!({ "command": "echo hello" }));
    let ran = server.ask(&bearing(run.clone(), text)).is(200).tool_result();
    assert_eq!(ran["stdout"], "hello\n");
    let wrong = format!("{}x", &text[..text.len() - 1]);
    let unknown = text.replacen(made["id"].as_str().unwrap(), "0000000000", 1);
    let refusals = [&wrong, &unknown].map(|token| {
        let refused = server.ask(&bearing(Sent::get("/v1/cells"), token)).is(401);
        (refused.body.clone(), refused.header("www-authenticate").map(str::to_owned))
    });
    assert_eq!(refusals[0], refusals[1]);
    // Another token of the same name is the same caller, with the same cell.
    world.hotcell(["token", "revoke", "ci"]).run().succeeded();
    assert_eq!(look(&server, text), 401);
    let next = token(world, &["--name", "ci"]);
    let again = server.ask(&bearing(run, &next)).is(200).tool_result();
    assert_eq!(again["cell"], ran["cell"]);
    assert_eq!(look(&server, text), 401);
    world.hotcell(["token", "revoke", "ci"]).run().succeeded();
    let absent = world.hotcell(["token", "revoke", "ci"]).run();
    assert!(absent.code() != 0 && absent.stderr().contains("no token ci"), "{absent:?}");
}

fn a_token_that_is_revoked_ends_what_it_has_open(world: &World) {
    let server = required(world);
    let (going, staying) =
        (token(world, &["--name", "going"]), token(world, &["--name", "staying"]));
    let run = json!({ "command": "while :; do echo on; sleep 0.2; done", "wait_s": 0 });
    let began = server.ask(&bearing(Sent::tool("exec_run", run), &staying)).is(200).tool_result();
    let stream = format!("/v1/execs/{}/stream", began["exec_id"].as_str().unwrap());
    let session = server.open_session_with(&going);
    let mut follow = server.send(&bearing(Sent::get(&stream), &going));
    let mut stays = server.send(&bearing(Sent::get(&stream), &staying));
    let listen = Sent::get("/mcp").with("accept", "text/event-stream");
    let listen = bearing(listen.with("mcp-session-id", &session), &going);
    let mut listening = server.send(&listen);
    let wait = Sent::tool("exec_run", json!({ "command": "sleep 1000", "wait_s": 50 }));
    let mut waiting = server.send(&bearing(wait, &going));
    for open in [&mut follow, &mut stays, &mut listening] {
        assert_eq!(open.head().unwrap().status, 200);
    }
    assert!(follow.chunk().is_some());
    eventually("the session is counted", || {
        let metrics = server.ask(&bearing(Sent::get("/metrics"), &staying)).body;
        metrics.contains("\nhotcell_mcp_sessions 1\n")
    });
    let sleeps = || {
        let listed = world.json(["ps", "--json"]);
        let mut execs = listed["execs"].as_array().unwrap().iter();
        execs.any(|exec| exec["command"]["shell"] == "sleep 1000" && exec["state"] == "running")
    };
    eventually("it sleeps", sleeps);
    world.hotcell(["token", "revoke", "going"]).run().succeeded();
    assert_eq!(follow.rest(), None);
    assert_eq!(waiting.answer().unwrap().status, 401);
    // Cut or ended: nothing more comes.
    let _ = listening.rest();
    eventually("the session is over", || {
        let metrics = server.ask(&bearing(Sent::get("/metrics"), &staying)).body;
        metrics.contains("\nhotcell_mcp_sessions 0\n")
    });
    // What others have open stays, and so does what was begun.
    assert!(stays.chunk().is_some());
    assert!(sleeps(), "{}", world.text(["ps"]));
}

/// However the end of the token and the end of the call fall together.
fn whoever_waits_is_told_that_its_token_is_revoked(world: &World) {
    let server = required(world);
    let names: Vec<String> = (0..8).map(|at| format!("going-{at}")).collect();
    let mut waiting = Vec::new();
    let wait = json!({ "command": "sleep 1000", "wait_s": 50 });
    for name in &names {
        let going = token(world, &["--name", name]);
        let session = server.open_session_with(&going);
        let params = json!({ "name": "exec_run", "arguments": wait });
        let call = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params });
        let older = Sent::message(&call).with("mcp-session-id", &session);
        for sent in [Sent::tool("exec_run", wait.clone()), older] {
            waiting.push((name, server.send(&bearing(sent, &going))));
        }
        let run = Sent::post("/v1/execs", &wait);
        waiting.push((name, server.send(&bearing(run, &going))));
    }
    eventually("all of them wait", || {
        let listed = world.json(["ps", "--json"]);
        listed["execs"].as_array().unwrap().len() == waiting.len()
    });
    for name in &names {
        world.hotcell(["token", "revoke", name]).run().succeeded();
    }
    for (name, mut waits) in waiting {
        let head = waits.head().unwrap();
        // A session of an older revision may have begun to answer: then it breaks off.
        match head.status {
            200 => assert_eq!(waits.rest(), None, "{name}"),
            status => assert_eq!(status, 401, "{name}: {head:?}"),
        }
    }
}

fn tokens_survive_whoever_is_killed_while_it_writes(world: &World) {
    let kept = token(world, &["--name", "kept"]);
    let server = required(world);
    let file = world.state_dir().join("tokens.json");
    for round in 0..20 {
        let name = format!("r{round}");
        let makers: Vec<_> = (0..2)
            .map(|at| world.hotcell(["token", "create", "--name", &format!("{name}-{at}")]).start())
            .collect();
        std::thread::sleep(std::time::Duration::from_millis(round));
        for maker in makers {
            kill_9(maker.pid());
            maker.finish();
        }
        let parsed: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(parsed["tokens"][0]["name"], "kept");
        assert_eq!(look(&server, &kept), 200);
    }
    // Nobody has left the lock, and what was left half written is in nobody's way.
    fs::write(world.state_dir().join("tokens.new"), "{").unwrap();
    let next = token(world, &["--name", "next"]);
    assert_eq!(look(&server, &next), 200);
    assert!(!world.state_dir().join("tokens.new").exists());
}

fn a_token_ends_at_its_time(world: &World) {
    let server = required(world);
    let short = token(world, &["--expires", "5s", "--name", "short"]);
    let long = token(world, &["--expires", "never", "--name", "long"]);
    assert_eq!(look(&server, &short), 200);
    eventually("the token is over", || look(&server, &short) == 401);
    assert_eq!(look(&server, &short), 401);
    assert_eq!(look(&server, &long), 200);
    let listed = world.hotcell(["token", "list"]).run().succeeded().stdout();
    let row = |name: &str| listed.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(row("short").ends_with("over"), "{listed}");
    assert!(row("long").ends_with("never"), "{listed}");
    eventually("its use is noted", || {
        let listed = world.json(["token", "list", "--json"]);
        let tokens = listed["tokens"].as_array().unwrap().clone();
        tokens.iter().any(|one| one["name"] == "long" && one["last_used_at"].is_string())
    });
}

fn roles_and_scopes_hold_at_the_door(world: &World) {
    let server = required(world);
    let agent = token(world, &["--role", "agent"]);
    let reader = token(world, &["--scope", "read"]);
    let auditor = token(world, &["--role", "auditor"]);
    let operator = token(world, &["--role", "operator"]);
    let spawn = Sent::post("/v1/cells", &json!({}));
    let status = |sent: &Sent, token: &str| server.ask(&bearing(sent.clone(), token)).status;
    let paths = [
        (Sent::get("/metrics"), [200, 403, 200, 200]),
        (Sent::get("/v1/cells"), [200, 200, 403, 200]),
        (spawn, [201, 403, 403, 201]),
        (Sent::tool("cell_list", json!({})), [200, 200, 403, 200]),
        (Sent::get("/health"), [200, 200, 200, 200]),
    ];
    for (sent, expected) in paths {
        let found = [&agent, &reader, &auditor, &operator].map(|token| status(&sent, token));
        assert_eq!(found, expected, "{sent:?}");
    }
    let refused = server.ask(&bearing(Sent::get("/metrics"), &reader)).is(403);
    let challenge = refused.header("www-authenticate").unwrap();
    assert!(challenge.contains(r#"error="insufficient_scope", scope="metrics""#), "{challenge}");
    for wrong in [["--role", "auditor", "--scope", "run"], ["--role", "agent", "--scope", "admin"]]
    {
        let refused = world.hotcell(["token", "create"]).args(wrong).run();
        assert_eq!(refused.code(), 2, "{refused:?}");
    }
}

fn sessions_are_their_tokens_own(world: &World) {
    let server = required(world);
    let (first, second) = (token(world, &["--name", "first"]), token(world, &["--name", "second"]));
    let session = server.open_session_with(&first);
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let list = Sent::message(&list).with("mcp-session-id", &session);
    server.ask(&bearing(list.clone(), &first)).is(200);
    server.ask(&bearing(list.clone(), &second)).is(404);
    server.ask(&list).is(401);
    // A session does not outlive its token, also if the next one has the same name.
    world.hotcell(["token", "revoke", "first"]).run().succeeded();
    let next = token(world, &["--name", "first"]);
    server.ask(&bearing(list, &next)).is(404);
}

fn a_server_never_opens_because_its_last_token_is_gone(world: &World) {
    let open = HttpServer::start(world);
    open.ask(&Sent::get("/v1/cells")).is(200);
    let text = token(world, &["--name", "only"]);
    // Whether proof is needed was decided when it began; a token is known all the same.
    open.ask(&Sent::get("/v1/cells")).is(200);
    assert_eq!(look(&open, &text), 200);
    for junk in ["hc_4k7m2x9qpa_wrong", "junk", "a.b.c"] {
        assert_eq!(look(&open, junk), 401, "{junk}");
    }
    assert_eq!(open.terminate().code(), 0);
    let server = HttpServer::start(world);
    server.ask(&Sent::get("/v1/cells")).is(401);
    world.hotcell(["token", "revoke", "only"]).run().succeeded();
    server.ask(&Sent::get("/v1/cells")).is(401);
    assert_eq!(server.terminate().code(), 0);
    let server = HttpServer::start(world);
    server.ask(&initialize("2025-11-25")).is(401);
    drop(server);
    let told = HttpServer::start_with(world, &[], &[("HOTCELL_HTTP_AUTH", "none")]);
    told.ask(&Sent::get("/v1/cells")).is(200);
    let elsewhere =
        world.hotcell(["serve", "--http", "0.0.0.0:0"]).env("HOTCELL_HTTP_AUTH", "none");
    assert!(elsewhere.run().stderr().contains("anybody who reaches"));
}

fn tokens_are_kept_as_digests_and_made_side_by_side(world: &World) {
    let makers: Vec<_> =
        (0..6).map(|_| world.hotcell(["token", "create", "--json"]).start()).collect();
    let made: Vec<Value> = makers
        .into_iter()
        .map(|maker| serde_json::from_str(&maker.finish().succeeded().stdout()).unwrap())
        .collect();
    let listed = world.json(["token", "list", "--json"]);
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 6);
    assert!(!listed.to_string().contains("hc_"));
    let plain = world.hotcell(["token", "create", "--name", "plain"]).run().succeeded();
    assert_eq!(plain.stdout().lines().count(), 1);
    let plain = plain.stdout().trim().to_owned();
    let texts = made.iter().map(|one| one["token"].as_str().unwrap()).chain([plain.as_str()]);
    let secrets: Vec<&str> = texts.map(|text| text.rsplit('_').next().unwrap()).collect();
    assert!(secrets.iter().all(|secret| secret.len() == 52));
    let mut looked_at = 0;
    for entry in fs::read_dir(world.state_dir()).unwrap() {
        let path = entry.unwrap().path();
        let Ok(bytes) = fs::read(&path) else { continue };
        looked_at += 1;
        let text = String::from_utf8_lossy(&bytes);
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "{path:?}");
    }
    assert!(looked_at > 2);
}

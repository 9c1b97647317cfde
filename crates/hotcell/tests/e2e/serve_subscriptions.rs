//! Clients that want to know what changes in a workspace.

use serde_json::{Value, json};

use crate::world::{
    Era, HttpServer, McpClient, Sent, World, descendants, eventually, inotify_count,
};

in_worlds! {
    [root, rootless]
    a_session_is_told_what_changes,
    a_listener_is_told_what_changes,
    layers_are_exchanged_under_a_listener,
}

in_worlds! {
    [root]
    changes_are_told_over_http,
    a_listener_wakes_nothing_and_keeps_nothing_awake,
    a_listener_that_is_killed_leaves_nothing,
    a_cell_that_ends_ends_its_listeners,
    subscriptions_have_a_bound,
}

const UPDATED: &str = "notifications/resources/updated";

fn spawn(client: &mut McpClient) {
    client.call("cell_spawn", json!({ "alias": "watched", "persistent": true }));
    run(client, "mkdir -p src; echo 0 > src/a; echo 0 > b");
}

fn run(client: &mut McpClient, command: &str) {
    let ran = client.call("exec_run", json!({ "cell": "watched", "command": command }));
    assert_eq!(ran["exit_code"], 0, "{ran}");
}

fn is_update(message: &Value, uri: &str) -> bool {
    message["method"] == UPDATED && message["params"]["uri"] == uri
}

fn updates(client: &McpClient, uri: &str) -> usize {
    client.received().iter().filter(|message| is_update(message, uri)).count()
}

/// How often the cell's files are watched, from inside it.
fn watches(world: &World) -> usize {
    descendants(world.supervisor("watched")).into_iter().map(inotify_count).sum()
}

/// Begins to listen in the era's own way; what ends it.
fn listen(client: &mut McpClient, era: Era, uris: &[&str]) -> Option<u64> {
    match era {
        Era::Legacy => {
            for uri in uris {
                let answer = client.request("resources/subscribe", json!({ "uri": uri }));
                assert!(answer["result"].is_object(), "{answer}");
            }
            None
        }
        Era::Modern => {
            let filter = json!({ "notifications": { "resourceSubscriptions": uris } });
            let id = client.ask("subscriptions/listen", filter);
            let told = client.find("an acknowledgment", |message| {
                message["method"] == "notifications/subscriptions/acknowledged"
            });
            assert_eq!(told["params"]["notifications"]["resourceSubscriptions"], json!(uris));
            // What it looks like now is the first news.
            for uri in uris {
                client.find(uri, |message| is_update(message, uri));
            }
            Some(id)
        }
    }
}

fn changes_are_told(world: &World, era: Era) -> (McpClient, Option<u64>) {
    let mut client = McpClient::start(world, era);
    spawn(&mut client);
    let (all, file) = ("workspace:watched", "workspace:watched/src/a");
    let listening = listen(&mut client, era, &[all, file]);
    assert_eq!(watches(world), 1, "one cell is watched once");

    let (before, before_file) = (updates(&client, all), updates(&client, file));
    run(&mut client, "echo 1 > b");
    client.find_many(before + 1, |message| is_update(message, all));
    assert_eq!(updates(&client, file), before_file, "nothing happened to that file");
    run(&mut client, "echo 1 > src/a");
    client.find_many(before_file + 1, |message| is_update(message, file));
    // By a tool as by a command; replaced by what is renamed to there.
    let before_file = updates(&client, file);
    client.call("fs_write", json!({ "cell": "watched", "path": "src/a", "content": "2" }));
    client.find_many(before_file + 1, |message| is_update(message, file));
    let before_file = updates(&client, file);
    run(&mut client, "mv src gone");
    client.find_many(before_file + 1, |message| is_update(message, file));
    let before_file = updates(&client, file);
    run(&mut client, "mv gone src");
    client.find_many(before_file + 1, |message| is_update(message, file));

    let before = updates(&client, all);
    run(&mut client, "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo $i > src/$i; done");
    run(&mut client, "echo last > b");
    client.find_many(before + 1, |message| is_update(message, all));
    assert!(updates(&client, all) < before + 500, "a burst is told in few words");
    let told = client.find("an update", |message| is_update(message, all));
    let id = &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(id.as_u64(), listening, "{told}");
    (client, listening)
}

fn a_session_is_told_what_changes(world: &World) {
    let (mut client, _) = changes_are_told(world, Era::Legacy);
    for uri in ["workspace:watched", "workspace:watched/src/a"] {
        let answer = client.request("resources/unsubscribe", json!({ "uri": uri }));
        assert!(answer["result"].is_object(), "{answer}");
    }
    eventually("nothing is watched", || watches(world) == 0);
    let unknown = client.request("resources/subscribe", json!({ "uri": "workspace:nobody" }));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("nobody"), "{unknown}");
    let unknown = client.request("resources/subscribe", json!({ "uri": "file:///etc/passwd" }));
    assert!(unknown["error"].is_object(), "{unknown}");
    // The default cell is there once somebody wants to know about it.
    listen(&mut client, Era::Legacy, &["workspace:default"]);
    client.call("fs_write", json!({ "path": "f", "content": "" }));
    client.find("an update", |message| is_update(message, "workspace:default"));
    client.leave().0.succeeded();
}

fn a_listener_is_told_what_changes(world: &World) {
    let (mut client, listening) = changes_are_told(world, Era::Modern);
    client.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": listening },
    }));
    eventually("nothing is watched", || watches(world) == 0);
    // What is not offered is not acknowledged.
    let uris = json!(["workspace:watched/b", "exec://e_1/stdout", "workspace:watched/b"]);
    let wanted = json!({ "toolsListChanged": true, "resourceSubscriptions": uris });
    let id = client.ask("subscriptions/listen", json!({ "notifications": wanted }));
    let told = client.find("an acknowledgment", |message| {
        message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == id
    });
    assert_eq!(told["params"]["notifications"]["toolsListChanged"], Value::Null, "{told}");
    assert!(
        !told.to_string().contains("exec://") && told.to_string().contains("watched/b"),
        "{told}"
    );
    client.leave().0.succeeded();
    eventually("nothing is watched", || watches(world) == 0);
}

fn layers_are_exchanged_under_a_listener(world: &World) {
    for era in [Era::Legacy, Era::Modern] {
        let mut client = McpClient::start(world, era);
        spawn(&mut client);
        let uri = "workspace:watched/src";
        listen(&mut client, era, &[uri]);
        let made = client.call("cell_checkpoint", json!({ "cell": "watched", "action": "create" }));
        assert_eq!(made["checkpoints"][0]["means"], "stacked", "{made}");
        // Whatever was not seen meanwhile is told about as well: the watch is there again then.
        eventually("it is watched again", || watches(world) == 1);
        let before = updates(&client, uri);
        run(&mut client, "echo later > src/new");
        client.find_many(before + 1, |message| is_update(message, uri));
        eventually("all is told", || {
            let before = updates(&client, uri);
            std::thread::sleep(std::time::Duration::from_millis(600));
            before == updates(&client, uri)
        });

        let before = updates(&client, uri);
        let asked = json!({
            "cell": "watched", "action": "restore", "checkpoint": made["checkpoints"][0]["id"],
        });
        client.call("cell_checkpoint", asked);
        client.find_many(before + 1, |message| is_update(message, uri));
        let read = client.request("resources/read", json!({ "uri": uri }));
        assert!(!read.to_string().contains("src/new"), "{read}");
        let made = client.call("cell_checkpoint", json!({ "cell": "watched", "action": "create" }));
        assert_eq!(made["checkpoints"][0]["means"], "stacked", "{made}");
        client.leave().0.succeeded();
        eventually("nothing is watched", || watches(world) == 0);
        world.text(["kill", "--volumes", "--force", "watched"]);
    }
}

/// Reads events until one has these words.
fn await_event(connection: &mut crate::world::Connection, words: &str) {
    let mut seen = String::new();
    while let Some(piece) = connection.chunk() {
        seen.push_str(&String::from_utf8_lossy(&piece));
        if seen.contains(words) {
            return;
        }
    }
    panic!("{words} never came: {seen}");
}

fn changes_are_told_over_http(world: &World) {
    world.text(["run", "--cell", "watched", "echo 0 > f"]);
    let server = HttpServer::start(world);
    let uri = "workspace:watched/f";
    let wanted = json!({ "notifications": { "resourceSubscriptions": [uri] } });
    let mut stream = server.send(&Sent::modern(7, "subscriptions/listen", None, wanted.clone()));
    assert_eq!(stream.head().unwrap().header("content-type"), Some("text/event-stream"));
    await_event(&mut stream, "acknowledged");
    await_event(&mut stream, UPDATED);
    world.text(["run", "--cell", "watched", "echo 1 > f"]);
    await_event(&mut stream, UPDATED);

    let session = server.open_session();
    let mut events = server.send(
        &Sent::get("/mcp")
            .with("accept", "text/event-stream")
            .with("mcp-session-id", &session)
            .with("mcp-protocol-version", "2025-11-25"),
    );
    assert_eq!(events.head().unwrap().status, 200);
    let subscribe = json!({
        "jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": { "uri": uri },
    });
    server.ask(&Sent::message(&subscribe).with("mcp-session-id", &session)).is(200);
    world.text(["run", "--cell", "watched", "echo 2 > f"]);
    await_event(&mut events, UPDATED);
    await_event(&mut stream, UPDATED);

    // One goes, then the other.
    stream.close();
    world.text(["run", "--cell", "watched", "echo 3 > f"]);
    await_event(&mut events, UPDATED);
    server
        .ask(&Sent::delete("/mcp").with("mcp-session-id", &session).with("accept", "*/*"))
        .is(204);
    eventually("nothing is watched", || watches(world) == 0);

    // A server that ends says so.
    let mut stream = server.send(&Sent::modern(8, "subscriptions/listen", None, wanted));
    stream.head().unwrap();
    await_event(&mut stream, UPDATED);
    server.terminate().succeeded();
    assert!(stream.rest().is_some_and(|rest| rest.contains("\"result\"")));
}

fn a_listener_wakes_nothing_and_keeps_nothing_awake(world: &World) {
    let serve = world.hotcell(["serve"]).env("HOTCELL_SLEEP_AFTER_S", "1");
    let mut client = McpClient::start_with(serve, Era::Legacy);
    spawn(&mut client);
    let uri = "workspace:watched";
    listen(&mut client, Era::Legacy, &[uri]);
    let state = || world.json(["cells", "--all", "--json"])["cells"][0]["state"].clone();
    eventually("it falls asleep", || state() == "asleep");
    // It is looked for several times meanwhile.
    for _ in 0..20 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(state(), "asleep");
    }
    let before = updates(&client, uri);
    world.text(["run", "--cell", "watched", "echo awake > f"]);
    client.find_many(before + 1, |message| is_update(message, uri));
    // To begin to listen wakes nothing either.
    eventually("it falls asleep again", || state() == "asleep");
    listen(&mut client, Era::Legacy, &["workspace:watched/f"]);
    assert_eq!(state(), "asleep");
    client.leave().0.succeeded();
}

fn a_listener_that_is_killed_leaves_nothing(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    spawn(&mut client);
    listen(&mut client, Era::Modern, &["workspace:watched"]);
    assert_eq!(watches(world), 1);
    client.kill();
    eventually("nothing is watched", || watches(world) == 0);
    assert_eq!(world.text(["run", "--cell", "watched", "cat b"]), "0\n");
}

fn a_cell_that_ends_ends_its_listeners(world: &World) {
    let mut client = McpClient::start(world, Era::Legacy);
    spawn(&mut client);
    let uri = "workspace:watched";
    listen(&mut client, Era::Legacy, &[uri]);
    // Whoever watches may be ended by the cell's own processes.
    let supervisor = world.supervisor("watched");
    let before = updates(&client, uri);
    for pid in descendants(supervisor) {
        crate::world::kill_9(pid);
    }
    client.find_many(before + 1, |message| is_update(message, uri));
    client.call("cell_kill", json!({ "cell": "watched", "force": true, "volumes": true }));
    // Another one of that name is another one.
    spawn(&mut client);
    let before = updates(&client, uri);
    eventually("it can be listened to", || {
        client.request("resources/subscribe", json!({ "uri": uri }));
        watches(world) == 1
    });
    run(&mut client, "echo 1 > b");
    client.find_many(before + 1, |message| is_update(message, uri));
    client.leave().0.succeeded();
}

fn subscriptions_have_a_bound(world: &World) {
    let mut client = McpClient::start(world, Era::Legacy);
    spawn(&mut client);
    for number in 0..64 {
        listen(&mut client, Era::Legacy, &[&format!("workspace:watched/{number}")]);
    }
    listen(&mut client, Era::Legacy, &["workspace:watched/0"]);
    let refused = client.request("resources/subscribe", json!({ "uri": "workspace:watched/64" }));
    assert_eq!(refused["error"]["data"]["code"], "limit_exceeded", "{refused}");
    client.request("resources/unsubscribe", json!({ "uri": "workspace:watched/0" }));
    listen(&mut client, Era::Legacy, &["workspace:watched/64"]);
    assert_eq!(watches(world), 1);
    run(&mut client, "touch 64");
    client.find("an update", |message| is_update(message, "workspace:watched/64"));
    client.leave().0.succeeded();
}

//! Agents over HTTP: both kinds of revisions, cancelling, going away, coming back.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::world::{
    HttpServer, Sent, World, eventually, eventually_some, initialize, kill_9, send,
};

in_worlds! {
    [root, rootless]
    both_kinds_of_revisions_are_served,
    an_explicit_cancel_ends_the_exec,
    a_client_that_goes_away_or_gives_up_leaves_its_exec,
    a_reader_goes_on_at_the_next_server,
}

in_worlds! {
    [root]
    every_caller_has_a_default_cell,
    an_id_is_used_once_at_a_time,
    lines_of_the_log_have_a_request_id,
    the_log_says_who_attached,
}

/// A call of a tool in a session.
fn in_session(session: &str, id: u64, tool: &str, arguments: &Value) -> Sent {
    Sent::message(&json!({
        "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments },
    }))
    .with("mcp-session-id", session)
}

/// The exec that runs this command, once it does.
#[track_caller]
fn running(world: &World, command: &str) -> String {
    eventually_some("the exec runs", || {
        let listed = world.json(["ps", "--json"]);
        let execs = listed["execs"].as_array().unwrap().clone();
        let found = execs
            .iter()
            .find(|exec| exec["command"]["shell"] == command && exec["state"] == "running")?;
        Some(found["id"].as_str().unwrap().to_owned())
    })
}

fn both_kinds_of_revisions_are_served(world: &World) {
    let server = HttpServer::start(world);
    let discovered = server.ask(&Sent::modern(1, "server/discover", None, json!({}))).is(200);
    let revisions = &discovered.json()["result"]["supportedVersions"];
    assert!(revisions.as_array().unwrap().contains(&json!("2026-07-28")), "{revisions}");
    let ran = server.ask(&Sent::tool("exec_run", json!({ "command": "echo new; exit 3" }))).is(200);
    assert_eq!(ran.tool_result()["stdout"], "new\n");
    assert_eq!(ran.tool_result()["exit_code"], 3);
    assert_eq!(ran.header("mcp-session-id"), None);

    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let opened = server.ask(&initialize(revision)).is(200);
        assert_eq!(opened.json()["result"]["protocolVersion"], revision);
    }
    // The first revision has another transport over HTTP.
    let oldest = server.ask(&initialize("2024-11-05")).is(200);
    assert_eq!(oldest.json()["result"]["protocolVersion"], "2025-11-25");

    let session = server.open_session();
    let arguments = json!({ "command": "echo old" });
    let ran = server.ask(&in_session(&session, 5, "exec_run", &arguments)).is(200);
    assert_eq!(ran.json()["id"], 5);
    assert_eq!(ran.tool_result()["stdout"], "old\n");
    server.ask(&in_session("no-such-session", 6, "exec_run", &arguments)).is(404);
    server.ask(&Sent::delete("/mcp").with("mcp-session-id", &session)).is(204);
    server.ask(&in_session(&session, 7, "exec_run", &arguments)).is(404);
    assert_eq!(server.terminate().code(), 0);
}

fn an_explicit_cancel_ends_the_exec(world: &World) {
    let server = HttpServer::start(world);
    let session = server.open_session();
    let arguments = json!({ "command": "sleep 1000", "wait_s": 50 });
    let mut waiting = server.send(&in_session(&session, 5, "exec_run", &arguments));
    let exec = running(world, "sleep 1000");
    let cancel = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 5, "reason": "the user changed their mind" },
    });
    server.ask(&Sent::message(&cancel).with("mcp-session-id", &session)).is(202);
    assert_eq!(world.ended(&exec)["end"]["cause"], "cancelled");
    assert!(!waiting.answer().unwrap().body.contains("structuredContent"));
}

fn a_client_that_goes_away_or_gives_up_leaves_its_exec(world: &World) {
    let server = HttpServer::start(world);
    let session = server.open_session();
    let call = |command: &str| json!({ "command": command, "wait_s": 50 });

    let modern = server.send(&Sent::tool("exec_run", call("sleep 1001")));
    let first = running(world, "sleep 1001");
    modern.close();
    let older = server.send(&in_session(&session, 5, "exec_run", &call("sleep 1002")));
    let second = running(world, "sleep 1002");
    older.close();
    let impatient = server.send(&in_session(&session, 6, "exec_run", &call("sleep 1003")));
    let third = running(world, "sleep 1003");
    let gave_up = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 6, "reason": "timed out after 5s" },
    });
    server.ask(&Sent::message(&gave_up).with("mcp-session-id", &session)).is(202);
    impatient.close();

    // The server has noticed by the time it has nothing under way any more, and the session is
    // closed with all its calls.
    server.ask(&Sent::delete("/mcp").with("mcp-session-id", &session)).is(204);
    eventually("nothing is under way", || {
        let metrics = server.ask(&Sent::get("/metrics")).body;
        metrics.contains("\nhotcell_calls_active 0\n")
    });
    for exec in [first, second, third] {
        assert_eq!(world.exec(&exec)["state"], "running");
    }
    assert_eq!(server.terminate().code(), 0);
}

fn a_reader_goes_on_at_the_next_server(world: &World) {
    const LINES: usize = 60;
    let server = HttpServer::start(world);
    let command = format!("for i in $(seq {LINES}); do echo line $i; sleep 0.02; done");
    let arguments = json!({ "command": command, "wait_s": 0 });
    let begun = server.ask(&Sent::tool("exec_run", arguments)).tool_result();
    let exec = begun["exec_id"].as_str().unwrap().to_owned();
    let mut output = String::new();
    let mut after = json!(0);
    let mut poll = |server: &HttpServer, output: &mut String| {
        let arguments = json!({ "exec_id": exec, "after_seq": after, "wait_s": 20 });
        let page = server.ask(&Sent::tool("exec_poll", arguments)).is(200).tool_result();
        for message in page["messages"].as_array().unwrap() {
            *output += message["data"].as_str().unwrap();
        }
        after = page["next_seq"].clone();
        page["complete"] == true
    };
    while output.lines().count() < 3 {
        assert!(!poll(&server, &mut output));
    }
    kill_9(server.live.pid());
    let next = HttpServer::start(world);
    while !poll(&next, &mut output) {}
    let expected: String = (1..=LINES).map(|line| format!("line {line}\n")).collect();
    assert_eq!(output, expected);
}

fn every_caller_has_a_default_cell(world: &World) {
    let server = HttpServer::start(world);
    server.ask(&Sent::tool("exec_run", json!({ "command": "true" }))).tool_result();
    let uid = world.user().uid;
    assert_eq!(
        world.json(["info", "--json", &format!("http-local-{uid}")])["cell"]["state"],
        "ready"
    );
    drop(server);

    let token = "a-token-of-this-test";
    let variables = [("HOTCELL_HTTP_TOKEN", token)];
    let server = HttpServer::start_with(world, &[], &variables);
    let call = Sent::tool("exec_run", json!({ "command": "true" }));
    server.ask(&call.with("authorization", &format!("Bearer {token}"))).tool_result();
    assert_eq!(world.json(["info", "--json", "http-bearer"])["cell"]["persistent"], true);

    let server = HttpServer::start_with(world, &["--cell", "chosen"], &[]);
    server.ask(&Sent::tool("exec_run", json!({ "command": "true" }))).tool_result();
    assert_eq!(world.json(["info", "--json", "chosen"])["cell"]["persistent"], true);
}

fn an_id_is_used_once_at_a_time(world: &World) {
    let server = HttpServer::start(world);
    let session = server.open_session();
    let long = json!({ "command": "read x; echo got $x", "stdin_open": true, "wait_s": 50 });
    let mut waiting = server.send(&in_session(&session, 5, "exec_run", &long));
    let exec = running(world, "read x; echo got $x");
    let short = json!({ "command": "echo other" });
    let refused = server.ask(&in_session(&session, 5, "exec_run", &short)).is(400);
    assert_eq!(refused.json()["error"]["code"], -32600);
    let other = server.ask(&in_session(&session, 6, "exec_run", &short)).is(200);
    assert_eq!(other.tool_result()["stdout"], "other\n");
    world.text(["input", &exec, "it"]);
    assert_eq!(waiting.answer().unwrap().tool_result()["stdout"], "got it\n");
    let again = server.ask(&in_session(&session, 5, "exec_run", &short)).is(200);
    assert_eq!(again.tool_result()["stdout"], "other\n");
}

fn lines_of_the_log_have_a_request_id(world: &World) {
    let args = ["--log", "hotcell_server=debug", "--log-format", "json"];
    let server = HttpServer::start_with(world, &args, &[]);
    let call = Sent::tool("exec_run", json!({ "command": "true" }));
    let answer = server.ask(&call.clone().with("x-request-id", "chosen.by-client_1")).is(200);
    assert_eq!(answer.header("x-request-id"), Some("chosen.by-client_1"));
    let fresh = server.ask(&call.with("x-request-id", "not one: \t")).is(200);
    let fresh = fresh.header("x-request-id").unwrap().to_owned();
    assert_ne!(fresh, "");
    let exec = answer.tool_result()["exec_id"].as_str().unwrap().to_owned();
    let uri = format!("exec://{exec}/stdout");
    let template = json!({
        "ref": { "type": "ref/resource", "uri": "exec://{exec_id}/{stream}" },
        "argument": { "name": "exec_id", "value": "" },
    });
    let requests = [
        ("resources/list", None, json!({})),
        ("resources/read", Some(uri.as_str()), json!({ "uri": uri })),
        ("completion/complete", None, template),
        ("tasks/get", Some(exec.as_str()), json!({ "taskId": exec })),
        ("tasks/update", Some(exec.as_str()), json!({ "taskId": exec, "inputResponses": {} })),
        ("tasks/cancel", Some(exec.as_str()), json!({ "taskId": exec })),
    ];
    for (method, name, params) in requests.clone() {
        let request = Sent::modern(7, method, name, params);
        let request = request.with("x-request-id", &method.replace('/', "."));
        let answer = server.ask(&request).is(200);
        assert!(answer.json()["result"].is_object(), "{method}: {answer:?}");
    }
    send(server.live.pid(), Signal::TERM);
    let said = server.live.finish().stderr();
    for id in ["chosen.by-client_1", &fresh] {
        let lines: Vec<Value> = said
            .lines()
            .filter(|line| line.contains(id))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let spans = |name: &str| lines.iter().any(|line| line["span"]["name"] == name);
        assert!(spans("request") && spans("call"), "{said}");
    }
    for (method, ..) in requests {
        let id = method.replace('/', ".");
        // The first line says where it listens.
        let lines = said.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut spans = lines.map(|line| line["span"].clone());
        assert!(
            spans.any(|span| span["request_id"] == id.as_str() && span["method"] == method),
            "{method}: {said}"
        );
    }
}

fn the_log_says_who_attached(world: &World) {
    let args = ["--log", "hotcell_server=info", "--log-format", "json"];
    let server = HttpServer::start_with(world, &args, &[]);
    server.ask(&Sent::tool("exec_run", json!({ "command": "true" }))).tool_result();
    let attach =
        json!({ "cell": "default", "client_name": "an agent", "session_id": "x".repeat(5000) });
    let attached = server.ask(&Sent::tool("cell_attach", attach)).tool_result();
    assert_eq!(
        attached["roots"],
        json!([format!("workspace:{}", attached["cell"]["id"].as_str().unwrap())])
    );
    let said = server.terminate().stderr();
    let line = said.lines().find(|line| line.contains("a client attaches")).unwrap();
    let span = &serde_json::from_str::<Value>(line).unwrap()["span"];
    assert_eq!((&span["method"], &span["client_name"]), (&json!("tools/call"), &json!("an agent")));
    assert!(span["session_id"].as_str().unwrap().len() < 100, "{line}");
}

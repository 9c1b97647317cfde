//! Calls that wait for a person's word, whatever they ask for and however they came.

use std::fs;

use serde_json::{Value, json};

use crate::world::{
    Era, HttpServer, Invocation, McpClient, Sent, World, eventually, eventually_some,
};

in_worlds! { [root, rootless]
    a_call_that_is_asked_about_waits_for_a_person,
    an_approval_of_a_call_outlives_its_server,
}

in_worlds! { [root]
    what_nobody_approves_is_not_done,
    a_person_sees_all_of_a_command,
    the_person_at_the_client_is_asked_about_any_call,
    the_person_at_an_older_client_is_asked_about_any_call,
    clients_over_http_do_not_approve_for_themselves,
    operators_answer_over_http_but_not_for_themselves,
    rules_that_deny_by_now_are_stronger_than_a_word,
    what_is_denied_leaves_no_default_cell,
    automatic_checkpoints_are_bounded,
}

const RULES: &str = "[[rule]]\nid = \"asked-files\"\nverdict = \"ask\"\nreason = \"history is shared\"\n\
                     writes = [\"/workspace/kept/**\"]\n\n\
                     [[rule]]\nid = \"asked-forks\"\nverdict = \"ask\"\ntool = [\"cell_fork\"]\n\n\
                     [[rule]]\nid = \"asked-removal\"\nverdict = \"ask\"\ncommand = \"rm\"\n\n\
                     [[rule]]\nid = \"asked-hosts\"\nverdict = \"ask\"\ncommand = \"hostname\"\n";

/// A server for agents with rules that ask.
fn serve(world: &World) -> Invocation {
    let rules = world.home().join("policy.toml");
    fs::write(&rules, RULES).unwrap();
    world.own(&rules);
    world.hotcell(["serve", "--cell", "judged"]).env("HOTCELL_POLICY_FILE", &rules)
}

fn write(path: &str, content: &str) -> Value {
    json!({ "path": path, "content": content, "create_parents": true })
}

/// The only thing that waits, as soon as there is something.
#[track_caller]
fn waiting(world: &World) -> Value {
    eventually_some("something waits for approval", || {
        let listed = world.json(["approvals", "--json"]);
        listed.as_array()?.first().cloned()
    })
}

#[track_caller]
fn id(asked: &Value) -> String {
    asked["id"].as_str().unwrap().to_owned()
}

fn a_call_that_is_asked_about_waits_for_a_person(world: &World) {
    let mut agent = McpClient::start_with(serve(world), Era::Modern);
    agent.call("exec_run", json!({ "command": "true" }));
    let call = agent.ask_tool("fs_write", write("kept/a", "precious\n"));
    let asked = waiting(world);
    let held = id(&asked);
    assert!(held.starts_with("h_") && asked["tool"] == "fs_write", "{asked}");
    let listed = world.text(["approvals"]);
    assert!(listed.contains(&held) && listed.contains("write kept/a"), "{listed}");
    let shown = world.text(["approvals", &held]);
    for part in ["precious", "asked-files", "history is shared", "path: kept/a", "waits until"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // Others go on meanwhile, and nothing was written.
    let ran = agent.call("exec_run", json!({ "command": "ls" }));
    assert_eq!(ran["stdout"], "", "{ran}");
    // The model has learned at once how it is approved.
    let said = agent.answer(call)["result"]["content"][0]["text"].to_string();
    for part in ["awaiting_approval", "history is shared", &format!("hotcell approve {held}")] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // In another state directory nothing is known of it.
    let elsewhere = world.home().join("elsewhere");
    for id in [&held, "e_0000000000"] {
        let refused = world.hotcell(["approve", id]).env("HOTCELL_STATE_DIR", &elsewhere).run();
        let (code, said) = (refused.code(), refused.stderr());
        assert_ne!(code, 0, "{said}");
        for part in [id, &elsewhere.display().to_string(), "--state-dir"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    assert_eq!(world.text(["approve", &held]), format!("{held} granted\n"));
    agent.call("fs_write", write("kept/a", "precious\n"));
    let read = agent.call("fs_read", json!({ "path": "kept/a" }));
    assert_eq!(read["content"], "precious\n", "{read}");
    world.hotcell(["approve", &held]).run().exited(4);
    assert_eq!(world.json(["approvals", "--json"]), json!([]));
    assert!(world.json(["approvals", &held, "--json"])["used_at"].is_string());
    // The same once more is another call.
    agent.ask_tool("fs_write", write("kept/a", "precious\n"));
    let again = id(&waiting(world));
    assert_ne!(again, held);
    world.hotcell(["approve", "--refuse", &again]).run().succeeded();
    let call = agent.ask_tool("fs_write", write("kept/a", "precious\n"));
    let said = agent.answer(call)["result"]["content"][0]["text"].to_string();
    assert!(said.contains("denied") && said.contains("refused by"), "{said}");
    agent.leave();
    let audit = world.text(["audit", "--json"]);
    for what in ["\"granted\"", "\"refused\"", "\"used\"", held.as_str()] {
        assert!(audit.contains(what), "{what}: {audit}");
    }
}

fn an_approval_of_a_call_outlives_its_server(world: &World) {
    let mut agent = McpClient::start_with(serve(world), Era::Modern);
    agent.call("exec_run", json!({ "command": "true" }));
    agent.ask_tool("fs_write", write("kept/a", "x"));
    let held = id(&waiting(world));
    agent.kill();
    world.hotcell(["approve", &held]).run().succeeded();
    let mut agent = McpClient::start_with(serve(world), Era::Legacy);
    // What differs in anything asks for itself.
    let other = agent.ask_tool("fs_write", write("kept/a", "y"));
    let asked = id(&waiting(world));
    assert_ne!(asked, held);
    agent.call("fs_write", write("kept/a", "x"));
    assert_eq!(agent.call("fs_read", json!({ "path": "kept/a" }))["content"], "x");
    world.hotcell(["approve", "--refuse", &asked]).run().succeeded();
    assert_eq!(agent.answer(other)["result"]["isError"], true);
    agent.leave();
}

fn what_nobody_approves_is_not_done(world: &World) {
    let serve = serve(world).env("HOTCELL_POLICY_ASK_WITHIN_S", "1");
    let mut agent = McpClient::start_with(serve, Era::Modern);
    let call = agent.ask_tool("fs_write", write("kept/a", "x"));
    let said = agent.answer(call)["result"]["content"][0]["text"].to_string();
    assert!(said.contains("awaiting_approval"), "{said}");
    eventually("nobody answered in time", || world.json(["approvals", "--json"]) == json!([]));
    let call = agent.ask_tool("cell_fork", json!({ "cell": "judged" }));
    assert_eq!(agent.answer(call)["result"]["isError"], true);
    // The control: what no rule asks about is done.
    agent.call("fs_write", write("open", "x"));
    let files = agent.call("exec_run", json!({ "command": "ls" }));
    assert_eq!(files["stdout"], "open\n", "{files}");
    assert!(world.text(["audit", "--json"]).contains("\"expired\""));
    agent.leave();
}

fn a_person_sees_all_of_a_command(world: &World) {
    let mut agent = McpClient::start_with(serve(world), Era::Modern);
    let asked = agent.call(
        "exec_run",
        json!({
            "argv": ["sh", "-c", "hostname; cd /tmp && rm -rf x"], "cwd": "/tmp", "as_root": true,
            "stdin": "typed beforehand\n", "wait_s": 0,
            "env": { "COLOR": "red", "API_TOKEN": "hunter2hunter2" },
        }),
    );
    assert_eq!(asked["status"], "awaiting_approval", "{asked}");
    let exec = asked["exec_id"].as_str().unwrap();
    let shown = world.text(["approvals", exec]);
    let parts = [
        "rm -rf x",
        "cwd: /tmp",
        "as_root: true",
        "typed beforehand",
        "env COLOR: red",
        "env API_TOKEN: [REDACTED",
        "asks asked-removal",
        "asks asked-hosts",
    ];
    for part in parts {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("hunter2"), "{shown}");
    world.hotcell(["approve", "--refuse", exec]).run().succeeded();
    agent.leave();
}

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

fn call_with(tool: &str, arguments: &Value, more: &Value) -> Value {
    let mut params = json!({
        "name": tool, "arguments": arguments, "_meta": { CAPABILITIES: { "elicitation": {} } },
    });
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    params
}

fn answer(state: &Value, approve: bool) -> Value {
    let content = json!({ "approve": approve });
    json!({
        "requestState": state,
        "inputResponses": { "approval": { "action": "accept", "content": content } },
    })
}

fn the_person_at_the_client_is_asked_about_any_call(world: &World) {
    let mut agent = McpClient::start_silent(serve(world), Era::Modern);
    let mut call = |path: &str, more: Value| {
        let params = call_with("fs_write", &write(path, "text"), &more);
        agent.request("tools/call", params)["result"].clone()
    };
    let asked = call("kept/a", json!({}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let message = asked["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
    assert!(message.contains("write kept/a") && message.contains("asked-files"), "{message}");
    let state = asked["requestState"].clone();
    let done = call("kept/a", answer(&state, true));
    assert!(done["isError"] != true && done["structuredContent"].is_object(), "{done}");
    let by = world.json(["approvals", state.as_str().unwrap(), "--json"]);
    assert_eq!(by["approval"]["answer"]["by"], "client:local:0", "{by}");
    let asked = call("kept/b", json!({}));
    let refused = call("kept/b", answer(&asked["requestState"], false));
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("refused by"), "{refused}");
    // A word on one call is none on another, and one that was made up is none at all.
    let asked = call("kept/c", json!({}));
    let forged = call("kept/b", answer(&asked["requestState"], true));
    assert_eq!(forged["isError"], true, "{forged}");
    for state in ["h_0000000000", "e_0000000000", "x"] {
        let forged = call("kept/d", answer(&json!(state), true));
        assert_eq!(forged["isError"], true, "{forged}");
    }
    let files = agent.call("exec_run", json!({ "command": "ls kept" }));
    assert_eq!(files["stdout"], "a\n", "{files}");
    agent.leave();
}

fn the_person_at_an_older_client_is_asked_about_any_call(world: &World) {
    let mut agent = McpClient::start_silent(serve(world), Era::Legacy);
    let greeting = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "e2e", "version": "1" },
    });
    agent.request("initialize", greeting);
    agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    for (path, approve) in [("kept/a", true), ("kept/b", false)] {
        let call = agent.ask_tool("fs_write", write(path, "text"));
        let asked = agent.find("a question", |message| {
            message["method"] == "elicitation/create"
                && message["params"]["message"].as_str().is_some_and(|it| it.contains(path))
        });
        let result = json!({ "action": "accept", "content": { "approve": approve } });
        agent.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
        let answer = agent.find("an answer", |message| {
            message["id"] == call && message["result"]["content"].is_array()
        });
        assert_eq!(answer["result"]["isError"] != true, approve, "{answer}");
    }
    let files = agent.call("exec_run", json!({ "command": "ls kept" }));
    assert_eq!(files["stdout"], "a\n", "{files}");
    agent.leave();
}

/// A call of a tool over HTTP by a client that can ask a person.
fn over_http(tool: &str, arguments: &Value, more: &Value) -> Sent {
    let mut params = call_with(tool, arguments, more);
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    Sent::message(&message)
        .with("mcp-protocol-version", "2026-07-28")
        .with("mcp-method", "tools/call")
        .with("mcp-name", tool)
}

fn clients_over_http_do_not_approve_for_themselves(world: &World) {
    let careful = ("HOTCELL_POLICY_PROFILE", "careful");
    let run = json!({ "command": "rm x", "wait_s": 0 });
    let server = HttpServer::start_with(world, &[], &[careful]);
    let asked = server.ask(&over_http("exec_run", &run, &json!({}))).is(200).tool_result();
    assert_eq!(asked["status"], "awaiting_approval", "{asked}");
    let exec = asked["exec_id"].clone();
    let forged = server.ask(&over_http("exec_run", &run, &answer(&exec, true))).is(200);
    assert!(forged.body.contains("none that was given out"), "{forged:?}");
    assert_eq!(world.exec(exec.as_str().unwrap())["state"], "queued");
    world.hotcell(["approve", "--refuse", exec.as_str().unwrap()]).run().succeeded();
    server.terminate();
    // The operator may say that such a client is to be trusted.
    let always = ("HOTCELL_POLICY_ASK_CLIENT", "always");
    let server = HttpServer::start_with(world, &[], &[careful, always]);
    let asked = server.ask(&over_http("exec_run", &run, &json!({}))).is(200).body;
    assert!(asked.contains("input_required"), "{asked}");
    server.terminate();
}

fn operators_answer_over_http_but_not_for_themselves(world: &World) {
    let rules = world.home().join("policy.toml");
    fs::write(&rules, RULES).unwrap();
    let variables =
        [("HOTCELL_POLICY_FILE", rules.to_str().unwrap()), ("HOTCELL_HTTP_AUTH", "required")];
    let server = HttpServer::start_with(world, &["--cell", "judged"], &variables);
    let token = |name: &str, role: &str| {
        let made = world.json(["token", "create", "--json", "--name", name, "--role", role]);
        format!("Bearer {}", made["token"].as_str().unwrap())
    };
    let (agent, ops) = (token("agent", "agent"), token("ops", "operator"));
    let by = |sent: Sent, bearer: &str| sent.with("authorization", bearer);
    let cell = json!({ "alias": "shared" });
    server.ask(&by(Sent::post("/v1/cells", &cell), &agent)).is(201);
    let put = |bearer: &str| {
        by(Sent::put("/v1/cells/shared/files/kept/a?create_parents=true", "x"), bearer)
    };
    let mut call = server.send(&put(&agent));
    let held = id(&waiting(world));
    let path = format!("/v1/approvals/{held}");
    let grant = Sent::post(&path, &json!({ "grant": "approve" }));
    server.ask(&by(grant.clone(), &agent)).is(403);
    server.ask(&by(Sent::get(&path), &agent)).is(403);
    let listed = server.ask(&by(Sent::get("/v1/approvals"), &ops)).is(200).json();
    assert_eq!(listed["approvals"][0]["id"], held, "{listed}");
    let shown = server.ask(&by(Sent::get(&path), &ops)).is(200).json();
    assert_eq!(shown["what"], "write kept/a", "{shown}");
    let given = server.ask(&by(grant, &ops)).is(200).json();
    assert_eq!(given["approval"]["answer"]["by"], "token:ops", "{given}");
    let done = call.answer().unwrap();
    assert!((200..300).contains(&done.status), "{done:?}");
    // What an operator asks for another one approves.
    let call = server.send(&put(&ops));
    let held = id(&waiting(world));
    let grant = Sent::post(&format!("/v1/approvals/{held}"), &json!({ "grant": "approve" }));
    let said = server.ask(&by(grant.clone(), &ops)).is(403).body;
    assert!(said.contains("cannot approve it too"), "{said}");
    let other = token("other", "operator");
    server.ask(&by(grant, &other)).is(200);
    drop(call);
    // A server that is told to end lets nobody wait on.
    let mut call = server.send(&by(Sent::delete("/v1/cells/shared/files/kept/a"), &agent));
    waiting(world);
    server.terminate();
    let said = call.answer().map(|answer| answer.body).unwrap_or_default();
    assert!(said.contains("awaits approval"), "{said}");
}

fn rules_that_deny_by_now_are_stronger_than_a_word(world: &World) {
    let mut agent = McpClient::start_with(serve(world), Era::Modern);
    agent.call("exec_run", json!({ "command": "touch a b" }));
    let asked = agent.call("exec_run", json!({ "command": "rm a", "wait_s": 0 }));
    let exec = asked["exec_id"].as_str().unwrap();
    let rules = world.home().join("policy.toml");
    agent.ask_tool("fs_write", write("kept/a", "x"));
    let held = eventually_some("the write waits", || {
        let listed = world.json(["approvals", "--json"]);
        let found = listed.as_array()?.iter().find(|it| it["tool"] == "fs_write")?.clone();
        Some(id(&found))
    });
    fs::write(&rules, RULES.replace("\"ask\"", "\"deny\"")).unwrap();
    let approve = |id: &str| world.hotcell(["approve", id]).env("HOTCELL_POLICY_FILE", &rules);
    approve(exec).run().exited(5);
    assert_eq!(world.ended(exec)["end"]["cause"], "denied");
    approve(&held).run().succeeded();
    let call = agent.ask_tool("fs_write", write("kept/a", "x"));
    let said = agent.answer(call)["result"]["content"][0]["text"].to_string();
    assert!(said.contains("denied by rule `asked-files`"), "{said}");
    let files = agent.call("exec_run", json!({ "command": "ls" }));
    assert_eq!(files["stdout"], "a\nb\n", "{files}");
    agent.leave();
}

fn what_is_denied_leaves_no_default_cell(world: &World) {
    let rules = world.home().join("policy.toml");
    fs::write(&rules, RULES.replace("\"ask\"", "\"deny\"")).unwrap();
    let serve = world.hotcell(["serve", "--cell", "judged"]).env("HOTCELL_POLICY_FILE", &rules);
    let mut agent = McpClient::start_with(serve, Era::Modern);
    for (tool, arguments) in
        [("exec_run", json!({ "command": "rm x" })), ("fs_write", write("kept/a", "x"))]
    {
        let call = agent.ask_tool(tool, arguments);
        assert_eq!(agent.answer(call)["result"]["isError"], true);
    }
    assert!(!world.text(["cells", "--all"]).contains("judged"));
    agent.call("exec_run", json!({ "command": "true" }));
    assert!(world.text(["cells", "--all"]).contains("judged"));
    agent.leave();
}

fn automatic_checkpoints_are_bounded(world: &World) {
    let mut agent = McpClient::start(world, Era::Modern);
    agent.call("cell_spawn", json!({ "alias": "undone", "checkpoint_before": "destructive" }));
    agent.call("exec_run", json!({ "cell": "undone", "command": "touch x" }));
    world.hotcell(["checkpoint", "create", "undone"]).run().succeeded();
    let list = || {
        let listed = world.json(["checkpoint", "list", "undone", "--json"]);
        let all = listed["checkpoints"].as_array().unwrap().clone();
        all.into_iter().partition::<Vec<Value>, _>(|it| it["automatic"] == true)
    };
    let removal =
        json!({ "cell": "undone", "command": "rm -f x; date > y", "idempotency_key": "k" });
    let first = agent.call("exec_run", removal.clone());
    assert!(first["checkpoint"].is_string(), "{first}");
    let again = agent.call("exec_run", removal);
    assert_eq!(again["checkpoint"], first["checkpoint"]);
    assert_eq!(list().0.len(), 1);
    let mut last = Value::Null;
    for _ in 0..20 {
        let run = json!({ "cell": "undone", "command": "rm -f y; date > y" });
        last = agent.call("exec_run", run)["checkpoint"].clone();
    }
    let (automatic, made) = list();
    assert_eq!((automatic.len(), made.len()), (20, 1), "{automatic:?} {made:?}");
    assert!(automatic.iter().all(|it| it["id"] != first["checkpoint"]), "{automatic:?}");
    assert_eq!(automatic[19]["id"], last);
    agent.leave();
}

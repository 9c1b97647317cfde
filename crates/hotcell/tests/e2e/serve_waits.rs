//! What runs while somebody waits for it through `hotcell serve`: it outlives the wait, the client
//! and the server, and waiting costs nothing.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{Era, McpClient, World, cpu_ticks, eventually, hello, is_alive};

in_worlds! { [root, rootless]
    the_end_of_input_ends_the_server_and_not_the_exec,
    an_explicit_cancel_ends_the_exec_and_a_timeout_does_not,
    tasks_are_for_the_revision_that_has_them,
    a_server_killed_among_a_hundred_execs_loses_nothing,
    two_servers_share_a_state_directory,
    a_thousand_waiting_polls_cost_nothing,
    a_wait_that_is_over_returns_what_was_printed,
    a_result_has_the_end_of_both_streams,
    a_wait_that_is_over_returns_the_end_of_much_output,
}

in_worlds! { [root]
    every_call_that_takes_long_sends_signs_of_life,
}

fn every_call_that_takes_long_sends_signs_of_life(world: &World) {
    let mut client = McpClient::start(world, Era::Legacy);
    let ran = client.call("exec_run", json!({ "command": "sleep 60", "wait_s": 0 }));
    let poll = json!({ "exec_id": ran["exec_id"], "until": "end", "wait_s": 7 });
    let call = |token: &Value| json!({ "name": "exec_poll", "arguments": poll, "_meta": token });
    client.request("tools/call", call(&json!({ "progressToken": "beat" })));
    let beats = |client: &McpClient| {
        let received = client.received();
        received.iter().filter(|line| line["params"]["progressToken"] == "beat").count()
    };
    assert!((1..=3).contains(&beats(&client)), "{}", beats(&client));
    // Without a progress token, no progress is sent.
    client.request("tools/call", call(&json!({})));
    let all = client.received();
    let progress = all.iter().filter(|line| line["method"] == "notifications/progress").count();
    assert_eq!(progress, beats(&client));
}

/// The exec of a call that waits, once it runs.
fn running_exec(client: &mut McpClient, cell: &str) -> String {
    let mut found = String::new();
    eventually("an exec runs", || {
        // The cell is made by the call itself.
        let id = client.ask_tool("exec_list", json!({ "status": "live", "cell": cell }));
        let listed = client.answer(id)["result"]["structuredContent"].clone();
        let Some(exec) = listed["execs"].get(0) else { return false };
        found = exec["exec_id"].as_str().unwrap().to_owned();
        exec["status"] == "running"
    });
    found
}

fn standing(client: &mut McpClient, exec: &str) -> Value {
    client.call("exec_poll", json!({ "exec_id": exec }))
}

fn the_end_of_input_ends_the_server_and_not_the_exec(world: &World) {
    for era in [Era::Modern, Era::Legacy] {
        let mut client = McpClient::start(world, era);
        client.call("cell_spawn", json!({ "alias": "stays", "persistent": true }));
        // Longer than a server takes to leave by far, and shorter than it would drain its calls.
        let script = "echo begun; sleep 4; echo over";
        client.ask_tool("exec_run", json!({ "cell": "stays", "command": script, "wait_s": 50 }));
        let exec = running_exec(&mut client, "stays");
        client.ask_tool("exec_poll", json!({ "exec_id": exec, "after_seq": 1, "wait_s": 50 }));
        client.leave().0.succeeded();
        assert_eq!(world.exec(&exec)["state"], "running", "the server left first");
        let mut next = McpClient::start(world, era);
        assert_eq!(next.read_by_cursor(&exec, 0).0, "begun\nover\n");
        assert_eq!(standing(&mut next, &exec)["exit_code"], 0);
        next.call("cell_kill", json!({ "cell": "stays", "volumes": true }));
        next.leave().0.succeeded();
    }
}

fn an_explicit_cancel_ends_the_exec_and_a_timeout_does_not(world: &World) {
    for era in [Era::Modern, Era::Legacy] {
        let mut client = McpClient::start(world, era);
        client.call("cell_spawn", json!({ "alias": "work", "persistent": true }));
        for (reason, ends) in [
            (json!("timed out after 0.5s"), false),
            (json!("McpError: MCP error -32001: Request timed out"), false),
            (json!("caller cancelled"), true),
            (Value::Null, true),
        ] {
            let asked = json!({ "cell": "work", "command": "sleep 1000", "wait_s": 50 });
            let call = client.ask_tool("exec_run", asked);
            let exec = running_exec(&mut client, "work");
            let mut params = json!({ "requestId": call });
            if !reason.is_null() {
                params["reason"] = reason.clone();
            }
            client.send(
                &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
            );
            if ends {
                eventually("the exec has ended", || {
                    standing(&mut client, &exec)["status"] == "ended"
                });
                assert_eq!(standing(&mut client, &exec)["end_cause"], "cancelled", "{reason}");
            } else {
                // Whatever was to come of it has come once a later call is answered.
                let later = client.call("exec_run", json!({ "cell": "work", "command": "true" }));
                assert_eq!(later["exit_code"], 0);
                assert_eq!(standing(&mut client, &exec)["status"], "running", "{reason}");
                client.call("exec_cancel", json!({ "exec_id": exec, "signal": "KILL" }));
                client.read_by_cursor(&exec, 0);
            }
            let answered = |message: &Value| message["id"] == call;
            assert!(!client.received().iter().any(answered), "a cancelled call has no answer");
        }
        client.call("cell_kill", json!({ "cell": "work", "volumes": true }));
        client.leave().0.succeeded();
    }
}

fn tasks_are_for_the_revision_that_has_them(world: &World) {
    const UNKNOWN_METHOD: i64 = -32601;
    let declared = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    // Some clients declare tasks in every revision.
    let mut old = McpClient::start_silent(world.hotcell(["serve"]), Era::Legacy);
    let mut params = hello("2025-11-25");
    params["capabilities"] = declared.clone();
    old.request("initialize", params);
    let asked = json!({ "command": "cat", "stdin_open": true, "wait_s": 0 });
    let exec = old.call("exec_run", asked.clone())["exec_id"].as_str().unwrap().to_owned();
    for method in ["tasks/get", "tasks/cancel"] {
        let answer = old.request(method, json!({ "taskId": exec }));
        assert_eq!(answer["error"]["code"], UNKNOWN_METHOD, "{method}: {answer}");
    }
    // Its cell may take long to start.
    eventually("it runs", || standing(&mut old, &exec)["status"] == "running");
    old.leave().0.succeeded();

    // What one server began is a task for the next one.
    let mut new = McpClient::start(world, Era::Modern);
    let meta = json!({ "io.modelcontextprotocol/clientCapabilities": declared });
    let get = json!({ "taskId": exec, "_meta": meta });
    assert_eq!(new.request("tasks/get", get.clone())["result"]["status"], "working");
    let call = json!({ "name": "exec_run", "arguments": asked, "_meta": meta });
    let task = new.request("tools/call", call)["result"].clone();
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")));
    new.request("tasks/cancel", get.clone());
    eventually("the task is cancelled", || {
        new.request("tasks/get", get.clone())["result"]["status"] == "cancelled"
    });
    new.call("exec_cancel", json!({ "exec_id": task["taskId"], "signal": "KILL" }));
    new.leave().0.succeeded();
}

fn a_server_killed_among_a_hundred_execs_loses_nothing(world: &World) {
    const EXECS: u64 = 100;
    let mut client = McpClient::start(world, Era::Modern);
    client.call("cell_spawn", json!({ "alias": "crowd", "persistent": true }));
    let hold = json!({ "cell": "crowd", "stdin_open": true, "wait_s": 0,
        "command": "flock gate sh -c 'echo shut; cat'" });
    let gate = client.call("exec_run", hold);
    let gate = gate["exec_id"].as_str().unwrap().to_owned();
    assert!(
        !client.call("exec_poll", json!({ "exec_id": gate, "wait_s": 50 }))["messages"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    // Each is in the middle of its output, at a place that it does not choose.
    let script = |n: u64| {
        format!(
            "seq -f '{n}:%g' 1 {}; echo err {n} >&2; flock --shared gate true; \
             seq -f '{n}:%g' {} 400; exit {}",
            n * 3 + 1,
            n * 3 + 2,
            n % 100
        )
    };
    let mut calls = Vec::new();
    for n in 0..EXECS {
        // Half of them have a caller who waits.
        let wait_s = if n % 2 == 0 { 50 } else { 0 };
        let asked = json!({ "cell": "crowd", "command": script(n), "wait_s": wait_s,
            "env": { "NUMBER": n.to_string() }, "idempotency_key": format!("n{n}") });
        calls.push(client.ask_tool("exec_run", asked));
    }
    eventually("all of them run", || {
        client.call("cell_info", json!({ "cell": "crowd" }))["stats"]["running"] == EXECS + 1
    });
    // Some were read in part by then, and the reader goes on from where it was.
    let mut read = Vec::new();
    for n in 0..EXECS {
        let again = json!({ "cell": "crowd", "command": script(n), "wait_s": 0,
            "env": { "NUMBER": n.to_string() }, "idempotency_key": format!("n{n}") });
        let exec = client.call("exec_run", again)["exec_id"].as_str().unwrap().to_owned();
        let page = client.call("exec_poll", json!({ "exec_id": exec, "max_bytes": 1 }));
        let (mut out, mut err) = (String::new(), String::new());
        let first = page["messages"].as_array().unwrap().iter();
        for message in first {
            let sink = if message["stream"] == "stdout" { &mut out } else { &mut err };
            sink.push_str(message["data"].as_str().unwrap());
        }
        read.push((exec, page["next_seq"].as_u64().unwrap(), out, err));
    }
    let server = client.pid();
    client.kill();
    assert!(!is_alive(server));

    let mut next = McpClient::start(world, Era::Legacy);
    next.call("exec_input", json!({ "exec_id": gate, "eof": true }));
    for (n, (exec, after, out, err)) in (0..).zip(read) {
        let (more_out, more_err) = next.read_by_cursor(&exec, after);
        let wanted: String = (1..=400).map(|line| format!("{n}:{line}\n")).collect();
        assert_eq!(out + &more_out, wanted, "exec {n}");
        assert_eq!(err + &more_err, format!("err {n}\n"), "exec {n}");
        assert_eq!(standing(&mut next, &exec)["exit_code"], n % 100, "exec {n}");
    }
    next.leave().0.succeeded();
}

fn two_servers_share_a_state_directory(world: &World) {
    let mut one = McpClient::start(world, Era::Modern);
    let mut other = McpClient::start(world, Era::Legacy);
    one.call("cell_spawn", json!({ "alias": "shared", "persistent": true }));
    let asked = json!({ "cell": "shared", "command": "read x; echo got $x", "stdin_open": true,
        "wait_s": 0 });
    let exec = one.call("exec_run", asked)["exec_id"].as_str().unwrap().to_owned();
    // One waits, the other acts.
    let wait = one.ask_tool("exec_poll", json!({ "exec_id": exec, "wait_s": 50 }));
    other.call("exec_input", json!({ "exec_id": exec, "text": "word\n" }));
    let page = one.answer(wait)["result"]["structuredContent"].clone();
    assert_eq!(page["messages"][0]["data"], "got word\n", "{page}");
    assert_eq!(other.read_by_cursor(&exec, 0).0, "got word\n");
    // Both make the default cell at the same moment, and it is the same.
    let write = |n: u32| json!({ "command": format!("echo {n} >> both; cat both | wc -l") });
    let calls = (one.ask_tool("exec_run", write(1)), other.ask_tool("exec_run", write(2)));
    let ran = (one.answer(calls.0), other.answer(calls.1));
    let content = |answer: &Value| answer["result"]["structuredContent"].clone();
    assert_eq!(content(&ran.0)["cell"], content(&ran.1)["cell"], "{ran:?}");
    let lines = one.call("exec_run", json!({ "command": "sort both" }));
    assert_eq!(lines["stdout"], "1\n2\n");
    // One dies; the other and what runs are none the worse.
    let asked = json!({ "cell": "shared", "command": "sleep 1000", "wait_s": 50 });
    one.ask_tool("exec_run", asked);
    let exec = running_exec(&mut one, "shared");
    one.kill();
    assert_eq!(standing(&mut other, &exec)["status"], "running");
    other.call("cell_kill", json!({ "cell": "shared", "force": true, "volumes": true }));
    assert_eq!(standing(&mut other, &exec)["status"], "ended");
    other.leave().0.succeeded();
}

/// What both sides of a wait have spent so far, in ticks.
fn spent(server: i32, supervisor: i32) -> i32 {
    cpu_ticks(server) + cpu_ticks(supervisor)
}

fn a_thousand_waiting_polls_cost_nothing(world: &World) {
    const POLLS: usize = 1000;
    // How long the machine is watched; not a bound on anything.
    const WATCH: Duration = Duration::from_secs(4);
    const SETTLE: Duration = Duration::from_secs(1);
    // 1 % of one processor, where a poll that looked ten times a second would cost all of it.
    const ALLOWED_TICKS: i32 = 4;
    let mut client = McpClient::start(world, Era::Modern);
    client.call("cell_spawn", json!({ "alias": "quiet", "persistent": true }));
    let asked = json!({ "cell": "quiet", "command": "cat", "stdin_open": true, "wait_s": 0 });
    let exec = client.call("exec_run", asked)["exec_id"].as_str().unwrap().to_owned();
    let (server, supervisor) = (client.pid(), world.supervisor("quiet"));
    let watch = || {
        let before = spent(server, supervisor);
        std::thread::sleep(WATCH);
        spent(server, supervisor) - before
    };
    let alone = watch();
    let poll = json!({ "exec_id": exec, "wait_s": 50 });
    // A client that asks for progress is sent signs of life, which cost something.
    let polls: Vec<u64> =
        (0..POLLS).map(|_| client.ask_tool_silently("exec_poll", poll.clone())).collect();
    // Until all of them wait there is work to do.
    eventually("the machine is quiet", || {
        let before = spent(server, supervisor);
        std::thread::sleep(SETTLE);
        spent(server, supervisor) == before
    });
    let with_polls = watch();
    let is_poll = |message: &Value| message["id"].as_u64().is_some_and(|id| polls.contains(&id));
    assert!(!client.received().iter().any(is_poll), "every poll waits");
    assert!(with_polls <= alone + ALLOWED_TICKS, "{alone} ticks without, {with_polls} with them");
    // They were no idle promise: all of them are woken by one line.
    client.call("exec_input", json!({ "exec_id": exec, "text": "line\n" }));
    client.find_many(POLLS, |message| {
        message["result"]["structuredContent"]["messages"][0]["data"] == "line\n"
            && is_poll(message)
    });
    client.call("cell_kill", json!({ "cell": "quiet", "force": true, "volumes": true }));
    client.leave().0.succeeded();
}

/// Nearly every client sends a progress token, which must not cost it the output.
fn a_result_has_the_end_of_both_streams(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let command = "seq 1 30000; seq 1 60000 >&2";
    let ran = client.call("exec_run", json!({ "command": command, "wait_s": 50 }));
    assert_eq!((&ran["exit_code"], &ran["truncated"]), (&json!(0), &json!(true)), "{ran}");
    for (stream, last) in [("stdout", "\n30000\n"), ("stderr", "\n60000\n")] {
        let text = ran[stream].as_str().unwrap();
        assert!(text.ends_with(last) && text.contains("[cut:"), "{stream}: {text}");
    }
}

fn a_wait_that_is_over_returns_the_end_of_much_output(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let command = "seq 1 30000; echo problem >&2; sleep 1000";
    let ran = client.call("exec_run", json!({ "command": command, "wait_s": 3 }));
    assert_eq!((&ran["status"], &ran["truncated"]), (&json!("running"), &json!(true)), "{ran}");
    assert!(ran["stdout"].as_str().unwrap().ends_with("\n30000\n"), "{ran}");
    assert_eq!(ran["stderr"], "problem\n");
    let rest = json!({ "exec_id": ran["exec_id"], "after_seq": ran["next_seq"] });
    assert_eq!(client.call("exec_poll", rest)["messages"], json!([]));
    // The last lines are those of both streams.
    let last = json!({ "exec_id": ran["exec_id"], "tail_lines": 2 });
    let last = client.call("exec_poll", last)["messages"].clone();
    assert_eq!((&last[0]["data"], &last[1]["data"]), (&json!("30000\n"), &json!("problem\n")));
    // A question is found after it, too.
    let command = "seq 1 30000; printf 'Proceed? '; read -r answer";
    let run = json!({ "command": command, "stdin_open": true, "wait_s": 50 });
    let asked = client.call("exec_run", run);
    assert_eq!(asked["waiting_for_input"], "Proceed? ", "{asked}");
    assert!(asked["stdout"].as_str().unwrap().ends_with("\n30000\nProceed? "), "{asked}");
}

fn a_wait_that_is_over_returns_what_was_printed(world: &World) {
    let shell = json!({ "command": "echo early; exec sleep 1000", "wait_s": 3 });
    let code =
        json!({ "code": "print('early', flush=True)\nimport time\ntime.sleep(1000)", "wait_s": 3 });
    for era in [Era::Modern, Era::Legacy] {
        let mut client = McpClient::start(world, era);
        // Later starts take far less than the wait.
        client.call("exec_run", json!({ "command": "true" }));
        client.call("code_run", json!({ "code": "1" }));
        let mut keyed = shell.clone();
        keyed["idempotency_key"] = json!(format!("{era:?}"));
        for (tool, asked) in [("exec_run", &shell), ("code_run", &code), ("exec_run", &keyed)] {
            let with_token = client.ask_tool(tool, asked.clone());
            let silent = client.ask_tool_silently(tool, asked.clone());
            let ran = [with_token, silent]
                .map(|id| client.answer(id)["result"]["structuredContent"].clone());
            for ran in ran {
                assert_eq!(
                    (&ran["status"], &ran["stdout"]),
                    (&json!("running"), &json!("early\n"))
                );
                assert_eq!(ran["next_seq"], 1, "{ran}");
                client.call("exec_cancel", json!({ "exec_id": ran["exec_id"], "signal": "KILL" }));
            }
        }
        client.leave().0.succeeded();
    }
}

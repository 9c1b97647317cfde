//! Commands over MCP whose cell takes longer to start than their callers wait. The cells wait for
//! room that another cell has, so how long a start takes is up to the test.

use serde_json::{Value, json};

use crate::world::{Era, McpClient, World, eventually};

in_worlds! { [root, rootless]
    the_start_of_a_cell_counts_towards_the_wait,
    the_wake_of_a_cell_counts_towards_the_wait,
    a_start_that_fails_is_the_failure_of_its_exec,
    a_start_is_cancelled_by_its_exec_id,
    a_call_that_is_given_up_does_not_lose_its_exec,
    a_key_finds_the_exec_that_is_starting,
    a_server_that_ends_finishes_what_it_promised,
    any_first_call_finds_the_default_cell,
    processes_that_are_ended_with_a_command_are_reported,
}

/// A client of a server whose cells find no room until the cell `first` is gone.
fn crowded(world: &World, era: Era) -> McpClient {
    world.text(["spawn", "first"]);
    let serve = world.hotcell(["serve"]).env("HOTCELL_ADMISSION_CELLS", "1");
    McpClient::start_with(serve.env("HOTCELL_ADMISSION_WAIT_S", "3600"), era)
}

fn make_room(world: &World) {
    world.text(["kill", "--volumes", "first"]);
}

fn starting(ran: &Value) -> String {
    assert_eq!(ran["status"], "starting", "{ran}");
    ran["exec_id"].as_str().unwrap().to_owned()
}

fn listed(client: &mut McpClient, exec: &str) -> Value {
    let execs = client.call("exec_list", json!({}))["execs"].clone();
    let found = execs.as_array().unwrap().iter().find(|it| it["exec_id"] == exec);
    found.cloned().unwrap_or_else(|| panic!("{exec} is not in {execs}"))
}

/// The text of a call that is refused.
fn refusal(client: &mut McpClient, tool: &str, arguments: Value) -> String {
    let id = client.ask_tool(tool, arguments);
    let answer = client.answer(id);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Starts a command that waits for its cell, looks at it in every way, and lets it run.
fn runs_in_the_end(world: &World, client: &mut McpClient, cell: Option<&str>) {
    let mut asked = json!({ "command": "echo in; exit 3", "wait_s": 0 });
    if let Some(cell) = cell {
        asked["cell"] = json!(cell);
    }
    let exec = starting(&client.call("exec_run", asked));
    let page = client.call("exec_poll", json!({ "exec_id": exec }));
    assert_eq!((&page["status"], &page["complete"]), (&json!("starting"), &json!(false)));
    assert_eq!(page["next_seq"], 0, "{page}");
    let entry = listed(client, &exec);
    assert_eq!(
        (&entry["status"], &entry["command"]),
        (&json!("starting"), &json!("echo in; exit 3"))
    );
    let ended = client.call("exec_list", json!({ "status": "ended" }));
    assert!(!ended.to_string().contains(&exec), "it has not ended: {ended}");
    let told = refusal(client, "exec_input", json!({ "exec_id": exec, "text": "x" }));
    assert!(told.contains("it is starting") && told.contains("exec_poll"), "{told}");
    make_room(world);
    assert_eq!(client.read_by_cursor(&exec, 0).0, "in\n");
    let page = client.call("exec_poll", json!({ "exec_id": exec }));
    assert_eq!((&page["status"], &page["exit_code"]), (&json!("ended"), &json!(3)));
    assert_eq!(listed(client, &exec)["exit_code"], 3);
}

fn the_start_of_a_cell_counts_towards_the_wait(world: &World) {
    for era in [Era::Modern, Era::Legacy] {
        let mut client = crowded(world, era);
        runs_in_the_end(world, &mut client, None);
        client.call("cell_kill", json!({ "cell": "default", "volumes": true }));
        client.leave().0.succeeded();
    }
}

fn the_wake_of_a_cell_counts_towards_the_wait(world: &World) {
    let spawn = world.hotcell(["spawn", "work", "--persistent"]);
    spawn.env("HOTCELL_SLEEP_AFTER_S", "1").run().succeeded();
    eventually("it is asleep", || {
        world.json(["info", "work", "--json"])["cell"]["state"] == "asleep"
    });
    let mut client = crowded(world, Era::Legacy);
    runs_in_the_end(world, &mut client, Some("work"));
    client.leave().0.succeeded();
}

/// The cell that waits for room.
fn waiting_cell(world: &World) -> String {
    let mut found = String::new();
    eventually("a cell waits for room", || {
        let cells = world.json(["cells", "--json"])["cells"].clone();
        let mut cells = cells.as_array().unwrap().iter();
        let waiting = cells.find(|cell| cell["state"] == "starting");
        let Some(cell) = waiting else { return false };
        found = cell["id"].as_str().unwrap().to_owned();
        true
    });
    found
}

fn a_start_that_fails_is_the_failure_of_its_exec(world: &World) {
    let mut client = crowded(world, Era::Legacy);
    let exec = starting(&client.call("exec_run", json!({ "command": "true", "wait_s": 0 })));
    // A poll that waits for it is answered by its failure.
    let poll = client.ask_tool("exec_poll", json!({ "exec_id": exec, "wait_s": 50 }));
    world.text(["kill", "--volumes", &waiting_cell(world)]);
    let answer = client.answer(poll);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    for told in [
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned(),
        refusal(&mut client, "exec_poll", json!({ "exec_id": exec })),
    ] {
        assert!(told.contains(&format!("exec {exec} did not start")), "{told}");
        assert!(told.contains("ended while it waited"), "{told}");
    }
    let entry = listed(&mut client, &exec);
    assert_eq!((&entry["status"], &entry["end_cause"]), (&json!("ended"), &json!("not_started")));
    let live = client.call("exec_list", json!({ "status": "live" }));
    assert_eq!(live["execs"], json!([]));
    client.leave().0.succeeded();
}

fn a_start_is_cancelled_by_its_exec_id(world: &World) {
    let mut client = crowded(world, Era::Modern);
    let asked = json!({ "command": "touch marker", "wait_s": 0 });
    let exec = starting(&client.call("exec_run", asked));
    let cancel = json!({ "exec_id": exec });
    assert_eq!(client.call("exec_cancel", cancel.clone())["status"], "cancelled");
    assert_eq!(client.call("exec_cancel", cancel)["status"], "already_ended");
    let page = client.call("exec_poll", json!({ "exec_id": exec, "wait_s": 50 }));
    assert_eq!((&page["status"], &page["end_cause"]), (&json!("ended"), &json!("cancelled")));
    assert_eq!(page["complete"], true);
    assert_eq!(listed(&mut client, &exec)["end_cause"], "cancelled");
    make_room(world);
    let ran = client.call("exec_run", json!({ "command": "ls marker", "wait_s": 50 }));
    assert_eq!(ran["exit_code"], 2, "it never ran: {ran}");
    client.leave().0.succeeded();
}

fn a_call_that_is_given_up_does_not_lose_its_exec(world: &World) {
    for (reason, cause) in
        [("timed out after 5 s", "exited"), ("the user pressed esc", "cancelled")]
    {
        let mut client = crowded(world, Era::Legacy);
        let call = client.ask_tool("exec_run", json!({ "command": "true", "wait_s": 50 }));
        let cell = waiting_cell(world);
        let params = json!({ "requestId": call, "reason": reason });
        client.send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
        );
        let mut exec = Value::Null;
        eventually("the exec is listed", || {
            exec = client.call("exec_list", json!({}))["execs"][0].clone();
            exec["status"] == if cause == "exited" { "starting" } else { "ended" }
        });
        make_room(world);
        let id = exec["exec_id"].as_str().unwrap();
        eventually("it has ended", || listed(&mut client, id)["status"] == "ended");
        assert_eq!(listed(&mut client, id)["end_cause"], cause, "{reason}");
        client.leave().0.succeeded();
        world.text(["kill", "--volumes", "--force", &cell]);
    }
}

fn a_key_finds_the_exec_that_is_starting(world: &World) {
    let mut client = crowded(world, Era::Legacy);
    let asked =
        json!({ "command": "echo once >> log; cat log", "wait_s": 0, "idempotency_key": "k" });
    let one = starting(&client.call("exec_run", asked.clone()));
    let other = starting(&client.call("exec_run", asked.clone()));
    make_room(world);
    for id in [&one, &other] {
        let mut page = Value::Null;
        eventually("it has ended", || {
            page = client.call("exec_poll", json!({ "exec_id": id, "wait_s": 20 }));
            page["complete"] == true
        });
        assert_eq!(page["messages"][0]["data"], "once\n", "{page}");
    }
    let again = client.call(
        "exec_run",
        json!({ "wait_s": 20, "command": asked["command"],
        "idempotency_key": "k" }),
    );
    assert_eq!(again["stdout"], "once\n");
    client.leave().0.succeeded();
}

fn a_server_that_ends_finishes_what_it_promised(world: &World) {
    let mut client = crowded(world, Era::Legacy);
    let exec = starting(&client.call("exec_run", json!({ "command": "echo in", "wait_s": 0 })));
    drop(client.take_input());
    make_room(world);
    client.leave().0.succeeded();
    assert_eq!(world.ended(&exec)["end"]["exit_code"], 0);
}

fn any_first_call_finds_the_default_cell(world: &World) {
    for (tool, arguments) in [
        ("cell_info", json!({})),
        ("cell_attach", json!({})),
        ("cell_checkpoint", json!({ "action": "create" })),
        ("cell_checkpoint", json!({ "action": "list" })),
        ("cell_fork", json!({})),
        ("exec_list", json!({ "cell": "default" })),
    ] {
        let mut client = McpClient::start(world, Era::Legacy);
        client.call(tool, arguments);
        let info = client.call("cell_info", json!({}));
        assert_eq!(info["cell"]["persistent"], true, "{tool}: {info}");
        client.call("cell_kill", json!({ "cell": "default", "force": true, "volumes": true }));
        // Ending it does not make it.
        let told = refusal(&mut client, "cell_kill", json!({ "cell": "default" }));
        assert!(told.contains("there is no cell"), "{told}");
        client.leave().0.succeeded();
    }
    // A person who looks makes no cell.
    world.hotcell(["info", "default"]).run().exited(3);
}

fn processes_that_are_ended_with_a_command_are_reported(world: &World) {
    let mut client = McpClient::start(world, Era::Legacy);
    let mut run = |command: &str| {
        let id = client.ask_tool("exec_run", json!({ "command": command, "wait_s": 50 }));
        let result = client.answer(id)["result"].clone();
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        let exec = result["structuredContent"]["exec_id"].clone();
        let page = client.call("exec_poll", json!({ "exec_id": exec, "wait_s": 20 }));
        (text, result["structuredContent"]["ended_with"].clone(), page["ended_with"].clone())
    };
    for command in ["nohup sleep 1000 & echo begun", "setsid sleep 1000 >/dev/null 2>&1 &"] {
        let (text, note, later) = run(command);
        let note = note.as_str().unwrap_or_else(|| panic!("{command}: {text}"));
        assert!(note.starts_with("1 process ") && note.contains("without &"), "{note}");
        assert!(text.contains(note) && later == note, "{text} {later}");
    }
    let (text, note, later) = run("sleep 0.01 & wait; echo done");
    assert!(note.is_null() && later.is_null() && !text.contains("ended with"), "{text}");
    client.leave().0.succeeded();
}

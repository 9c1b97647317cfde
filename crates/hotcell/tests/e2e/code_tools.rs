//! Code that calls the tools of real servers of others.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::world::{Era, McpClient, World, eventually_some, tool_servers};

in_worlds! { [root, docker, remote]
    code_finds_and_calls_tools,
}

in_worlds! { [root]
    what_goes_wrong_with_a_tool_is_raised,
    a_tool_that_no_rule_names_waits_for_a_person,
    code_that_was_approved_reaches_its_tools,
    each_run_of_a_session_calls_tools_as_its_own,
    without_servers_there_are_no_tools,
}

/// How many calls of tools a run made.
pub(crate) fn calls_of(ran: &Value) -> u64 {
    let tools = ran["tools_called"].as_array().unwrap().iter();
    tools.map(|tool| tool["calls"].as_u64().unwrap()).sum()
}

/// A configuration with these servers.
pub(crate) fn declare(world: &World, place: &Path) -> String {
    let script = |package: &str| {
        let path = place.join("node_modules/@modelcontextprotocol").join(package);
        path.join("dist/index.js").display().to_string()
    };
    let files = world.home().join("files");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("note.txt"), "from the host").unwrap();
    let config = format!(
        "[toolbox.everything]\ncommand = \"node\"\nargs = [{:?}, \"stdio\"]\n\
         [toolbox.files]\ncommand = \"node\"\nargs = [{:?}, {:?}]\ntrust_annotations = true\n",
        script("server-everything"),
        script("server-filesystem"),
        files,
    );
    let file = world.home().join("hotcell.toml");
    fs::write(&file, config).unwrap();
    file.display().to_string()
}

pub(crate) const ALLOW: &str =
    "[[rule]]\nid = \"tools\"\nverdict = \"allow\"\ntool = [\"everything.*\"]\n";

pub(crate) fn agent(world: &World, place: &Path, rules: &str) -> McpClient {
    let config = declare(world, place);
    let file = world.home().join("policy.toml");
    fs::write(&file, rules).unwrap();
    let serve = world.hotcell(["serve", "--config", &config]).env("HOTCELL_POLICY_FILE", &file);
    McpClient::start_with(serve, Era::Modern)
}

fn run(client: &mut McpClient, code: &str) -> Value {
    client.call("code_run", json!({ "code": code, "timeout_s": 120, "wait_s": 50 }))
}

fn code_finds_and_calls_tools(world: &World) {
    let Some(place) = tool_servers() else { return };
    let mut client = agent(world, &place, ALLOW);
    let found = client.call("tool_search", json!({ "query": "echo a message back" }));
    assert!(found["tools"][0].as_str().unwrap().contains("echo"), "{found}");
    let of_files = json!({ "query": "read a text file", "server": "files", "detail": "name" });
    let found = client.call("tool_search", of_files);
    assert!(found["tools"].to_string().contains("files.read_text_file"), "{found}");

    let code = "from tools.everything import echo, get_sum\nfrom tools import gather\n\
                one = echo(message='hello')\n\
                many = gather(*[get_sum.start(a=n, b=n) for n in range(20)])\n\
                [one, len(many), many[3]]";
    let ran = run(&mut client, code);
    assert_eq!(ran["status"], "ok", "{ran}");
    assert!(ran["result"][0].as_str().unwrap().contains("hello"), "{ran}");
    assert_eq!(ran["result"][1], 20, "{ran}");
    assert!(ran["result"][2].as_str().unwrap().contains('6'), "{ran}");
    assert_eq!(calls_of(&ran), 21, "{ran}");

    // What only reads is allowed where the operator takes a server at its word; the file is the host's.
    let path = world.home().join("files/note.txt");
    let ran = run(
        &mut client,
        &format!("from tools.files import read_text_file\nread_text_file(path={path:?})"),
    );
    assert!(ran["result"].to_string().contains("from the host"), "{ran}");

    // Each call is in the ledger, by its name and whose it is.
    let entries = world.text(["audit", "--json"]);
    assert!(entries.contains("everything.get_sum") && entries.contains("tool_run"), "{entries}");
}

fn what_goes_wrong_with_a_tool_is_raised(world: &World) {
    let Some(place) = tool_servers() else { return };
    let mut client = agent(world, &place, ALLOW);
    let code = "from tools import ToolError\nfrom tools.everything import get_sum\n\
                def told(call):\n    try:\n        call()\n    except ToolError as error:\n        \
                return [error.code, error.message, error.hint]\n\
                [told(lambda: get_sum(a='x', b=1)), told(lambda: get_sum())]";
    let ran = run(&mut client, code);
    for wrong in ran["result"].as_array().unwrap() {
        assert_eq!(wrong[0], "invalid", "{ran}");
        assert!(wrong[2].as_str().unwrap().contains("get_sum("), "the stub: {ran}");
    }
    for (code, named) in [
        ("from tools.everything import no_such_tool", "no_such_tool"),
        ("import tools.nobody", "nobody"),
        ("from tools.files import read_text_file\nread_text_file(path='/etc/passwd')", "denied"),
    ] {
        let ran = run(&mut client, code);
        assert_eq!(ran["status"], "error", "{code}: {ran}");
        assert!(ran["error"].to_string().contains(named), "{code}: {ran}");
    }
}

fn a_tool_that_no_rule_names_waits_for_a_person(world: &World) {
    let Some(place) = tool_servers() else { return };
    let mut client = agent(world, &place, "");
    // The search says what awaits, and what the operator does about it.
    let found = client.call("tool_search", json!({ "query": "echo" }));
    assert!(found["approval"].to_string().contains("everything.*"), "{found}");
    let code = "from tools.everything import echo\necho(message='approved')";
    for (answer, status) in [("approve", "ok"), ("refuse", "error")] {
        let asked =
            client.ask_tool("code_run", json!({ "code": code, "timeout_s": 100, "wait_s": 50 }));
        let held = eventually_some("the call waits", || {
            let listed = world.json(["approvals", "--json"]);
            listed.as_array()?.first().map(|first| first["id"].as_str().unwrap().to_owned())
        });
        let shown = world.text(["approvals", &held]);
        assert!(shown.contains("everything.echo"), "{shown}");
        match answer {
            "approve" => world.text(["approve", &held]),
            _ => world.text(["approve", "--refuse", &held]),
        };
        // The model has learned at once what is awaited and how it is approved.
        let ran = client.answer(asked)["result"]["structuredContent"].clone();
        assert_eq!(ran["status"], "awaiting_approval", "{ran}");
        let how = ran["approval"].as_str().unwrap();
        assert!(how.contains(&format!("hotcell approve {held}")), "{how}");
        let page = eventually_some("the code has ended", || {
            let asked = json!({ "exec_id": ran["exec_id"], "after_seq": 0, "wait_s": 20 });
            Some(client.call("exec_poll", asked)).filter(|page| page["complete"] == true)
        });
        assert_eq!(page["code"]["error"].is_null(), status == "ok", "{page}");
    }
}

fn code_that_was_approved_reaches_its_tools(world: &World) {
    let Some(place) = tool_servers() else { return };
    let ask = "[[rule]]\nid = \"looks\"\nverdict = \"ask\"\ntool = [\"exec_run\"]\n";
    let mut client = agent(world, &place, &format!("{ALLOW}{ask}"));
    client.call("tool_search", json!({ "query": "echo" }));
    let code = "from tools.everything import echo\necho(message='after the queue')";
    let ran = client.call("code_run", json!({ "code": code, "wait_s": 0 }));
    let exec = ran["exec_id"].as_str().unwrap().to_owned();
    world.text(["approve", &exec]);
    let page = eventually_some("it is complete", || {
        let page = client.call("exec_poll", json!({ "exec_id": exec, "wait_s": 20 }));
        (page["complete"] == true).then_some(page)
    });
    assert!(page["code"]["result"].to_string().contains("after the queue"), "{page}");
}

fn without_servers_there_are_no_tools(world: &World) {
    let mut client = McpClient::start(world, Era::Modern);
    let found = client.call("tool_search", json!({ "query": "run", "detail": "name" }));
    let own = |name: &Value| name.as_str().unwrap().starts_with("hotcell.");
    assert!(found["tools"].as_array().unwrap().iter().all(own), "{found}");
    assert_eq!(found["hint"], Value::Null, "{found}");
    let nothing = client.call("tool_search", json!({ "query": "xyzzy" }));
    assert_eq!(nothing["tools"], json!([]), "{nothing}");
    assert!(nothing["hint"].as_str().unwrap().contains("tools fits"), "{nothing}");
    let ran = run(&mut client, "import tools.github");
    assert_eq!(ran["error"]["type"], "ModuleNotFoundError", "{ran}");
}

fn each_run_of_a_session_calls_tools_as_its_own(world: &World) {
    let Some(place) = tool_servers() else { return };
    let mut client = agent(world, &place, ALLOW);
    for (code, is_new) in [
        ("from tools.everything import echo\necho(message='one')", true),
        ("echo(message='one')", false),
        ("from tools.everything import echo\n[echo(message='one'), echo(message='two')][0]", false),
    ] {
        let asked = json!({ "code": code, "session": "a", "timeout_s": 120, "wait_s": 50 });
        let ran = client.call("code_run", asked);
        assert!(ran["result"].to_string().contains("one"), "{ran}");
        assert_eq!(ran["session"]["is_new"], is_new, "{ran}");
        let calls = code.matches("echo(").count();
        assert_eq!(ran["tools_called"][0]["calls"], calls, "{ran}");
    }
    let quiet = client.call("code_run", json!({ "code": "1", "session": "a" }));
    assert_eq!(quiet.get("tools_called"), None, "{quiet}");
}

//! Code that calls Hotcell's own tools.

use std::fs;

use serde_json::{Value, json};

use crate::world::{Era, McpClient, World, eventually_some};

in_worlds! { [root]
    code_uses_cells_as_its_caller_does,
    what_code_asks_of_hotcell_waits_for_a_person,
    code_that_waits_for_a_person_is_listed_so,
    what_a_tool_does_for_code_is_asked_about_too,
    the_rules_for_callers_hold_for_code_too,
    code_does_not_run_code_without_end,
}

const ALLOW: &str = "[[rule]]\nid = \"own\"\nverdict = \"allow\"\ntool = [\"hotcell.*\"]\n";

fn agent(world: &World, rules: &str) -> McpClient {
    let file = world.home().join("policy.toml");
    fs::write(&file, rules).unwrap();
    let serve = world.hotcell(["serve"]).env("HOTCELL_POLICY_FILE", &file);
    McpClient::start_with(serve, Era::Modern)
}

fn run(client: &mut McpClient, code: &str) -> Value {
    client.call("code_run", json!({ "code": code, "timeout_s": 100, "wait_s": 50 }))
}

fn code_uses_cells_as_its_caller_does(world: &World) {
    let mut client = agent(world, ALLOW);
    let found = client.call("tool_search", json!({ "query": "run a command in a cell" }));
    assert!(found["tools"].to_string().contains("hotcell: def exec_run("), "{found}");
    let code = "from tools.hotcell import cell_list, exec_run, fs_read, fs_write\n\
                fs_write(path='one.txt', content='by code')\n\
                said = exec_run(command='cat one.txt; exit 3')\n\
                [fs_read(path='one.txt')['content'], said['stdout'], said['exit_code'], \
                len(cell_list()['cells'])]";
    let ran = run(&mut client, code);
    assert_eq!(ran["result"], json!(["by code", "by code", 3, 1]), "{ran}");
    // It is the caller's own cell, and in the ledger under both names.
    let read = client.call("fs_read", json!({ "path": "one.txt" }));
    assert_eq!(read["content"], "by code", "{read}");
    let entries = world.text(["audit", "--json"]);
    assert!(entries.contains("hotcell.exec_run") && entries.contains("\"exec_run\""), "{entries}");
    // Arguments are held against the same schema as those of callers.
    let ran = run(&mut client, "from tools.hotcell import exec_run\nexec_run(order='true')");
    assert!(ran["error"]["message"].to_string().contains("order"), "{ran}");
}

fn what_a_tool_does_for_code_is_asked_about_too(world: &World) {
    let rules = format!(
        "{ALLOW}[[rule]]\nid = \"guarded\"\nverdict = \"ask\"\nwrites = [\"/workspace/guarded/**\"]\n"
    );
    let mut client = agent(world, &rules);
    let code = "from tools.hotcell import fs_write\n\
                fs_write(path='guarded/r.txt', content='x')['size']";
    let asked = run(&mut client, code);
    assert_eq!(asked["status"], "awaiting_approval", "{asked}");
    let how = asked["approval"].as_str().unwrap();
    assert!(how.contains("guarded/r.txt") && how.contains("hotcell approve h_"), "{how}");
    let held = world.json(["approvals", "--json"])[0]["id"].as_str().unwrap().to_owned();
    world.text(["approve", "--yes", &held]);
    let arguments = json!({ "exec_id": asked["exec_id"], "until": "end", "wait_s": 50 });
    let ended = client.call("exec_poll", arguments);
    assert_eq!((&ended["status"], &ended["code"]["result"]), (&json!("ended"), &json!(1)));
}

fn what_code_asks_of_hotcell_waits_for_a_person(world: &World) {
    let mut client = agent(world, "");
    let code = "from tools.hotcell import exec_run\nexec_run(command='echo approved')['stdout']";
    for (answer, status) in [("approve", "ok"), ("refuse", "error")] {
        let arguments = json!({ "code": code, "timeout_s": 100, "wait_s": 50 });
        let asked = client.ask_tool("code_run", arguments);
        let held = eventually_some("the call waits", || {
            let listed = world.json(["approvals", "--json"]);
            listed.as_array()?.first().map(|first| first["id"].as_str().unwrap().to_owned())
        });
        let shown = world.text(["approvals", &held]);
        assert!(shown.contains("hotcell.exec_run"), "{shown}");
        match answer {
            "approve" => world.text(["approve", &held]),
            _ => world.text(["approve", "--refuse", &held]),
        };
        // The model has learned at once what is awaited and how it is approved.
        let ran = client.answer(asked)["result"]["structuredContent"].clone();
        assert_eq!(ran["status"], "awaiting_approval", "{ran}");
        let how = ran["approval"].as_str().unwrap();
        assert!(how.contains(&format!("hotcell approve {held}")), "{how}");
        // Its own tools are on no server that could be declared.
        assert!(how.contains("`policy.file`") && !how.contains("[toolbox."), "{how}");
        let page = eventually_some("the code has ended", || {
            let asked = json!({ "exec_id": ran["exec_id"], "after_seq": 0, "wait_s": 20 });
            Some(client.call("exec_poll", asked)).filter(|page| page["complete"] == true)
        });
        assert_eq!(page["code"]["error"].is_null(), status == "ok", "{page}");
    }
    // Whoever had the code run needs nobody's word for the same.
    let ran = client.call("exec_run", json!({ "command": "echo at once" }));
    assert_eq!(ran["stdout"], "at once\n", "{ran}");
}

fn code_that_waits_for_a_person_is_listed_so(world: &World) {
    let mut client = agent(world, "");
    let found = client.call("tool_search", json!({ "query": "write a file" }));
    let advice = found["approval"].to_string();
    assert!(advice.contains("`policy.file`") && !advice.contains("[toolbox."), "{found}");
    let ran = run(&mut client, "from tools.hotcell import exec_run\nexec_run(command='true')");
    assert_eq!(ran["status"], "awaiting_approval", "{ran}");
    let exec = ran["exec_id"].as_str().unwrap();
    for (tool, arguments) in [
        ("exec_list", json!({ "status": "live" })),
        ("cell_info", json!({})),
        ("cell_attach", json!({})),
    ] {
        let shown = client.call(tool, arguments);
        let listed = shown["execs"].as_array().unwrap();
        let listed = listed.iter().find(|it| it["exec_id"] == exec).unwrap();
        assert_eq!(listed["status"], "awaiting_approval", "{tool}: {shown}");
    }
    // After the code has ended, its approval is no longer listed.
    assert_eq!(world.json(["approvals", "--json"]).as_array().unwrap().len(), 1);
    client.call("exec_cancel", json!({ "exec_id": exec, "grace_s": 0 }));
    world.ended(exec);
    assert_eq!(world.json(["approvals", "--json"]), json!([]));
}

fn the_rules_for_callers_hold_for_code_too(world: &World) {
    let deny = "[[rule]]\nid = \"keep\"\nverdict = \"deny\"\ntool = [\"fs_delete\"]\n";
    let mut client = agent(world, &format!("{ALLOW}{deny}"));
    let code = "from tools.hotcell import fs_delete, fs_write\n\
                fs_write(path='kept.txt', content='x')\nfs_delete(path='kept.txt')";
    let ran = run(&mut client, code);
    assert_eq!(ran["error"]["type"], "tools.ToolError", "{ran}");
    assert!(ran["error"]["message"].to_string().contains("denied"), "{ran}");
    assert_eq!(client.call("fs_read", json!({ "path": "kept.txt" }))["content"], "x");
}

/// Code that has code run that has code run.
fn nested(depth: usize) -> String {
    if depth == 0 {
        return "40 + 2".to_owned();
    }
    let inner = serde_json::to_string(&nested(depth - 1)).unwrap();
    format!(
        "from tools.hotcell import code_run\nran = code_run(code={inner})\n\
         ran['result'] if ran['status'] == 'ok' else ran['error']['message']"
    )
}

fn code_does_not_run_code_without_end(world: &World) {
    let mut client = agent(world, ALLOW);
    let ran = run(&mut client, &nested(3));
    assert_eq!(ran["result"], 42, "{ran}");
    let ran = run(&mut client, &nested(4));
    assert!(ran["result"].to_string().contains("3 deep"), "{ran}");
}

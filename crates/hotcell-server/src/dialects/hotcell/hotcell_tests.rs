//! Tests of the default dialect.

use hotcell_model::{
    CellRef, Command, ErrorCode, Exec, ExecResult, Keep, Reply, Request, Stdin, Timestamp,
};
use rmcp::model::{JsonObject, Tool};
use serde_json::json;

use crate::dialects::hotcell::{FileBounds, HotcellDialect};
use crate::toolsets::Toolsets;
use hotcell_dialects::Dialect;

fn dialect() -> HotcellDialect {
    HotcellDialect::new(&Toolsets::default(), FileBounds::default())
}

fn arguments(value: serde_json::Value) -> JsonObject {
    serde_json::from_value(value).unwrap()
}

#[test]
fn the_list_is_short_and_always_the_same() {
    let names: Vec<_> = dialect().tools().iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(
        names,
        [
            "cell_spawn",
            "cell_attach",
            "cell_list",
            "cell_info",
            "cell_kill",
            "cell_checkpoint",
            "cell_fork",
            "exec_run",
            "exec_poll",
            "exec_input",
            "exec_cancel",
            "exec_list",
            "code_run",
            "tool_search",
            "fs_read",
            "fs_write",
            "fs_edit",
            "fs_list",
            "fs_stat",
            "fs_delete",
            "fs_search",
            "fs_batch",
            "fs_export",
            "fs_import"
        ]
    );
    let tokenizer = tiktoken_rs::o200k_base().unwrap();
    let cost =
        |tools: &[Tool]| tokenizer.encode_ordinary(&serde_json::to_string(tools).unwrap()).len();
    let dialect = dialect();
    assert!(cost(dialect.tools()) < 6000, "all tools cost {} tokens", cost(dialect.tools()));
    let is_of_code = |tool: &Tool| ["code_run", "tool_search"].contains(&&*tool.name);
    let is_later = |tool: &Tool| {
        let later = ["cell_checkpoint", "cell_fork"];
        tool.name.starts_with("fs_") || later.contains(&&*tool.name) || is_of_code(tool)
    };
    let of_code: Vec<Tool> = dialect.tools().iter().filter(|it| is_of_code(it)).cloned().collect();
    assert!(cost(&of_code) <= 600, "the tools for code cost {} tokens", cost(&of_code));
    let first: Vec<Tool> = dialect.tools().iter().filter(|tool| !is_later(tool)).cloned().collect();
    assert_eq!(first.len(), 10);
    assert!(cost(&first) < 2500, "the tools for cells and execs cost {} tokens", cost(&first));
}

#[test]
fn a_run_has_its_defaults() {
    let request = dialect().request("exec_run", arguments(json!({ "command": "ls" }))).unwrap();
    let Request::ExecRun(run) = request else { panic!("{request:?}") };
    assert_eq!(run.cell, CellRef::Default);
    assert_eq!(run.command, Command::Shell("ls".to_owned()));
    assert_eq!((run.cwd.as_str(), run.wait_s, run.timeout_s), ("/workspace", 20.0, Some(600.0)));
    assert_eq!(run.stdin, Stdin::Empty);
}

#[test]
fn a_terminal_keeps_its_input_open() {
    let asked = json!({ "argv": ["sh"], "pty": true, "timeout_s": 0 });
    let request = dialect().request("exec_run", arguments(asked)).unwrap();
    let Request::ExecRun(run) = request else { panic!("{request:?}") };
    assert_eq!((run.stdin, run.timeout_s), (Stdin::Open, None));
    assert!(run.pty.is_some());
}

#[test]
fn a_spawned_cell_is_held_unless_it_is_to_stay() {
    for (persistent, keep) in [(true, Keep::Always), (false, Keep::Server)] {
        let asked = arguments(json!({ "persistent": persistent }));
        let request = dialect().request("cell_spawn", asked).unwrap();
        let Request::CellSpawn(spawn) = request else { panic!("{request:?}") };
        assert_eq!(spawn.keep, keep);
    }
}

#[test]
fn labels_of_a_place_are_told_in_one_text() {
    let asked = arguments(json!({ "on": "gpu=yes, engine=west" }));
    let request = dialect().request("cell_spawn", asked).unwrap();
    let Request::CellSpawn(spawn) = request else { panic!("{request:?}") };
    let on: Vec<_> = spawn.on.iter().map(|(label, it)| (label.as_str(), it.as_str())).collect();
    assert_eq!(on, [("engine", "west"), ("gpu", "yes")]);
}

#[test]
fn wrong_arguments_are_named() {
    for (tool, asked, named) in [
        ("exec_run", json!({ "command": "ls", "colour": 1 }), "colour"),
        ("exec_run", json!({ "command": 5 }), "5"),
        ("exec_run", json!({}), "nothing to run"),
        ("exec_run", json!({ "command": "ls", "argv": ["ls"] }), "both"),
        ("exec_poll", json!({}), "exec_id"),
        ("exec_poll", json!({ "exec_id": "e_1", "stream": "x" }), "e_1"),
        ("cell_spawn", json!({ "limits": { "memory": 1 } }), "memory"),
        ("cell_spawn", json!({ "network": "all" }), "all"),
        ("cell_spawn", json!({ "on": "gpu" }), "gpu"),
        ("cell_kill", json!({ "cell": "a b" }), "a b"),
        ("nothing", json!({}), "nothing"),
    ] {
        let error = dialect().request(tool, arguments(asked)).unwrap_err();
        assert!(error.message.contains(named), "{tool}: {error:?}");
        assert_ne!(error.code, ErrorCode::Internal);
    }
}

#[test]
fn hints_name_tools() {
    let error = hotcell_model::Error::not_found("there is no exec e_1")
        .hint("list execs with `hotcell ps --all`; read with `hotcell logs`");
    let shown = serde_json::to_string(&dialect().failure("exec_poll", &error)).unwrap();
    assert!(shown.contains("exec_list") && shown.contains("exec_poll"), "{shown}");
    assert!(!shown.contains("hotcell ps"), "{shown}");
}

#[test]
fn a_task_ends_with_the_result_of_a_run() {
    let exec: Exec = serde_json::from_value(json!({
        "id": "e_0000000001", "cell": "c_0000000002", "state": "running", "command": { "shell": "ls" },
        "pty": false, "as_root": false, "queued_at": Timestamp(0),
    }))
    .unwrap();
    let result =
        ExecResult { exec, records: Vec::new(), truncated: false, next_seq: 0, code: None };
    let ran = dialect().result("exec_run", Reply::ExecResult(result.clone()));
    let only_cells = HotcellDialect::new(&"cell".parse().unwrap(), FileBounds::default());
    assert_eq!(only_cells.exec_result(result), ran);
    assert_eq!(ran.structured_content.unwrap()["exec_id"], "e_0000000001");
}

//! Tests of the default dialect.

use hotcell_model::{CellRef, Command, ErrorCode, Keep, Request, Stdin};
use rmcp::model::JsonObject;
use serde_json::json;

use crate::dialect::Dialect;
use crate::dialects::hotcell::{FileBounds, HotcellDialect};
use crate::toolsets::Toolsets;

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
            "exec_run",
            "exec_poll",
            "exec_input",
            "exec_cancel",
            "exec_list",
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
    let text = serde_json::to_string(dialect().tools()).unwrap();
    let tokens = tiktoken_rs::o200k_base().unwrap().encode_ordinary(&text).len();
    assert!(tokens < 6000, "the tools cost {tokens} tokens: {text}");
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

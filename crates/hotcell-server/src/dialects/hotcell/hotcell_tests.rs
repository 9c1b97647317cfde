//! Tests of the default dialect.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hotcell_model::{
    Asked, CellRef, Command, Error, ErrorCode, Exec, ExecPage, ExecResult, ExecState, Execs, Keep,
    Record, Reply, Request, Stdin, Stream, Timestamp, WorkspaceMode,
};
use rmcp::model::{CallToolResult, JsonObject, Tool};
use serde_json::{Value, json};

use crate::dialects::hotcell::text::begin_with_a_line;
use crate::dialects::hotcell::views::LeftOut;
use crate::dialects::hotcell::{HotcellDialect, Reach, ToolBounds};
use crate::project_offer::ProjectOffer;
use crate::toolsets::Toolsets;
use hotcell_dialects::{ClientTerms, Dialect, Outcome, Question, ToolCall};

fn dialect() -> HotcellDialect {
    of(&Toolsets::default(), Reach::default())
}

fn of(toolsets: &Toolsets, reach: Reach) -> HotcellDialect {
    HotcellDialect::new(toolsets, ToolBounds::default(), reach)
}

fn question(tool: &str, asked: Value) -> hotcell_model::Result<Question> {
    let call = dialect().call(tool, arguments(asked))?;
    let ToolCall::Asks(question) = call else { panic!("{call:?}") };
    Ok(*question)
}

fn request(tool: &str, asked: Value) -> Request {
    question(tool, asked).unwrap().request
}

fn shown(tool: &str, asked: Value, reply: Reply) -> CallToolResult {
    let show = question(tool, asked).unwrap().show.unwrap();
    show(Outcome { reply: Ok(reply), site: None, starting: Vec::new() }).unwrap()
}

fn text(result: &CallToolResult) -> String {
    result.content.iter().filter_map(|block| block.as_text()).map(|it| it.text.as_str()).collect()
}

fn arguments(value: serde_json::Value) -> JsonObject {
    serde_json::from_value(value).unwrap()
}

/// The tokens of what a client may show its model of tools.
fn cost(tools: &[Tool]) -> usize {
    let shown = |tool: &Tool| {
        let mut tool = tool.clone();
        (tool.annotations, tool.meta) = (None, None);
        tool
    };
    let shown: Vec<Tool> = tools.iter().map(shown).collect();
    let tokenizer = tiktoken_rs::o200k_base().unwrap();
    tokenizer.encode_ordinary(&serde_json::to_string(&shown).unwrap()).len()
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
    let dialect = dialect();
    assert!(cost(dialect.tools()) < 6000, "all tools cost {} tokens", cost(dialect.tools()));
    let is_of_code = |tool: &Tool| ["code_run", "tool_search"].contains(&&*tool.name);
    let is_later = |tool: &Tool| {
        let later = ["cell_checkpoint", "cell_fork"];
        tool.name.starts_with("fs_") || later.contains(&&*tool.name) || is_of_code(tool)
    };
    let of_code: Vec<Tool> = dialect.tools().iter().filter(|it| is_of_code(it)).cloned().collect();
    assert!(cost(&of_code) <= 650, "the tools for code cost {} tokens", cost(&of_code));
    let first: Vec<Tool> = dialect.tools().iter().filter(|tool| !is_later(tool)).cloned().collect();
    assert_eq!(first.len(), 10);
    assert!(cost(&first) < 3000, "the tools for cells and execs cost {} tokens", cost(&first));
}

#[test]
fn a_run_has_its_defaults() {
    let request = request("exec_run", json!({ "command": "ls" }));
    let Request::ExecRun(run) = request else { panic!("{request:?}") };
    assert_eq!(run.cell, CellRef::Default);
    assert_eq!(run.command, Command::Shell("ls".to_owned()));
    assert_eq!((run.cwd.as_str(), run.wait_s, run.timeout_s), ("/workspace", 20.0, Some(600.0)));
    assert_eq!(run.stdin, Stdin::Empty);
}

#[test]
fn a_terminal_keeps_its_input_open() {
    let asked = json!({ "argv": ["sh"], "pty": true, "timeout_s": 0 });
    let request = request("exec_run", asked);
    let Request::ExecRun(run) = request else { panic!("{request:?}") };
    assert_eq!((run.stdin, run.timeout_s), (Stdin::Open, None));
    assert!(run.pty.is_some());
}

#[test]
fn a_spawned_cell_is_held_unless_it_is_to_stay() {
    for (persistent, keep) in [(true, Keep::Always), (false, Keep::Server)] {
        let request = request("cell_spawn", json!({ "persistent": persistent }));
        let Request::CellSpawn(spawn) = request else { panic!("{request:?}") };
        assert_eq!(spawn.keep, keep);
    }
}

#[test]
fn labels_of_a_place_are_told_in_one_text() {
    let request = request("cell_spawn", json!({ "on": "gpu=yes, engine=west" }));
    let Request::CellSpawn(spawn) = request else { panic!("{request:?}") };
    let on: Vec<_> = spawn.on.iter().map(|(label, it)| (label.as_str(), it.as_str())).collect();
    assert_eq!(on, [("engine", "west"), ("gpu", "yes")]);
}

#[test]
fn a_refusal_names_the_argument_its_value_and_an_example() {
    let all = of(&"cell,exec,fs,code,admin".parse().unwrap(), Reach::default());
    for (tool, asked, named) in [
        ("exec_run", json!({ "command": "ls", "colour": 1 }), "colour is not an argument"),
        ("exec_run", json!({ "command": 5 }), "command must be a string, not 5"),
        ("exec_run", json!({}), "nothing to run"),
        ("exec_run", json!({ "command": "ls", "argv": ["ls"] }), "both"),
        (
            "exec_run",
            json!({ "command": "ls", "wait_s": "soon" }),
            "wait_s must be a number, not \"soon\"",
        ),
        ("exec_run", json!({ "argv": ["ls", 1] }), "argv[1] must be a string, not 1"),
        (
            "exec_run",
            json!({ "command": "ls", "env": { "A": 1 } }),
            "env.A must be a string, not 1",
        ),
        ("exec_poll", json!({}), "exec_id is missing"),
        ("exec_poll", json!({ "exec_id": "e_1", "stream": "x" }), "e_1"),
        (
            "cell_checkpoint",
            json!({ "action": "undo" }),
            "one of create, list, diff, restore, delete",
        ),
        ("cell_spawn", json!({ "limits": { "memory": 1 } }), "memory"),
        ("cell_spawn", json!({ "network": "all" }), "all"),
        ("cell_spawn", json!({ "on": "gpu" }), "gpu"),
        ("cell_kill", json!({ "cell": "a b" }), "a b"),
        ("cell_kill", json!({ "cell": "" }), "cell"),
        (
            "fs_batch",
            json!({ "operations": [{ "op": "drop", "path": "a" }] }),
            "operations[0].op must be one of",
        ),
        ("fs_edit", json!({ "path": "a", "edits": [{ "old": "a" }] }), "edits[0].new is missing"),
    ] {
        let error = question(tool, asked.clone()).unwrap_err();
        assert!(error.message.contains(named), "{tool} {asked}: {error:?}");
        assert_eq!(error.code, ErrorCode::Invalid);
        let failure = all.failure(tool, &error);
        assert!(text(&failure).contains("example: {"), "{failure:?}");
    }
    let error = question("nothing", json!({})).unwrap_err();
    assert_eq!(error.code, ErrorCode::NotFound);
    // Those of the engine have one too.
    let refused = Error::argument("wait_s", "between 0 and 3600 seconds", -1);
    assert_eq!(
        text(&all.failure("exec_cancel", &refused)),
        "invalid: wait_s must be between 0 and 3600 seconds, not -1\n\
         hint: example: {\"exec_id\": \"e_0123456789\"}"
    );
    assert!(!text(&all.failure("exec_cancel", &Error::not_found("x"))).contains("example"));
}

#[test]
fn every_example_is_accepted() {
    let all = of(&"cell,exec,fs,code,admin".parse().unwrap(), Reach::default());
    for kind in &all.kinds {
        // An archive is too long for an example.
        if kind.name != "fs_import" {
            let example = serde_json::from_str(kind.example).unwrap();
            let called = all.call(kind.name, example);
            assert!(called.is_ok(), "{}: {called:?}", kind.name);
        }
    }
}

#[test]
fn absent_arguments_may_be_null_or_empty_and_numbers_may_be_text() {
    let plain = request("exec_run", json!({ "command": "ls" }));
    for asked in [
        json!({ "command": "ls", "cell": null, "env": null, "wait_s": null, "pty": null }),
        json!({ "command": "ls", "cell": "", "cwd": "", "stdin": "", "idempotency_key": "" }),
        json!({ "command": "ls", "wait_s": "20", "timeout_s": "600", "priority": "0", "as_root": "false" }),
        json!({ "command": "ls", "argv": null, "wait_s": "", "rows": "" }),
        json!({ "command": "ls", "argv": [], "env": {} }),
    ] {
        assert_eq!(request("exec_run", asked.clone()), plain, "{asked}");
    }
    let listed = request("fs_list", json!({ "path": "a", "limit": "5", "cursor": null }));
    assert_eq!(listed, request("fs_list", json!({ "path": "a", "limit": 5 })));
    // An empty file is content, not an absent argument.
    let empty = json!({ "path": "a", "content": "" });
    assert!(question("fs_write", empty).is_ok());
    let op = json!({ "operations": [{ "op": "write", "path": "a", "content": "", "mode": null }] });
    assert!(question("fs_batch", op).is_ok());
    let op = json!({ "operations": [{ "op": "read", "path": "a", "content": "", "limit": "", "to": "" }] });
    assert!(question("fs_batch", op).is_ok());
    let edit = json!({ "path": "a", "edits": [{ "old": "x", "new": "", "replace_all": "" }] });
    assert!(question("fs_edit", edit).is_ok());
}

#[test]
fn what_stays_in_the_cell_is_not_destructive() {
    let reach = |writes_host_files, outside| Reach { writes_host_files, outside };
    let hints = |reach| {
        let tools = of(&"cell,exec,fs,code,admin".parse().unwrap(), reach).tools.clone();
        let of_kind = |wanted: fn(&rmcp::model::ToolAnnotations) -> bool| {
            let is = |tool: &&Tool| tool.annotations.as_ref().is_some_and(wanted);
            tools.iter().filter(is).map(|tool| tool.name.to_string()).collect::<Vec<_>>()
        };
        let destructive = of_kind(|it| it.destructive_hint == Some(true));
        (destructive, of_kind(|it| it.open_world_hint == Some(true)))
    };
    let removing = ["cell_kill", "garbage_collect"];
    let (destructive, open) = hints(reach(false, false));
    assert_eq!((destructive, open), (removing.map(str::to_owned).to_vec(), Vec::new()));
    let (_, open) = hints(reach(false, true));
    let reaching = ["cell_spawn", "cell_fork", "exec_run", "exec_input", "code_run"];
    assert_eq!(open, reaching);
    let (destructive, _) = hints(reach(true, false));
    for tool in ["exec_run", "code_run", "fs_write", "fs_delete", "fs_batch"] {
        assert!(destructive.iter().any(|name| name == tool), "{tool}: {destructive:?}");
    }
}

#[test]
fn schemas_suit_clients_that_drop_parts_of_them() {
    fn check(path: &str, schema: &Value) {
        let Value::Object(fields) = schema else { return };
        assert!(!fields.contains_key("default") || fields["default"].is_object(), "{path}");
        assert!(!fields.contains_key("enum") || fields["type"] == "string", "{path}: {schema}");
        let words = fields.get("enum").and_then(Value::as_array);
        assert!(words.is_none_or(|words| words.iter().all(Value::is_string)), "{path}: {schema}");
        for (name, inner) in fields {
            check(&format!("{path}/{name}"), inner);
        }
    }
    for tool in dialect().tools() {
        check(&tool.name, &Value::Object((*tool.input_schema).clone()));
    }
    let wait = |terms| {
        let tools = dialect().tools_for(terms);
        let run = tools.iter().find(|tool| tool.name == "exec_run").unwrap().clone();
        run.input_schema["properties"]["wait_s"]["description"].as_str().unwrap().to_owned()
    };
    assert!(wait(ClientTerms::default()).contains("default 20, at most 50"));
    let short = ClientTerms { wait_s: Some(4.0), most_wait_s: Some(4.0) };
    assert!(wait(short).contains("default 4, at most 4"));
}

#[test]
fn hints_name_tools() {
    let error = hotcell_model::Error::not_found("there is no exec e_1")
        .hint("list execs with `hotcell ps --all`; read with `hotcell logs`");
    let shown = serde_json::to_string(&dialect().failure("exec_poll", &error)).unwrap();
    assert!(shown.contains("exec_list") && shown.contains("exec_poll"), "{shown}");
    assert!(!shown.contains("hotcell ps"), "{shown}");
}

fn exec(state: &str) -> Exec {
    serde_json::from_value(json!({
        "id": "e_0000000001", "cell": "c_0000000002", "state": state, "command": { "shell": "ls" },
        "pty": false, "as_root": false, "queued_at": Timestamp(0),
    }))
    .unwrap()
}

fn ended(stdout_bytes: u64, stderr_bytes: u64) -> Exec {
    let mut exec = serde_json::to_value(exec("ended")).unwrap();
    exec["end"] = json!({
        "cause": "exited", "exit_code": 0, "ended_at": Timestamp(1),
        "usage": { "wall_ms": 1, "cpu_ms": 1, "max_rss_kb": 1,
                   "stdout_bytes": stdout_bytes, "stderr_bytes": stderr_bytes },
    });
    serde_json::from_value(exec).unwrap()
}

fn record(seq: u64, stream: Stream, text: &str) -> Record {
    Record { seq, ts: Timestamp(seq), stream, bytes: text.as_bytes().to_vec() }
}

fn result(exec: Exec, records: Vec<Record>, truncated: bool) -> ExecResult {
    let next_seq = records.last().map_or(0, |last| last.seq);
    ExecResult {
        exec,
        records,
        truncated,
        next_seq,
        waiting_for_input: None,
        code: None,
        awaiting: Vec::new(),
    }
}

#[test]
fn a_task_ends_with_the_result_of_a_run() {
    let result = result(exec("running"), Vec::new(), false);
    let ran = shown("exec_run", json!({ "command": "ls" }), Reply::ExecResult(result.clone()));
    let only_cells = of(&"cell".parse().unwrap(), Reach::default());
    assert_eq!(only_cells.exec_result(result), ran);
    assert_eq!(ran.structured_content.unwrap()["exec_id"], "e_0000000001");
}

#[test]
fn a_stream_without_output_is_not_cut() {
    let records = vec![record(1, Stream::Stdout, "a\n"), record(9, Stream::Stdout, "z\n")];
    let reply = Reply::ExecResult(result(ended(1000, 0), records, true));
    let value = shown("exec_run", json!({ "command": "ls" }), reply).structured_content.unwrap();
    assert_eq!(value["stderr"], "");
    assert!(value["stdout"].as_str().unwrap().contains("[cut: read the rest with exec_poll"));
    // All of stderr came, and what is missing is of stdout alone.
    let records = vec![record(1, Stream::Stderr, "warn\n"), record(9, Stream::Stdout, "z\n")];
    let reply = Reply::ExecResult(result(ended(1000, 5), records, true));
    let value = shown("exec_run", json!({ "command": "ls" }), reply).structured_content.unwrap();
    assert_eq!(value["stderr"], "warn\n");
    // The control: some of stderr is missing.
    let records = vec![record(1, Stream::Stderr, "warn\n"), record(9, Stream::Stdout, "z\n")];
    let reply = Reply::ExecResult(result(ended(1000, 500), records, true));
    let value = shown("exec_run", json!({ "command": "ls" }), reply).structured_content.unwrap();
    assert!(value["stderr"].as_str().unwrap().contains("[cut"), "{value}");
}

#[test]
fn a_running_exec_says_how_to_continue_in_both_forms() {
    let records = vec![record(1, Stream::Stdout, "a\n"), record(7, Stream::Stderr, "b\n")];
    let reply = Reply::ExecResult(result(exec("running"), records, false));
    let ran = shown("exec_run", json!({ "command": "ls" }), reply);
    let text = text(&ran);
    assert!(text.starts_with("a\n[stderr]\nb\n[e_0000000001 running"), "{text}");
    assert!(text.contains("next_seq 7") && text.contains("exec_poll"), "{text}");
    let value = ran.structured_content.unwrap();
    assert_eq!((&value["next_seq"], &value["status"]), (&json!(7), &json!("running")));
    assert_eq!(value.get("usage"), None);
}

#[test]
fn last_lines_that_do_not_fit_begin_with_a_whole_line() {
    let mut records =
        vec![record(7, Stream::Stdout, "of a line\nse"), record(8, Stream::Stdout, "cond\n")];
    assert_eq!(begin_with_a_line(&mut records, 18), LeftOut::Nothing, "it is not full");
    assert_eq!(records.len(), 2);
    assert_eq!(begin_with_a_line(&mut records, 17), LeftOut::Beginning);
    let left: Vec<u8> = records.iter().flat_map(|record| record.bytes.clone()).collect();
    assert_eq!(left, b"second\n");
    let mut one_line = vec![record(1, Stream::Stdout, "abc\n")];
    assert_eq!(begin_with_a_line(&mut one_line, 4), LeftOut::Beginning);
    assert_eq!(one_line[0].bytes, b"abc\n", "there is no whole line after it");
}

#[test]
fn adjacent_output_of_one_stream_is_one_message() {
    let page = |details| {
        let records = vec![
            record(1, Stream::Stdout, "a\n"),
            record(2, Stream::Stdout, "b\n"),
            record(3, Stream::Stderr, "c\n"),
            record(4, Stream::Stdout, "d\n"),
        ];
        let (next_seq, complete, dropped, code) = (4, true, None, None);
        let (exec, awaiting) = (ended(6, 2), Vec::new());
        let (waiting_for_input, matched, screen) = (None, None, None);
        let page = ExecPage {
            exec,
            records,
            next_seq,
            complete,
            more: false,
            dropped,
            waiting_for_input,
            matched,
            screen,
            code,
            awaiting,
        };
        let asked = json!({ "exec_id": "e_0000000001", "details": details });
        shown("exec_poll", asked, Reply::ExecPage(page))
    };
    let brief = page(false);
    assert_eq!(text(&brief), "a\nb\n[stderr]\nc\n[stdout]\nd\n[e_0000000001 ended, exit code 0]");
    let messages = brief.structured_content.unwrap()["messages"].clone();
    assert_eq!(
        messages,
        json!([
            { "seq": 2, "stream": "stdout", "data": "a\nb\n" },
            { "seq": 3, "stream": "stderr", "data": "c\n" },
            { "seq": 4, "stream": "stdout", "data": "d\n" },
        ])
    );
    let full = page(true).structured_content.unwrap();
    assert_eq!(full["messages"].as_array().unwrap().len(), 4);
    assert!(full["messages"][0]["ts"].is_string() && full["usage"]["stdout_bytes"] == 6, "{full}");
}

#[test]
fn a_page_says_that_more_is_there_and_that_its_last_line_goes_on() {
    let page = |asked: Value, waiting_for_input: Option<String>| {
        let mut exec = ended(0, 0);
        (exec.end, exec.state) = (None, ExecState::Running);
        let records = vec![record(4, Stream::Stdout, "0123456789é")];
        let page = ExecPage {
            exec,
            records,
            next_seq: 4,
            complete: false,
            more: true,
            dropped: None,
            waiting_for_input,
            matched: None,
            screen: None,
            code: None,
            awaiting: Vec::new(),
        };
        shown("exec_poll", asked, Reply::ExecPage(page))
    };
    let whole = page(json!({ "exec_id": "e_0000000001" }), None);
    assert_eq!(
        text(&whole),
        "0123456789é…\n[e_0000000001 running; more output: exec_poll with after_seq 4]"
    );
    assert_eq!(whole.structured_content.unwrap()["more"], true);
    let asked = json!({ "exec_id": "e_0000000001", "after_seq": 3, "max_bytes": 11 });
    let asking = page(asked, Some("Name? ".to_owned()));
    assert_eq!(
        text(&asking),
        "0123456789é…\n[e_0000000001 running, waiting for input: \"Name? \"; \
         more output: exec_poll with after_seq 4]"
    );
}

#[test]
fn output_of_a_page_is_never_cut_and_binary_output_is_base64() {
    let shown_page = |bytes: Vec<u8>| {
        let record = Record { bytes, ..record(1, Stream::Stdout, "") };
        let page = ExecPage {
            exec: ended(1, 0),
            records: vec![record],
            next_seq: 1,
            complete: true,
            more: false,
            dropped: None,
            waiting_for_input: None,
            matched: None,
            screen: None,
            code: None,
            awaiting: Vec::new(),
        };
        let asked = json!({ "exec_id": "e_0000000001", "max_bytes": 1000 });
        shown("exec_poll", asked, Reply::ExecPage(page))
    };
    // A character that was cut before it makes a record longer than a page.
    let long = shown_page(vec![b'x'; 16 * 1024 + 1]);
    let message = &long.structured_content.as_ref().unwrap()["messages"][0];
    assert_eq!(message["data"].as_str().unwrap().len(), 16 * 1024 + 1);
    assert_eq!(long.structured_content.as_ref().unwrap().get("note"), None);
    for bytes in [vec![0; 16 * 1024], (0..16 * 1024).map(|n| (n * 7 % 256) as u8).collect()] {
        let binary = shown_page(bytes.clone());
        let value = binary.structured_content.clone().unwrap();
        let message = &value["messages"][0];
        assert_eq!(message["encoding"], "base64");
        let decoded = BASE64_STANDARD.decode(message["data"].as_str().unwrap()).unwrap();
        assert!(decoded == bytes);
        assert!(value.to_string().len() < 32 * 1024, "{}", value.to_string().len());
        assert!(text(&binary).starts_with("[stdout as base64]\n"));
    }
}

#[test]
fn both_streams_of_a_run_have_head_and_tail_in_whole_lines() {
    let lines = |from: u32, to: u32| (from..to).map(|n| format!("{n}\n")).collect::<String>();
    let records = vec![
        record(1, Stream::Stdout, &lines(1, 3000)),
        record(2, Stream::Stdout, &lines(3000, 3001)[..2]),
        record(10, Stream::Stdout, &lines(17_000, 20_001)[2..]),
        record(11, Stream::Stderr, &lines(1, 3000)),
        record(20, Stream::Stderr, &lines(17_000, 20_001)[3..]),
    ];
    let reply = Reply::ExecResult(result(ended(108_894, 108_894), records, true));
    let value = shown("exec_run", json!({ "command": "ls" }), reply).structured_content.unwrap();
    for stream in ["stdout", "stderr"] {
        let text = value[stream].as_str().unwrap();
        let (head, tail) = text.split_once("[cut: read the rest with exec_poll").unwrap();
        assert!(head.starts_with("1\n2\n") && head.ends_with('\n') && head.len() > 3000, "{head}");
        let (_, tail) = tail.split_once("]\n").unwrap();
        assert!(tail.ends_with("\n19999\n20000\n") && tail.len() > 3000, "{tail}");
        assert_eq!(tail.lines().next().unwrap().len(), 5, "{tail}");
        assert!(text.len() < 8200, "{}", text.len());
    }
}

#[test]
fn control_characters_count_with_their_size_in_json() {
    let records = vec![record(1, Stream::Stdout, &"\0".repeat(16_000))];
    let reply = Reply::ExecResult(result(ended(16_000, 0), records, false));
    let value = shown("exec_run", json!({ "command": "ls" }), reply).structured_content.unwrap();
    assert!(value.to_string().len() < 10_000, "{}", value.to_string().len());
    assert!(value["stdout"].as_str().unwrap().contains("…\n[cut: "), "{value}");
}

#[test]
fn names_with_control_characters_stay_in_one_line() {
    let mut exec = ended(0, 0);
    exec.command = Command::Shell("echo a\necho \u{1b}[31mb".to_owned());
    let execs = Execs {
        execs: vec![exec],
        next_cursor: None,
        awaiting: Vec::new(),
        tenants: BTreeMap::new(),
    };
    let listed = shown("exec_list", json!({}), Reply::Execs(execs));
    assert!(text(&listed).ends_with("\"echo a\\necho \\u{1b}[31mb\"\n"), "{}", text(&listed));
}

#[test]
fn what_awaits_approval_is_named_with_the_way_to_approve_it() {
    let approval = json!({
        "rule": "r1", "reason": "it deletes", "asked_by": "a", "until": Timestamp(60_000),
    });
    let mut waiting = serde_json::to_value(exec("queued")).unwrap();
    waiting["approval"] = approval.clone();
    let waiting: Exec = serde_json::from_value(waiting).unwrap();
    let reply = Reply::ExecResult(result(waiting, Vec::new(), false));
    let ran = shown("exec_run", json!({ "command": "ls" }), reply);
    let told = text(&ran);
    assert_eq!(ran.structured_content.unwrap()["status"], "awaiting_approval");
    assert!(
        told.contains("it deletes") && told.contains("`hotcell approve e_0000000001`"),
        "{told}"
    );
    let asked: Asked = serde_json::from_value(json!({
        "id": "h_0000000003", "tenant": "main", "tool": "tool_run", "what": "call the tool a.b",
        "asked_at": Timestamp(0), "approval": approval, "exec": "e_0000000001",
    }))
    .unwrap();
    let running =
        ExecResult { awaiting: vec![asked], ..result(exec("running"), Vec::new(), false) };
    let ran = shown("exec_run", json!({ "command": "ls" }), Reply::ExecResult(running));
    let told = text(&ran);
    assert_eq!(ran.structured_content.unwrap()["status"], "awaiting_approval");
    assert!(told.contains("call the tool a.b") && told.contains("hotcell approve h_"), "{told}");
}

#[test]
fn a_project_adds_its_tools_and_is_in_the_instructions() {
    let project = |mode| ProjectOffer::DefaultCell { dir: "/src/app".into(), mode };
    let cow = dialect().with_project(&project(WorkspaceMode::Cow));
    let of_project: Vec<Tool> =
        cow.tools().iter().filter(|it| it.name.starts_with("workspace_")).cloned().collect();
    assert_eq!(of_project.len(), 3);
    let cost = cost(&of_project);
    assert!(cost < 800, "the tools for projects cost {cost} tokens");
    let told = cow.instructions().unwrap();
    assert!(told.contains("copy-on-write view of the user's project /src/app"), "{told}");
    let rw = dialect().with_project(&project(WorkspaceMode::Rw));
    assert_eq!(rw.tools().len(), dialect().tools().len());
    assert!(rw.instructions().unwrap().contains("changes the real files at once"));
    let plain = dialect().with_project(&ProjectOffer::None);
    assert_eq!(plain.instructions(), dialect().instructions());
}

#[test]
fn paths_of_a_project_are_below_its_workspace() {
    let cow = dialect().with_project(&ProjectOffer::Allowed);
    let paths = |given: &str| {
        let call = cow.call("workspace_apply", arguments(json!({ "paths": ["x", given] })));
        call.map(|call| {
            let ToolCall::Asks(question) = call else { panic!("{call:?}") };
            let Request::ProjectApply(apply) = question.request else { panic!() };
            apply.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        })
    };
    for (given, meant) in [("a/b", "a/b"), ("./a", "a"), ("/workspace/a", "a"), ("a/./b/", "a/b")] {
        assert_eq!(paths(given).unwrap(), ["x", meant], "{given}");
    }
    for all in [".", "/workspace", "/workspace/"] {
        assert!(paths(all).unwrap().is_empty(), "{all}");
    }
    for outside in ["/etc", "../x", "a/../..", "/workspace/../etc", "/", "/workspacefoo"] {
        assert!(paths(outside).unwrap_err().message.contains(outside), "{outside}");
    }
}

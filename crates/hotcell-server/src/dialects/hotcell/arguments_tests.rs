//! Tests of refused arguments: the message names the argument, its value and its range, and the
//! example is accepted.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use crate::dialects::hotcell::{HotcellDialect, Reach, ToolBounds};
use crate::project_offer::ProjectOffer;
use hotcell_dialects::{ClientTerms, Dialect};

fn dialect() -> HotcellDialect {
    let toolsets = "cell,exec,fs,code,admin".parse().unwrap();
    HotcellDialect::new(&toolsets, ToolBounds::default(), Reach::default())
        .with_project(&ProjectOffer::Allowed)
}

fn arguments(value: Value) -> JsonObject {
    serde_json::from_value(value).unwrap()
}

/// The example that a refusal with this message shows, after its call was accepted.
fn accepted_example(dialect: &HotcellDialect, tool: &str, refusal: &str) -> JsonObject {
    let example: JsonObject =
        serde_json::from_str(&dialect.example(tool, refusal).unwrap()).unwrap();
    let called = dialect.call(tool, example.clone());
    assert!(called.is_ok(), "{tool} {example:?}: {called:?}");
    example
}

#[test]
fn every_argument_has_an_example_that_is_accepted() {
    let dialect = dialect();
    for (kind, input) in dialect.kinds.iter().zip(&dialect.inputs) {
        accepted_example(&dialect, kind.name, "there is nothing to run");
        for name in input
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(JsonObject::keys)
        {
            for refusal in [format!("{}: {name} must be x", kind.name), format!("{name}: x")] {
                let example = accepted_example(&dialect, kind.name, &refusal);
                assert!(example.contains_key(name), "{} {name}: {example:?}", kind.name);
            }
        }
    }
}

#[test]
fn every_field_of_a_batch_has_an_example_that_is_accepted() {
    let dialect = dialect();
    let tool = dialect.find("fs_batch").unwrap();
    let fields = tool.input_schema["properties"]["operations"]["items"]["properties"].clone();
    for name in fields.as_object().unwrap().keys() {
        let refusal = format!("fs_batch: operations[3].{name} must be x");
        let example = accepted_example(&dialect, "fs_batch", &refusal);
        let operations = example["operations"].as_array().unwrap();
        assert!(operations.iter().any(|it| it.get(name).is_some()), "{name}: {example:?}");
        // The workspace is empty before.
        assert!(["write", "mkdir"].contains(&operations[0]["op"].as_str().unwrap()));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one row for each refusal")]
fn a_refusal_names_the_path_the_value_and_what_is_accepted() {
    let dialect = dialect();
    let one = |operation: Value| json!({ "operations": [operation] });
    for (tool, asked, told) in [
        (
            "fs_batch",
            one(json!({ "op": "read", "path": "a", "limit": -1 })),
            "fs_batch: operations[0].limit must be an integer of at least 0, not -1",
        ),
        (
            "fs_batch",
            one(json!({ "op": "delete", "path": "a", "colour": 1 })),
            "fs_batch: operations[0].colour is not an argument (its value is 1); \
             there are if_match, path, recursive",
        ),
        (
            "fs_batch",
            one(json!({ "op": "fly", "path": "a" })),
            "fs_batch: operations[0].op must be one of \
             read, write, edit, delete, move, copy, mkdir, not \"fly\"",
        ),
        (
            "fs_batch",
            one(json!({ "op": "read", "path": "a", "encoding": "latin1" })),
            "fs_batch: operations[0].encoding must be one of auto, utf8, base64, not \"latin1\"",
        ),
        (
            "fs_batch",
            one(json!({ "op": "move", "path": "a" })),
            "fs_batch: operations[0].to is missing",
        ),
        (
            "fs_batch",
            one(json!({ "op": "write", "path": "a", "content": "", "mode": "9" })),
            "operations[0].mode must be an octal number up to 7777, not \"9\"",
        ),
        (
            "fs_batch",
            one(json!({ "op": "read", "path": "a", "lines": "x" })),
            "operations[0].lines must be 10-20, 10- or 10, not \"x\"",
        ),
        (
            "fs_batch",
            one(json!({ "op": "delete", "path": "a", "if_match": "foo" })),
            "operations[0].if_match: \"foo\" is no etag",
        ),
        (
            "fs_batch",
            one(json!({ "op": "write", "path": "a", "content": "%", "encoding": "base64" })),
            "operations[0].content is not base64",
        ),
        (
            "fs_edit",
            json!({ "path": "a", "edits": [{ "old": "a", "new": "b" }], "if_match": "foo" }),
            "if_match: \"foo\" is no etag",
        ),
        ("exec_poll", json!({ "exec_id": "foo" }), "exec_id: \"foo\" is not an exec id"),
        ("exec_cancel", json!({ "exec_id": "foo" }), "exec_id: \"foo\" is not an exec id"),
        ("cell_spawn", json!({ "alias": "a b" }), "alias: \"a b\" cannot be a cell's name"),
        ("cell_fork", json!({ "checkpoint": "x" }), "checkpoint: \"x\" is not a checkpoint id"),
        ("fs_list", json!({ "cell": "a b" }), "cell: \"a b\" cannot be a cell's name"),
        (
            "exec_run",
            json!({ "command": "ls", "rows": 70000 }),
            "exec_run: rows must be an integer from 1 to 1000, not 70000",
        ),
        (
            "exec_run",
            json!({ "command": "ls", "wait_s": -1 }),
            "exec_run: wait_s must be a number from 0 to 50, not -1",
        ),
        (
            "exec_run",
            json!({ "command": "ls", "timeout_s": -1 }),
            "exec_run: timeout_s must be a number from 0 to 31536000, not -1",
        ),
        (
            "exec_run",
            json!({ "command": "ls", "priority": 5_000_000_000_u64 }),
            "exec_run: priority must be an integer from -2147483648 to 2147483647, not 5000000000",
        ),
        (
            "exec_poll",
            json!({ "exec_id": "e_4k7m2x9qpa", "after_seq": 1e20 }),
            "exec_poll: after_seq must be an integer of at least 0, not 1e+20",
        ),
        (
            "exec_cancel",
            json!({ "exec_id": "e_4k7m2x9qpa", "grace_s": 4000 }),
            "exec_cancel: grace_s must be a number from 0 to 3600, not 4000",
        ),
        (
            "fs_list",
            json!({ "limit": 0 }),
            "fs_list: limit must be an integer from 1 to 1000, not 0",
        ),
        (
            "exec_list",
            json!({ "limit": 0 }),
            "exec_list: limit must be an integer from 1 to 150, not 0",
        ),
        (
            "exec_list",
            json!({ "limit": 0, "details": true }),
            "exec_list: limit must be an integer from 1 to 40, not 0",
        ),
        (
            "fs_search",
            json!({ "pattern": "x", "context_lines": 101 }),
            "fs_search: context_lines must be an integer from 0 to 100, not 101",
        ),
        (
            "cell_spawn",
            json!({ "ttl_s": 0 }),
            "cell_spawn: ttl_s must be an integer from 1 to 31536000, not 0",
        ),
    ] {
        let error = dialect.call(tool, arguments(asked.clone())).unwrap_err();
        assert!(error.message.starts_with(told), "{asked}: {}", error.message);
    }
}

/// Values that a schema refuses, or that are unlikely to be meant.
fn wrong_values(schema: &Value) -> Vec<Value> {
    let list = json!([{ "no": "such" }]);
    let mut wrong = match schema["type"].as_str() {
        Some("string") => vec![json!(5), json!(true), list, json!("\u{0} !"), json!("no-such")],
        Some("integer" | "number") => vec![json!("x"), json!(true), json!(-1), json!(1e30), list],
        Some("boolean") => vec![json!("maybe"), json!(7), list],
        Some("array") => vec![json!(5), json!("x"), json!([5]), json!(["\u{0} !"]), list],
        Some(_) | None => vec![json!(5), json!("x"), list, json!({ "no": 5 })],
    };
    let either = schema["anyOf"].as_array().into_iter().flatten();
    for (name, inner) in
        either.chain([schema]).filter_map(|it| it["properties"].as_object()).flatten()
    {
        wrong.extend(wrong_values(inner).into_iter().map(|value| json!({ name: value })));
    }
    wrong
}

#[test]
fn every_wrong_value_is_refused_with_an_example_of_that_argument() {
    let dialect = dialect();
    let mut refused = 0;
    for (kind, input) in dialect.kinds.iter().zip(&dialect.inputs) {
        let usual: JsonObject = serde_json::from_str(kind.example).unwrap();
        for (name, schema) in
            input.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            for wrong in wrong_values(schema) {
                let mut asked = usual.clone();
                if name == "argv" {
                    asked.remove("command");
                }
                asked.insert(name.clone(), wrong.clone());
                let Err(error) = dialect.call(kind.name, asked) else { continue };
                refused += 1;
                let told = serde_json::to_string(&dialect.failure(kind.name, &error)).unwrap();
                assert!(told.contains("example: "), "{} {name} {wrong}: {told}", kind.name);
                let example = accepted_example(&dialect, kind.name, &error.message);
                let has = example.contains_key(name);
                assert!(has, "{} {name} {wrong}: {error:?} {example:?}", kind.name);
            }
        }
    }
    assert!(refused > 400, "{refused} were refused");
}

#[test]
fn refusals_of_the_engine_show_an_example_of_that_argument() {
    let dialect = dialect();
    for (tool, refusal, argument, value) in [
        ("cell_spawn", "cpus must be between 0.01 and 2 on this machine, not 64", "limits", "cpus"),
        ("cell_spawn", "memory_mb must be between 16 and 900, not 1", "limits", "memory_mb"),
        ("cell_spawn", "\"a b\" is no name of a host: it has a space", "network", "allow"),
        ("cell_spawn", "network.allow must be an array, not 5", "network", "allow"),
        ("cell_spawn", "\"x:\" is no name of an image: no tag", "image", "host"),
        ("cell_spawn", "a cell cannot be granted 70 secrets", "secrets", "TOKEN"),
        ("exec_poll", "until: \"match\" needs a pattern", "until", "match"),
        ("exec_poll", "until: \"match\" needs a pattern", "pattern", "port"),
        ("exec_input", "until: \"match\" needs a pattern", "pattern", "done"),
        ("exec_run", "the command contains a NUL byte", "command", "make"),
        ("exec_run", "rows and cols must be between 1 and 1000, not 0 and 0", "rows", "24"),
    ] {
        let example = accepted_example(&dialect, tool, refusal);
        let shown = example.get(argument).map(Value::to_string).unwrap_or_default();
        assert!(shown.contains(value), "{tool} {refusal}: {example:?}");
    }
}

#[test]
fn a_value_above_what_is_given_is_lowered() {
    let dialect = dialect();
    for (tool, asked) in [
        ("exec_run", json!({ "command": "ls", "wait_s": 3600, "timeout_s": 0 })),
        ("fs_list", json!({ "limit": 5000 })),
        ("exec_list", json!({ "limit": 5000, "details": true })),
    ] {
        assert!(dialect.call(tool, arguments(asked)).is_ok(), "{tool}");
    }
    let short = ClientTerms { wait_s: None, most_wait_s: Some(4.0) };
    let asked = arguments(json!({ "command": "ls", "wait_s": -1 }));
    let error = dialect.call_for(short, "exec_run", asked).unwrap_err();
    assert!(error.message.contains("from 0 to 4, not -1"), "{error:?}");
}

#[test]
fn hints_address_an_agent() {
    let dialect = dialect();
    assert_eq!(
        dialect.hint("copy files with `hotcell cp`"),
        "copy files with fs_export and fs_import"
    );
    assert_eq!(
        dialect.hint("see `hotcell doctor`"),
        "see `hotcell doctor`; ask the user to run `hotcell` commands"
    );
    let addressed = "let the user run `hotcell apply`";
    assert_eq!(dialect.hint(addressed), addressed);
}

//! What is understood of the command line of `hotcell-tool`.

use serde_json::{Value, json};

use crate::tool_call::{Asked, Call, Given, Shape, is_named, understand};

fn understood(line: &[&str]) -> Asked {
    let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
    understand(&words).unwrap()
}

#[track_caller]
fn calls(line: &[&str], with: Given) {
    let call = Call { server: "a".into(), tool: "b".into(), with };
    assert_eq!(understood(line), Asked::Call { call, shape: Shape::Json }, "{line:?}");
}

#[test]
fn names_alone_list() {
    let list = |server: Value| Asked::Look(json!({ "op": "list", "server": server }));
    assert_eq!(understood(&[]), list(Value::Null));
    assert_eq!(understood(&["github"]), list(json!("github")));
    let search = json!({ "op": "search", "query": "an issue --help", "detail": "stub" });
    assert_eq!(understood(&["--search", "an", "issue", "--help"]), Asked::Look(search));
}

#[test]
fn arguments_are_pairs_lists_and_switches() {
    calls(&["a", "b"], Given::Words(Vec::new()));
    let words = [
        ("title", Some("a title")),
        ("n", Some("-3")),
        ("deep", None),
        ("x", Some("--y")),
        ("x", Some("")),
    ];
    let words = words.map(|(name, value)| (name.to_owned(), value.map(str::to_owned)));
    calls(
        &["a", "b", "--title", "a title", "--n", "-3", "--deep", "--x=--y", "--x="],
        Given::Words(words.into()),
    );
    calls(&["a", "b", "--json", "{\"k\": [1]}"], Given::Json("{\"k\": [1]}".into()));
    calls(&["a", "b", "--json", "-"], Given::Input);
    calls(&["a", "b", "--json=x"], Given::Words(vec![("json".into(), Some("x".into()))]));
}

#[test]
fn a_result_is_raw_where_that_is_said_first() {
    let call = || Call { server: "a".into(), tool: "b".into(), with: Given::Words(Vec::new()) };
    let raw = Asked::Call { call: call(), shape: Shape::Raw };
    assert_eq!(understood(&["--raw", "a", "b"]), raw);
    calls(&["a", "b", "--raw"], Given::Words(vec![("raw".into(), None)]));
}

#[test]
fn help_is_asked_for_anywhere() {
    let stub = |file: &str| Asked::Stub { server: "a".into(), file: file.into() };
    assert_eq!(understood(&["--help"]), Asked::Usage);
    assert_eq!(understood(&["a", "-h"]), stub("__init__.pyi"));
    assert_eq!(understood(&["a", "b", "--x", "1", "--help"]), stub("b.pyi"));
}

#[test]
fn what_is_wrong_is_said() {
    for line in [
        &["a", "b", "c"][..],
        &["a", "b", "--x", "1", "2"],
        &["a", "b", "-x", "1"],
        &["a", "b", "--", "1"],
        &["a", "b", "--=x"],
        &["a", "b", "--json", "{}", "--x", "1"],
        &["a", "b", "--json"],
        &["--x", "1"],
        &["--search"],
        &["a", "--x", "1"],
    ] {
        let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        assert!(understand(&words).is_err(), "{line:?}");
    }
}

#[test]
fn it_is_this_program_by_another_name() {
    assert!(is_named("hotcell-tool".as_ref()) && is_named("/any/where/hotcell-tool".as_ref()));
    assert!(!is_named("hotcell".as_ref()) && !is_named("/hotcell-tool/hotcell".as_ref()));
}

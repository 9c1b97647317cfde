//! Words of a command line become what a schema says.

use serde_json::{Value, json};

use crate::testing::{only, takes};

fn schema() -> Value {
    json!({ "type": "object",
        "properties": {
            "title": { "type": "string" },
            "count": { "type": "integer", "maximum": 100 },
            "deep": { "type": "boolean" },
            "labels": { "type": "array", "items": { "type": "string" } },
            "sizes": { "type": "array", "items": { "type": "number" } },
            "repoName": { "type": "string" },
            "either": { "anyOf": [{ "type": "string" }, { "type": "integer" }] },
            "kind": { "enum": ["1", "two"] },
            "named": { "$ref": "#/$defs/level" },
            "options": { "type": "object" },
            "open": {},
        },
        "$defs": { "level": { "enum": ["1", "2"] } },
    })
}

#[track_caller]
fn check(words: &[(&str, Option<&str>)], expected: &Value) {
    let words = words.iter().map(|(name, text)| ((*name).into(), text.map(str::to_owned)));
    let made = only(&takes(schema())).of_words(words.collect());
    assert_eq!(Value::Object(made), *expected);
}

#[test]
fn a_text_stays_a_text_where_one_is_wanted() {
    check(&[("title", Some("12")), ("count", Some("12"))], &json!({ "title": "12", "count": 12 }));
    check(&[("either", Some("7"))], &json!({ "either": "7" }));
    check(&[("kind", Some("1")), ("named", Some("2"))], &json!({ "kind": "1", "named": "2" }));
    check(&[("open", Some("7"))], &json!({ "open": "7" }));
    check(&[("options", Some("{\"a\": [1]}"))], &json!({ "options": { "a": [1] } }));
}

#[test]
fn what_nothing_takes_is_what_it_looks_like() {
    check(&[("count", Some("x"))], &json!({ "count": "x" }));
    check(&[("count", Some("500"))], &json!({ "count": 500 }));
    check(&[("count", Some("1")), ("count", Some("2"))], &json!({ "count": [1, 2] }));
}

#[test]
fn a_word_alone_is_true_and_several_are_a_list() {
    check(&[("deep", None)], &json!({ "deep": true }));
    check(&[("deep", Some("false"))], &json!({ "deep": false }));
    check(&[("labels", Some("1")), ("labels", Some("b"))], &json!({ "labels": ["1", "b"] }));
    check(&[("labels", Some("one"))], &json!({ "labels": ["one"] }));
    check(&[("labels", Some("[\"one\", \"two\"]"))], &json!({ "labels": ["one", "two"] }));
    check(&[("sizes", Some("[1, 2.5]"))], &json!({ "sizes": [1, 2.5] }));
    check(&[("sizes", Some("3"))], &json!({ "sizes": [3] }));
    check(&[("sizes", Some("3")), ("sizes", Some("4"))], &json!({ "sizes": [3, 4] }));
}

#[test]
fn names_are_found_however_they_are_written() {
    check(&[("repo-name", Some("a"))], &json!({ "repoName": "a" }));
    check(&[("repo_name", Some("a"))], &json!({ "repoName": "a" }));
    check(&[("nothing-like-it", Some("1"))], &json!({ "nothing-like-it": "1" }));
}

//! Tests of the arguments of passed-through tools.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::passed_arguments::{prepare, with_example};

fn schema() -> JsonObject {
    object(json!({
        "type": "object",
        "required": ["title", "parent"],
        "properties": {
            "title": { "type": "string" },
            "parent": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
            "count": { "type": ["integer", "null"], "minimum": 1 },
            "ratio": { "type": "number" },
            "draft": { "type": "boolean", "default": false },
            "state": { "type": "string", "enum": ["open", "closed"] },
            "body": { "type": "string" },
            "tags": { "type": "array", "items": { "type": "string" } },
        },
    }))
}

fn object(value: Value) -> JsonObject {
    serde_json::from_value(value).unwrap()
}

fn prepared(arguments: Value) -> hotcell_model::Result<Value> {
    prepare("hub__issue", &schema(), object(arguments)).map(Value::Object)
}

#[test]
fn arguments_are_read_as_they_are_meant() {
    for (given, meant) in [
        (json!({ "count": "5" }), json!({ "count": 5 })),
        (json!({ "ratio": "0.5" }), json!({ "ratio": 0.5 })),
        (json!({ "draft": "true" }), json!({ "draft": true })),
        (json!({ "tags": "[\"a\"]" }), json!({ "tags": ["a"] })),
        (json!({ "count": null, "ratio": "", "state": "", "draft": null }), json!({})),
        // A text without restrictions may be empty.
        (json!({ "body": "", "other": 1 }), json!({ "body": "", "other": 1 })),
    ] {
        let with_required = |mut value: Value| {
            (value["title"], value["parent"]) = (json!("a"), Value::Null);
            value
        };
        assert_eq!(
            prepared(with_required(given.clone())).unwrap(),
            with_required(meant),
            "{given}"
        );
    }
}

#[test]
fn a_refusal_names_the_argument_and_shows_json_that_is_accepted() {
    for (given, told) in [
        (json!({ "title": 5, "parent": "a" }), "hub__issue: title must be a string, not 5"),
        (json!({ "title": "a" }), "hub__issue: parent is missing"),
        (
            json!({ "title": "a", "parent": "a", "count": 0 }),
            "hub__issue: count must be an integer of at least 1, not 0",
        ),
        (
            json!({ "title": "a", "parent": "a", "state": "new" }),
            "hub__issue: state must be one of open, closed, not \"new\"",
        ),
    ] {
        let error = prepared(given.clone()).unwrap_err();
        assert_eq!(error.message, told, "{given}");
        let hint = error.hint.unwrap();
        let example = hint.strip_prefix("example: ").unwrap();
        let example: Value = serde_json::from_str(example).unwrap();
        assert!(prepared(example.clone()).is_ok(), "{example}");
        let refused = given.as_object().unwrap().keys().next_back().unwrap();
        assert!(told.contains("missing") || example.get(refused).is_some() || refused == "title");
    }
    let error = hotcell_model::Error::invalid("x").hint("def issue(title: str) -> None");
    let error = with_example("hub__issue", &schema(), error);
    assert_eq!(error.hint.unwrap(), "example: {\"parent\":\"text\",\"title\":\"text\"}");
}

#[test]
fn definitions_that_are_referred_to_are_read_too() {
    let schema = object(json!({
        "type": "object",
        "required": ["page"],
        "properties": {
            "page": { "$ref": "#/$defs/Page" },
            "state": { "anyOf": [{ "$ref": "#/$defs/State" }, { "type": "null" }], "default": null },
            "pages": { "type": "array", "items": { "$ref": "#/$defs/Page" } },
            "old": { "allOf": [{ "$ref": "#/definitions/a~1b" }], "description": "x" },
            "lost": { "$ref": "#/$defs/Nowhere" },
        },
        "$defs": {
            "Page": {
                "type": "object",
                "required": ["number"],
                "properties": {
                    "number": { "type": "integer", "minimum": 1 },
                    "note": { "type": "string", "enum": ["a"] },
                    "next": { "$ref": "#/$defs/Page" },
                },
            },
            "State": { "type": "string", "enum": ["open", "closed"] },
        },
        "definitions": { "a/b": { "type": "boolean" } },
    }));
    let prepared = |given: Value| prepare("hub__list", &schema, object(given)).map(Value::Object);
    let given = json!({
        "page": { "number": "3", "note": null, "next": { "number": "4" } },
        "state": null,
        "pages": [{ "number": "5" }],
        "old": "true",
        "lost": { "any": "7" },
    });
    let meant = json!({
        "page": { "number": 3, "next": { "number": 4 } },
        "pages": [{ "number": 5 }],
        "old": true,
        "lost": { "any": "7" },
    });
    assert_eq!(prepared(given).unwrap(), meant);
    let error = prepared(json!({ "page": { "number": 0 } })).unwrap_err();
    assert_eq!(error.message, "hub__list: page.number must be an integer of at least 1, not 0");
    let hint = error.hint.unwrap();
    let example: Value = serde_json::from_str(hint.strip_prefix("example: ").unwrap()).unwrap();
    assert_eq!(example, json!({ "page": { "number": 1 } }));
    let error = prepared(json!({ "page": { "number": 1 }, "state": "new" })).unwrap_err();
    assert_eq!(error.message, "hub__list: state must be one of open, closed, not \"new\"");
}

#[test]
fn definitions_without_end_are_read_within_bounds() {
    let many: Vec<String> = (0..20).map(|n| format!("f{n}")).collect();
    let fields: serde_json::Map<String, Value> =
        many.iter().map(|name| (name.clone(), json!({ "$ref": "#" }))).collect();
    let mut properties = fields.clone();
    properties.insert("n".to_owned(), json!({ "type": "integer" }));
    let schema = object(json!({ "type": "object", "properties": properties }));
    let given = json!({ "n": "1", "f0": { "n": "2" } });
    let read = prepare("hub__tree", &schema, object(given)).map(Value::Object).unwrap();
    assert_eq!(read["n"], 1);
}

//! Which arguments are refused, and what is said of them.

use hotcell_model::{Error, ErrorCode};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::testing::{only, takes};

fn given(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// What is said of arguments; nothing if they are right.
fn said(schema: Value, arguments: Value) -> Vec<String> {
    match only(&takes(schema)).arguments(given(arguments)) {
        Ok(_) => Vec::new(),
        Err(error) => error.faults.iter().map(ToString::to_string).collect(),
    }
}

fn of(schema: Value, value: Value) -> Vec<String> {
    said(json!({ "type": "object", "properties": { "a": schema } }), json!({ "a": value }))
}

/// A schema, a value that is right, one that is not, and what is said of it.
type Row = (Value, Value, Value, &'static str);

fn hold<const N: usize>(rows: [Row; N]) {
    for (schema, right, wrong, expected) in rows {
        let of = |value: Value| {
            let needed =
                json!({ "type": "object", "properties": { "a": schema }, "required": ["a"] });
            said(needed, json!({ "a": value }))
        };
        assert_eq!(of(right), Vec::<String>::new(), "{schema}");
        assert_eq!(of(wrong), [expected], "{schema}");
    }
}

#[test]
fn plain_values_are_held_against_every_keyword() {
    hold([
        (json!({ "type": "string" }), json!("x"), json!(5), "a: expected str, got 5"),
        (json!({ "type": "integer" }), json!(3.0), json!(3.5), "a: expected int, got 3.5"),
        (json!({ "type": "integer" }), json!(1), json!(true), "a: expected int, got True"),
        (
            json!({ "type": ["string", "null"] }),
            json!(null),
            json!([]),
            "a: expected str | None, got []",
        ),
        (
            json!({ "enum": ["x", "y"] }),
            json!("y"),
            json!("z"),
            "a: expected one of \"x\", \"y\", got \"z\"",
        ),
        (json!({ "const": 1 }), json!(1.0), json!(2), "a: expected 1, got 2"),
        (json!({ "minimum": 1 }), json!(1), json!(0), "a: expected 1 or more, got 0"),
        (json!({ "exclusiveMaximum": 1 }), json!(0), json!(1), "a: expected less than 1, got 1"),
        (
            json!({ "multipleOf": 0.1 }),
            json!(0.3),
            json!(0.35),
            "a: expected a multiple of 0.1, got 0.35",
        ),
        (
            json!({ "maxLength": 2 }),
            json!("äö"),
            json!("abc"),
            "a: expected 2 characters or fewer, got \"abc\"",
        ),
        (
            json!({ "pattern": "^a+$" }),
            json!("aa"),
            json!("b"),
            "a: expected what matches ^a+$, got \"b\"",
        ),
    ]);
}

#[test]
fn lists_objects_and_combinations_are_held_against_every_keyword() {
    hold([
        (
            json!({ "minItems": 1 }),
            json!([1]),
            json!([]),
            "a: expected 1 items or more, got 0 items",
        ),
        (
            json!({ "uniqueItems": true }),
            json!([1, 2]),
            json!([1, 1]),
            "a: expected items that differ, got 1 different ones",
        ),
        (
            json!({ "items": { "type": "string" } }),
            json!(["x"]),
            json!(["x", 2]),
            "a[1]: expected str, got 2",
        ),
        (
            json!({ "prefixItems": [{ "type": "string" }, { "type": "integer" }] }),
            json!(["x", 2]),
            json!(["x", "y"]),
            "a[1]: expected int, got \"y\"",
        ),
        (
            json!({ "required": ["b"], "properties": { "b": { "type": "string" } } }),
            json!({ "b": "x" }),
            json!({}),
            "a.b: expected str, got nothing: it is required",
        ),
        (
            json!({ "additionalProperties": false }),
            json!({}),
            json!({ "b": 1 }),
            "a.b: expected no such key, got 1",
        ),
        (
            json!({ "additionalProperties": { "type": "integer" } }),
            json!({ "b": 1 }),
            json!({ "b c": "x" }),
            "a.\"b c\": expected int, got \"x\"",
        ),
        (
            json!({ "patternProperties": { "^x": { "type": "integer" } } }),
            json!({ "y": "s" }),
            json!({ "x1": "s" }),
            "a.x1: expected int, got \"s\"",
        ),
        (
            json!({ "dependentRequired": { "b": ["c"] } }),
            json!({ "c": 1 }),
            json!({ "b": 1 }),
            "a.c: expected a value, got nothing: it is required",
        ),
        (
            json!({ "allOf": [{ "minimum": 1 }, { "maximum": 3 }] }),
            json!(2),
            json!(4),
            "a: expected 3 or less, got 4",
        ),
        (
            json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }),
            json!(1),
            json!(null),
            "a: expected str | int, got None",
        ),
        (
            json!({ "not": { "type": "string" } }),
            json!(1),
            json!("x"),
            "a: expected anything but str, got \"x\"",
        ),
        (
            json!({ "if": { "type": "string" }, "then": { "minLength": 2 } }),
            json!(1),
            json!("x"),
            "a: expected 2 characters or more, got \"x\"",
        ),
    ]);
}

#[test]
fn the_alternative_that_comes_nearest_is_told() {
    let schema = json!({ "anyOf": [
        { "type": "object", "properties": { "kind": { "const": "circle" }, "radius": { "type": "number" } }, "required": ["kind", "radius"] },
        { "type": "string" },
    ] });
    assert_eq!(
        of(schema, json!({ "kind": "circle", "radius": "big" })),
        ["a.radius: expected float, got \"big\""]
    );
}

#[test]
fn references_are_followed_and_end() {
    let schema = json!({
        "type": "object",
        "properties": { "tree": { "$ref": "#/$defs/node" }, "loop": { "$ref": "#/$defs/loop" } },
        "$defs": {
            "node": { "type": "object", "properties": { "value": { "type": "integer" }, "next": { "$ref": "#/$defs/node" } } },
            "loop": { "$ref": "#/$defs/loop" },
        },
    });
    let deep = json!({ "tree": { "value": 1, "next": { "next": { "value": "x" } } } });
    assert_eq!(said(schema.clone(), deep), ["tree.next.next.value: expected int, got \"x\""]);
    assert_eq!(said(schema, json!({ "loop": 1 })), Vec::<String>::new());
}

#[test]
fn unknown_arguments_are_refused_by_name() {
    let schema = json!({ "type": "object", "properties": { "title": {}, "body": {} } });
    assert_eq!(
        said(schema.clone(), json!({ "titles": "x" })),
        ["\"titles\": expected no such argument (did you mean title?), got \"x\""]
    );
    assert_eq!(
        said(schema.clone(), json!({ "colour": 1 })),
        ["\"colour\": expected no such argument (there are body, title), got 1"]
    );
    let mut open = schema;
    open["additionalProperties"] = json!(true);
    assert_eq!(said(open, json!({ "titles": "x" })), Vec::<String>::new());
    assert_eq!(said(json!({ "type": "object" }), json!({ "whatever": 1 })), Vec::<String>::new());
}

#[test]
fn names_in_code_become_names_on_the_wire() {
    let schema = json!({ "type": "object", "properties": {
        "per-page": { "type": "integer" }, "from": { "type": "string" }, "note": { "type": "string" } } });
    let catalog = takes(schema);
    let tool = only(&catalog);
    let sent = tool.arguments(given(json!({ "per_page": 3, "from_": "x", "note": null }))).unwrap();
    assert_eq!(sent, json!({ "per-page": 3, "from": "x" }));
    let sent = tool.arguments(given(json!({ "per-page": 3 }))).unwrap();
    assert_eq!(sent, json!({ "per-page": 3 }));
    let error = tool.arguments(given(json!({ "per-page": 3, "per_page": 4 }))).unwrap_err();
    assert!(error.to_string().contains("only one of the two names"), "{error}");
}

#[test]
fn the_error_shows_the_stub() {
    let catalog = takes(
        json!({ "type": "object", "properties": { "title": { "type": "string" } }, "required": ["title"] }),
    );
    let error = only(&catalog).arguments(Map::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "arguments of box.do_it: title: expected str, got nothing: it is required"
    );
    let error = Error::from(error);
    assert_eq!(error.code, ErrorCode::Invalid);
    assert_eq!(error.hint.as_deref(), Some("def do_it(title: str) -> Any: ..."));
}

#[test]
fn schemas_that_take_for_ever_are_left_to_the_server() {
    let mut defs = Map::new();
    for at in 0..60 {
        let next = format!("#/$defs/d{}", at + 1);
        let part = json!({ "$ref": next });
        defs.insert(format!("d{at}"), json!({ "anyOf": [part, part], "not": part }));
    }
    let schema =
        json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/d0" } }, "$defs": defs });
    let _ = said(schema, json!({ "a": "x" }));
    let nested = (0..120).fold(json!("x"), |inner, _| json!([inner]));
    let schema = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/l" } },
        "$defs": { "l": { "type": ["array", "string"], "items": { "$ref": "#/$defs/l" } } } });
    assert_eq!(said(schema, json!({ "a": nested })), Vec::<String>::new());
}

/// Values and the type of each, told by a schema that was made from it.
fn value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 30, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..5).prop_map(|keys| json!(keys)),
        ]
    })
    .boxed()
}

proptest! {
    #[test]
    fn a_value_is_what_its_own_schema_says(value in value()) {
        fn schema(value: &Value) -> Value {
            match value {
                Value::Object(keys) => {
                    let required: Vec<&String> = keys.keys().collect();
                    let keys: Map<String, Value> = keys.iter().map(|(key, value)| (key.clone(), schema(value))).collect();
                    json!({ "type": "object", "properties": keys, "required": required, "additionalProperties": false })
                }
                Value::Array(items) => json!({ "prefixItems": items.iter().map(schema).collect::<Vec<_>>(), "items": false }),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                    json!({ "const": value })
                }
            }
        }
        prop_assert_eq!(of(schema(&value), value.clone()), Vec::<String>::new());
        let other = json!(["never", [value.clone()]]);
        prop_assert!(!of(schema(&value), other).is_empty());
    }
}

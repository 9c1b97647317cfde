//! The checker of arguments beside the Python implementation of JSON Schema.

#![expect(clippy::disallowed_methods, reason = "the implementation is what is compared with")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use hotcell_toolbox::{Catalog, ServerListing};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::languages::skip;

const PAIRS: usize = 2_000;

/// Reads pairs of schema and value, and tells for each whether the value is right.
const JUDGE: &str = r#"
import json, sys
from jsonschema import Draft202012Validator
pairs = json.load(open(sys.argv[1]))
print(json.dumps([Draft202012Validator(schema).is_valid(value) for schema, value in pairs]))
"#;

fn value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        (0..5_i64).prop_map(Value::from),
        prop::sample::select(vec![0.5, 1.0, 2.5]).prop_map(Value::from),
        prop::sample::select(vec!["", "a", "ab", "bb", "ää"]).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let keys = prop::collection::btree_map("[a-c]", inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            keys.prop_map(|keys| json!(keys)),
        ]
    })
    .boxed()
}

fn schema() -> BoxedStrategy<Value> {
    let kind = || {
        let kinds = ["string", "integer", "number", "boolean", "null", "array", "object"];
        prop::sample::select(kinds.to_vec())
    };
    let pattern = prop::sample::select(vec!["^a", "b$", "^(a|b)+$", "."]);
    let target = prop::sample::select(vec!["#/$defs/a", "#/$defs/b"]);
    let bound = |low: &'static str, high: &'static str| {
        (0..4_u32, 0..4_u32).prop_map(move |(one, other)| json!({ low: one, high: other }))
    };
    let leaf = prop_oneof![
        kind().prop_map(|kind| json!({ "type": kind })),
        prop::collection::vec(kind(), 1..3).prop_map(|kinds| json!({ "type": kinds })),
        prop::collection::vec(value(), 1..3).prop_map(|values| json!({ "enum": values })),
        value().prop_map(|value| json!({ "const": value })),
        bound("minimum", "exclusiveMaximum"),
        bound("exclusiveMinimum", "maximum"),
        bound("minLength", "maxLength"),
        bound("minItems", "maxItems"),
        bound("minProperties", "maxProperties"),
        prop::sample::select(vec![0.5, 2.0]).prop_map(|step| json!({ "multipleOf": step })),
        pattern.clone().prop_map(|pattern| json!({ "pattern": pattern })),
        target.prop_map(|target| json!({ "$ref": target })),
        any::<bool>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, move |inner| {
        let list = || prop::collection::vec(inner.clone(), 1..4);
        let keys = prop::collection::btree_map("[a-c]", inner.clone(), 0..4);
        let names = prop::collection::btree_set("[a-c]", 0..3);
        prop_oneof![
            (keys, names.clone(), inner.clone()).prop_map(|(keys, required, more)| {
                json!({ "properties": keys, "required": required, "additionalProperties": more })
            }),
            (pattern.clone(), inner.clone())
                .prop_map(|(pattern, schema)| json!({ "patternProperties": { pattern: schema } })),
            names.prop_map(|names| json!({ "dependentRequired": { "a": names } })),
            inner.clone().prop_map(|item| json!({ "items": item })),
            (list(), inner.clone())
                .prop_map(|(first, rest)| json!({ "prefixItems": first, "items": rest })),
            list().prop_map(|parts| json!({ "anyOf": parts })),
            list().prop_map(|parts| json!({ "allOf": parts })),
            inner.clone().prop_map(|part| json!({ "not": part })),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(one, two, three)| json!({ "if": one, "then": two, "else": three })),
        ]
    })
    .boxed()
}

/// Schemas of one argument, and values for it; always the same.
fn pairs() -> Vec<(Value, Value)> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[11; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = (schema(), schema(), schema(), value());
    (0..PAIRS)
        .map(|_| {
            let (schema, a, b, value) = strategy.new_tree(&mut runner).unwrap().current();
            // A definition that is only a reference to itself means nothing to either.
            let plain = |schema: Value| {
                if schema.to_string().contains("$ref") {
                    json!({ "type": "string" })
                } else {
                    schema
                }
            };
            let whole = json!({
                "type": "object", "properties": { "v": schema }, "required": ["v"],
                "$defs": { "a": plain(a), "b": plain(b) },
            });
            (whole, json!({ "v": value }))
        })
        .collect()
}

#[test]
fn arguments_are_judged_as_by_the_python_implementation() {
    let tools = std::env::var_os("HOTCELL_TEST_TOOLS").map(PathBuf::from);
    let python = tools.map(|tools| tools.join("validators/bin/python"));
    let Some(python) = python.filter(|python| python.exists()) else {
        skip("HOTCELL_TEST_TOOLS has no Python with jsonschema (see CONTRIBUTING.md)");
        return;
    };
    let pairs = pairs();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pairs.json");
    fs::write(&file, serde_json::to_string(&pairs).unwrap()).unwrap();
    let output = Command::new(python).args(["-I", "-c", JUDGE]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected: Vec<bool> = serde_json::from_slice(&output.stdout).unwrap();
    let right = expected.iter().filter(|right| **right).count();
    assert!(right > PAIRS / 10 && right < PAIRS * 9 / 10, "{right} of {PAIRS} are right");
    for ((schema, value), expected) in pairs.iter().zip(expected) {
        let listed = json!({ "name": "it", "inputSchema": schema });
        let catalog = Catalog::new([ServerListing::read("box", &[listed])]);
        let judged =
            catalog.find("box", "it").unwrap().arguments(value.as_object().unwrap().clone());
        assert_eq!(judged.is_ok(), expected, "{value} by {schema}: {judged:?}");
    }
}

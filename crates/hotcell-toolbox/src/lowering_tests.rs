//! What schemas become in both languages.

use serde_json::{Value, json};

use crate::testing::{only, takes};
use crate::text::Language;

/// The type of the argument `a` in a stub of one line, and the full stub, in Python.
fn python(schema: &Value) -> (String, String) {
    let catalog =
        takes(json!({ "type": "object", "properties": { "a": schema }, "required": ["a"] }));
    let line = only(&catalog).line(Language::Python, None);
    let kind = line.split_once("a: ").unwrap().1.rsplit_once(") ->").unwrap().0.to_owned();
    (kind, only(&catalog).stub(Language::Python, None, None))
}

fn typescript(schema: &Value) -> String {
    let catalog =
        takes(json!({ "type": "object", "properties": { "a": schema }, "required": ["a"] }));
    let line = only(&catalog).line(Language::TypeScript, None);
    line.split_once("a: ").unwrap().1.split_once(" }):").unwrap().0.to_owned()
}

#[test]
fn types_are_those_of_the_schema() {
    for (schema, in_python, in_typescript) in [
        (json!({ "type": "string" }), "str", "string"),
        (json!({ "type": ["string", "null"] }), "str | None", "string | null"),
        (json!({ "type": "integer", "nullable": true }), "int | None", "number | null"),
        (
            json!({ "enum": ["x", 2, true, null] }),
            "Literal[\"x\", 2, True] | None",
            "\"x\" | 2 | true | null",
        ),
        (json!({ "const": "only" }), "Literal[\"only\"]", "\"only\""),
        (json!({ "enum": [1.5, 2.5] }), "float", "number"),
        (json!({ "type": "array", "items": { "type": "number" } }), "list[float]", "number[]"),
        (
            json!({ "type": "array", "items": { "enum": ["a", "b"] } }),
            "list[Literal[\"a\", \"b\"]]",
            "(\"a\" | \"b\")[]",
        ),
        (
            json!({ "prefixItems": [{ "type": "number" }, { "type": "number" }] }),
            "tuple[float, float]",
            "[number, number]",
        ),
        (
            json!({ "prefixItems": [{ "type": "string" }], "items": { "type": "integer" } }),
            "list[str | int]",
            "[string, ...(number)[]]",
        ),
        (
            json!({ "type": "object", "additionalProperties": { "type": "string" } }),
            "dict[str, str]",
            "{ [key: string]: string }",
        ),
        (json!({ "type": "object" }), "dict", "object"),
        (
            json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] }),
            "str | list[str]",
            "string | string[]",
        ),
        (
            json!({ "oneOf": [{ "type": "string" }, { "type": "null" }] }),
            "str | None",
            "string | null",
        ),
        (
            json!({ "allOf": [{ "type": ["string", "integer"] }, { "type": "integer" }] }),
            "int",
            "number",
        ),
        (json!({ "type": "object", "properties": { "x": {} } }), "dict", "object"),
        (json!({}), "Any", "unknown"),
        (json!({ "minLength": 3 }), "str", "string"),
        (json!(false), "Never", "never"),
    ] {
        assert_eq!(python(&schema).0, in_python, "{schema}");
        assert_eq!(typescript(&schema), in_typescript, "{schema}");
    }
}

#[test]
fn objects_become_classes_with_what_is_said_of_their_keys() {
    let (_, stub) = python(&json!({
        "type": "object",
        "description": "Where it goes.",
        "properties": {
            "zip": { "type": "string", "pattern": "^[0-9]+$" },
            "city": { "type": "string", "description": "Name of the city" },
            "floor": { "type": "integer", "minimum": 0, "maximum": 99, "default": 0 },
            "back-door": { "type": "boolean" },
        },
        "required": ["zip", "city"],
    }));
    let expected = "\
# Where it goes.
DoItA = TypedDict(\"DoItA\", {
    \"zip\": str,  # matches ^[0-9]+$
    \"city\": str,  # Name of the city
    \"back-door\": NotRequired[bool],
    \"floor\": NotRequired[int],  # 0 to 99; default 0
})
";
    assert!(stub.contains(expected), "{stub}");
    assert!(stub.contains("Example: do_it(a={\"city\": \"...\", \"zip\": \"...\"})"), "{stub}");
}

#[test]
fn alternatives_and_parts_are_resolved() {
    let (_, stub) = python(&json!({
        "type": "object",
        "properties": { "id": { "type": "string" } },
        "required": ["id"],
        "oneOf": [
            { "title": "Card", "properties": { "number": { "type": "string" } }, "required": ["number"] },
            { "title": "Bank", "properties": { "iban": { "type": "string" } }, "required": ["iban"] },
        ],
    }));
    assert!(stub.contains("class Card(TypedDict):\n    number: str\n    id: str\n"), "{stub}");
    assert!(stub.contains("class Bank(TypedDict):\n    iban: str\n    id: str\n"), "{stub}");
    assert!(stub.contains("a: Card | Bank"), "{stub}");
    let (_, stub) = python(&json!({ "allOf": [
        { "properties": { "x": { "type": "integer" } }, "required": ["x"] },
        { "properties": { "y": { "type": "integer" } } },
    ] }));
    assert!(stub.contains("    x: int\n    y: NotRequired[int]\n"), "{stub}");
}

#[test]
fn references_keep_their_names_and_may_be_recursive() {
    let catalog = takes(json!({
        "type": "object",
        "properties": { "root": { "$ref": "#/$defs/Node" }, "any": { "$ref": "#/$defs/json" } },
        "$defs": {
            "Node": { "type": "object", "properties": {
                "children": { "type": "array", "items": { "$ref": "#/$defs/Node" } } } },
            "json": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "$ref": "#/$defs/json" } }] },
        },
    }));
    let stub = only(&catalog).stub(Language::Python, None, None);
    assert!(
        stub.contains("class Node(TypedDict):\n    children: NotRequired[list[Node]]"),
        "{stub}"
    );
    assert!(stub.contains("Json: TypeAlias = \"str | list[Json]\""), "{stub}");
    let stub = only(&catalog).stub(Language::TypeScript, None, None);
    assert!(stub.contains("export type Json = string | Json[];"), "{stub}");
}

#[test]
fn the_arguments_of_alternatives_are_laid_over_each_other() {
    let catalog = takes(json!({
        "type": "object",
        "properties": { "to": { "type": "string" } },
        "required": ["to"],
        "anyOf": [
            { "properties": { "text": { "type": "string" } }, "required": ["text"] },
            { "properties": { "html": { "type": "string" } }, "required": ["html"] },
        ],
    }));
    let line = only(&catalog).line(Language::Python, None);
    assert_eq!(line, "def do_it(to: str, *, html: str = ..., text: str = ...) -> Any: ...");
}

#[test]
fn what_is_too_large_is_cut_and_says_so() {
    let many: serde_json::Map<String, Value> =
        (0..10_000).map(|at| (format!("k{at}"), json!({ "type": "string" }))).collect();
    let catalog = takes(json!({ "type": "object", "properties": many }));
    let stub = only(&catalog).stub(Language::Python, None, None);
    assert!(stub.contains("the schema is larger than what is shown here"));
    assert!(stub.contains("**more: Any"));
    assert!(stub.len() < 20_000, "{} bytes", stub.len());
    assert!(only(&catalog).line(Language::Python, None).len() < 700);
}

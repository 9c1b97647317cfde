//! Lists of tools that were written to do harm, and lists made at random.

use hotcell_toolbox::{Catalog, ServerListing};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value, json};

/// Texts that end strings, comments and docstrings, or hide.
const TEXTS: &[&str] = &[
    "\"\"\"\nimport os; os.system('id')\n\"\"\"",
    "'''\\",
    "\\",
    "ends with a quote\"",
    "ends with a backslash\\",
    "*/ export const x = 1; /*",
    "a\r\nb\u{2028}c\u{2029}d\u{85}e\u{b}f\u{c}g",
    "nul \0 bell \u{7} escape \u{1b}[31m red",
    "\u{202e}desrever\u{202c} \u{200b}\u{feff}zero\u{e0041}\u{e0042}",
    "${process.exit()} `id` $(id) {{x}} %s {0}",
    "# comment\n\tindent\n  # more",
    "naïve café 日本語 🦀👩‍👩‍👧",
    "]]></script>--><!--",
    "",
    " ",
    "\n\n\n",
];

/// Names that are no identifiers, or that would be code.
const NAMES: &[&str] = &[
    "create issue",
    "create-issue",
    "create_issue",
    "create.issue",
    "CreateIssue",
    "class",
    "def",
    "None",
    "list",
    "delete",
    "new",
    "type",
    "index",
    "__init__",
    "__debug__",
    "_",
    "__",
    "1st",
    "2fa.enable",
    "a b",
    "a-b",
    "a.b",
    "a_b",
    "x(): pass\nimport os",
    "x\"]",
    "x\n",
    "../../etc/passwd",
    "..",
    ".",
    "/",
    "日本語",
    "другой",
    "naïve",
    "ﬁ",
    "ª",
    "µ",
    "x\u{200b}y",
    "x\0y",
    "constructor",
    "__proto__",
    "toString",
    "lambda",
    "await",
    "print",
    "self",
    "import",
    "from",
    "🦀",
    "🦀🦀",
    "+",
    "-",
    "ThisIsAVeryLongNameThatGoesOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOn",
    "ThisIsAVeryLongNameThatGoesOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOnAndOff",
];

/// Schemas that never end, are too large, or contradict themselves.
fn schemas() -> Vec<Value> {
    let many: Map<String, Value> =
        (0..10_000).map(|at| (format!("key {at}"), json!({ "type": "string" }))).collect();
    let names: Map<String, Value> =
        NAMES.iter().map(|name| ((*name).to_owned(), json!({ "type": "integer" }))).collect();
    let texts: Map<String, Value> = TEXTS
        .iter()
        .map(|text| {
            let schema = json!({
                "description": text, "title": text, "default": text, "examples": [text],
                "enum": [text, 1, null, 1.5, true, [text], { "a": text }], "pattern": text, "format": text,
            });
            ((*text).to_owned(), schema)
        })
        .collect();
    let mut deep = json!({ "type": "string" });
    for _ in 0..100 {
        deep =
            json!({ "type": "array", "items": { "type": "object", "properties": { "in": deep } } });
    }
    let mut bomb = Map::new();
    for at in 0..40 {
        let next = format!("#/$defs/b{}", at + 1);
        let both = json!({ "allOf": [{ "$ref": next }, { "$ref": next }], "anyOf": [{ "$ref": next }, { "$ref": next, "minimum": 1 }] });
        bomb.insert(format!("b{at}"), both);
    }
    let circles: Map<String, Value> = (0..60)
        .map(|at| {
            let other = |to: usize| json!({ "$ref": format!("#/$defs/c{}", to % 60) });
            let listed = json!({ "type": "array", "items": other(at) });
            (format!("c{at}"), json!({ "anyOf": [other(at + 1), other(at * 7 + 3), listed] }))
        })
        .collect();
    let object = |properties: Value| json!({ "type": "object", "properties": properties });
    vec![
        object(json!({ "me": { "$ref": "#" } })),
        json!({ "$ref": "#" }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } }),
        json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/a" }, "y": { "$ref": "#/$defs/b" } },
            "$defs": { "a": { "anyOf": [{ "$ref": "#/$defs/b" }, { "type": "string" }, { "type": "array", "items": { "$ref": "#/$defs/a" } }] },
                "b": { "anyOf": [{ "$ref": "#/$defs/a" }, { "type": "null" }, { "type": "array", "items": { "$ref": "#/$defs/b" } }] } } }),
        json!({ "type": "object", "properties": { "json": { "$ref": "#/$defs/json" } },
            "$defs": { "json": { "anyOf": [{ "type": "string" }, { "type": "number" }, { "type": "null" },
                { "type": "array", "items": { "$ref": "#/$defs/json" } },
                { "type": "object", "additionalProperties": { "$ref": "#/$defs/json" } }] } } }),
        json!({ "type": "object", "properties": { "node": { "$ref": "#/$defs/class" } },
            "$defs": { "class": { "type": "object", "properties": { "next": { "$ref": "#/$defs/class" },
                "class": { "$ref": "#/$defs/Any" } } }, "Any": { "type": "object", "properties": { "Literal": {} } } } }),
        json!({ "type": "object", "properties": { "b": { "$ref": "#/$defs/b0" } }, "$defs": bomb }),
        json!({ "type": "object", "properties": { "c": { "$ref": "#/$defs/c0" } }, "$defs": circles }),
        json!({ "type": "object", "properties": many }),
        json!({ "type": "object", "properties": names, "required": NAMES }),
        json!({ "type": "object", "properties": { "nested": { "type": "object", "properties": names, "required": ["class", 3, null] } } }),
        json!({ "type": "object", "properties": texts }),
        object(json!({ "d": deep })),
        object(
            json!({ "e": { "enum": (0..10_000).collect::<Vec<_>>() }, "f": { "enum": [] }, "g": { "const": { "deep": [[[[[[[[1]]]]]]]] } } }),
        ),
        object(
            json!({ "u": { "anyOf": (0..500).map(|at| json!({ "const": at })).collect::<Vec<_>>() } }),
        ),
        object(
            json!({ "t": { "prefixItems": [{ "type": "integer" }, { "type": "string" }], "items": { "type": "boolean" } },
            "u": { "type": "array", "items": [{ "type": "integer" }, {}], "additionalItems": false }, "v": { "prefixItems": [] } }),
        ),
        object(
            json!({ "a": true, "b": false, "c": 3, "d": null, "e": "string", "f": [], "g": { "type": 5 }, "h": { "type": ["string", 7, "null"] } }),
        ),
        json!({ "type": "string" }),
        json!({ "oneOf": [{ "properties": { "a": { "const": "x" } }, "required": ["a"] }, { "properties": { "a": { "const": "y" }, "b": {} }, "required": ["a", "b"] }] }),
        json!({ "type": "object", "properties": { "p": { "$ref": "https://example.com/schema.json#/x" }, "q": { "$ref": "#/nowhere" }, "r": { "$ref": "#%zz" } } }),
        json!(true),
        json!(false),
        json!({ "properties": [], "required": "all", "allOf": {}, "anyOf": 1, "enum": {}, "additionalProperties": [] }),
        json!({ "type": "object", "patternProperties": { "^(?=x)": { "type": "string" }, "(": {} }, "additionalProperties": { "$ref": "#" } }),
        object(
            json!({ "n": { "type": "number", "minimum": -1e308, "maximum": 1e308, "multipleOf": 0, "default": -0.0 }, "m": { "default": u64::MAX } }),
        ),
    ]
}

/// The entries of a list of tools that all mean harm.
pub(crate) fn tools() -> Vec<Value> {
    let mut tools = Vec::new();
    for name in NAMES {
        tools.push(json!({ "name": name, "inputSchema": { "type": "object" } }));
    }
    for (at, text) in TEXTS.iter().enumerate() {
        tools.push(json!({ "name": format!("text{at}"), "title": text, "description": text, "inputSchema": { "type": "object", "description": text } }));
    }
    for (at, schema) in schemas().into_iter().enumerate() {
        tools.push(json!({ "name": format!("takes{at}"), "inputSchema": schema }));
        tools.push(json!({ "name": format!("gives{at}"), "outputSchema": schema }));
    }
    tools.push(json!({ "name": "large", "description": "x\"\"\"\n".repeat(200_000) }));
    tools.push(json!({ "name": "wide", "description": "\\".repeat(1 << 20) }));
    tools
}

/// The entries of a list of tools made at random; always the same.
pub(crate) fn random_tools(count: usize) -> Vec<Value> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let schema = schema();
    (0..count)
        .map(|at| {
            let mut made = || schema.new_tree(&mut runner).unwrap().current();
            let (input, output) = (made(), made());
            json!({ "name": format!("random{at}"), "inputSchema": input, "outputSchema": output })
        })
        .collect()
}

fn word() -> BoxedStrategy<String> {
    let known = prop::sample::select([NAMES, TEXTS].concat()).prop_map(str::to_owned);
    prop_oneof![known, any::<String>(), "[a-z]{1,6}"].boxed()
}

/// Any schema: right, wrong and strange.
pub(crate) fn schema() -> BoxedStrategy<Value> {
    let reference =
        prop::sample::select(vec!["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/x"]);
    let kind = prop::sample::select(vec![
        "string", "integer", "number", "boolean", "null", "array", "object",
    ]);
    let leaf = prop_oneof![
        reference.prop_map(|target| json!({ "$ref": target })),
        kind.clone().prop_map(|kind| json!({ "type": kind })),
        prop::collection::vec(word(), 0..4).prop_map(|words| json!({ "enum": words })),
        word().prop_map(|word| json!({ "type": "string", "description": word, "default": word })),
        word().prop_map(|word| json!({ "const": word })),
        any::<i64>().prop_map(|number| json!({ "enum": [number, null] })),
        any::<f64>().prop_map(|number| json!({ "minimum": number, "default": number })),
        any::<bool>().prop_map(Value::from),
        prop::collection::vec(kind, 0..4).prop_map(|kinds| json!({ "type": kinds })),
    ];
    let inner = leaf.prop_recursive(5, 60, 6, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4);
        let keys = prop::collection::btree_map(word(), inner.clone(), 0..5);
        prop_oneof![
            (keys.clone(), prop::collection::vec(word(), 0..3)).prop_map(|(keys, required)| {
                json!({ "type": "object", "properties": keys, "required": required })
            }),
            (keys.clone(), inner.clone()).prop_map(
                |(keys, more)| json!({ "properties": keys, "additionalProperties": more })
            ),
            inner.clone().prop_map(|item| json!({ "type": "array", "items": item })),
            list.clone().prop_map(|items| json!({ "prefixItems": items })),
            list.clone().prop_map(|parts| json!({ "anyOf": parts })),
            list.clone().prop_map(|parts| json!({ "oneOf": parts, "nullable": true })),
            (list, keys).prop_map(|(parts, keys)| json!({ "allOf": parts, "properties": keys })),
        ]
    });
    (inner.clone(), inner.clone(), inner)
        .prop_map(|(mut root, a, b)| {
            if let Some(keys) = root.as_object_mut() {
                keys.insert("$defs".to_owned(), json!({ "a": a, "b": b }));
            }
            root
        })
        .boxed()
}

/// A catalog of all that, on servers that are named to do harm too.
pub(crate) fn catalog() -> Catalog {
    let mut servers: Vec<ServerListing> = NAMES
        .iter()
        .map(|name| ServerListing::read(name, &[json!({ "name": "one", "description": name })]))
        .collect();
    let mut listing = ServerListing::read("hostile", &tools());
    listing.title = Some(TEXTS[0].to_owned());
    listing.instructions = Some(TEXTS[5].to_owned());
    servers.push(listing);
    servers.push(ServerListing::read("random", &random_tools(200)));
    Catalog::new(servers)
}

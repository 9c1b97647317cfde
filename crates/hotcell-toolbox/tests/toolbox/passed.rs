//! Tools under the names by which clients call them, and with schemas that clients take.

use std::collections::BTreeSet;

use hotcell_toolbox::{Catalog, PASSED_MARK, ServerListing};
use serde_json::json;

use crate::fixture;

fn names(catalog: &Catalog) -> Vec<String> {
    catalog.passed("hotcell").into_iter().map(|passed| passed.name).collect()
}

#[test]
fn names_are_legal_and_one_for_each() {
    let catalog = fixture::catalog();
    let names = names(&catalog);
    assert_eq!(names.len(), catalog.tools().count());
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    for name in names {
        assert!(name.len() <= 60 && name.contains(PASSED_MARK), "{name}");
        assert!(name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_'), "{name}");
    }
}

#[test]
fn a_name_does_not_depend_on_what_else_is_listed() {
    let long = "a_name_that_goes_on_and_on_until_nobody_can_take_it_any_more";
    let tool = |name: &str| json!({ "name": name });
    let few = Catalog::new([ServerListing::read("one", &[tool("list"), tool(long)])]);
    let more = Catalog::new([
        ServerListing::read("one", &[tool("list"), tool(long), tool(&format!("{long}_too"))]),
        ServerListing::read("hotcell", &[tool("exec_run")]),
    ]);
    let (few, more) = (names(&few), names(&more));
    assert_eq!((few.len(), more.len()), (2, 3), "{few:?} {more:?}");
    assert!(few.iter().all(|name| more.contains(name)), "{few:?} {more:?}");
    assert!(few.contains(&"one__list_".to_owned()), "{few:?}");
}

#[test]
fn schemas_are_objects_all_the_way_down() {
    let schema = json!({
        "properties": {
            "any": true, "none": false,
            "list": { "type": "array", "items": true },
            "open": { "type": "object", "additionalProperties": true },
            "either": { "anyOf": [true, { "type": "string" }] },
            "sent": { "type": "string", "x-mcp-header": "Authorization" },
        },
        "$defs": { "it": true },
    });
    let tools = [
        json!({ "name": "odd", "inputSchema": schema }),
        json!({ "name": "none", "inputSchema": { "type": "object", "properties": [] } }),
    ];
    let catalog = Catalog::new([ServerListing::read("s", &tools)]);
    let shown = |name: &str| catalog.find("s", name).unwrap().shown_schema();
    assert_eq!(
        serde_json::Value::Object(shown("odd")),
        json!({
            "type": "object",
            "properties": {
                "any": {}, "none": { "not": {} },
                "list": { "type": "array", "items": {} },
                "open": { "type": "object", "additionalProperties": true },
                "either": { "anyOf": [{}, { "type": "string" }] },
                "sent": { "type": "string" },
            },
            "$defs": { "it": {} },
        })
    );
    assert_eq!(shown("none")["properties"], json!({}));
}

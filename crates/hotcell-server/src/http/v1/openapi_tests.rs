//! The checked-in description is the one that the types make.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::openapi::document;
use super::table::operations;

#[test]
#[expect(clippy::disallowed_methods, reason = "a person says with it that the change is meant")]
fn the_checked_in_description_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let made = format!("{}\n", serde_json::to_string_pretty(&document()).unwrap());
    if std::env::var_os("HOTCELL_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "docs/openapi.json is out of date: run this test with HOTCELL_BLESS=1");
}

#[test]
fn every_reference_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 10, "{found:?}");
    for reference in found {
        let place = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(place).is_some(), "{reference}");
    }
}

#[test]
fn every_operation_is_described() {
    let document = document();
    for operation in operations() {
        let method = operation.method.as_str().to_lowercase();
        let described = &document["paths"][operation.shown_path()][method];
        assert_eq!(described["operationId"], operation.name);
    }
}

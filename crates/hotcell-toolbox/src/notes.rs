//! What a schema says of a value beside its type: texts, bounds, formats, defaults.

use serde_json::{Map, Value};

use crate::reference;
use crate::text::one_line;
use crate::types::{Field, Presence, Type};

/// The longest text about one key.
const MAX_DOC: usize = 240;
/// The longest note, a pattern for instance.
const MAX_NOTE: usize = 80;

/// Whether a keyword of JSON Schema only says something to people.
pub(crate) fn is_annotation(key: &str) -> bool {
    matches!(
        key,
        "$comment"
            | "$defs"
            | "$id"
            | "$schema"
            | "default"
            | "definitions"
            | "deprecated"
            | "description"
            | "example"
            | "examples"
            | "readOnly"
            | "title"
            | "writeOnly"
    )
}

/// A key of an object with all that its schema says of it.
pub(crate) fn field(
    root: &Value,
    name: &str,
    schema: &Value,
    kind: Type,
    presence: Presence,
) -> Field {
    let empty = Map::new();
    let keys = schema.as_object().unwrap_or(&empty);
    let target = keys.get("$ref").and_then(Value::as_str);
    let target = target.and_then(|target| reference::find(root, target)).unwrap_or(&Value::Null);
    let doc = [keys.get("description"), target.get("description"), keys.get("title")]
        .into_iter()
        .flatten()
        .find_map(Value::as_str)
        .unwrap_or_default();
    let examples = keys.get("examples").and_then(Value::as_array);
    Field {
        name: name.to_owned(),
        kind,
        presence,
        default: keys.get("default").cloned(),
        example: examples.and_then(|all| all.first()).or_else(|| keys.get("example")).cloned(),
        doc: one_line(doc, MAX_DOC),
        notes: notes(keys),
    }
}

fn notes(keys: &Map<String, Value>) -> Vec<String> {
    let mut notes = Vec::new();
    if keys.get("deprecated") == Some(&Value::Bool(true)) {
        notes.push("deprecated".to_owned());
    }
    for (key, words) in [("format", "format"), ("pattern", "matches")] {
        if let Some(text) = keys.get(key).and_then(Value::as_str) {
            notes.push(one_line(&format!("{words} {text}"), MAX_NOTE));
        }
    }
    for (low, high, unit) in [
        ("minimum", "maximum", ""),
        ("exclusiveMinimum", "exclusiveMaximum", " (not the ends)"),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ] {
        let number = |key: &str| keys.get(key).filter(|value| value.is_number());
        match (number(low), number(high)) {
            (Some(low), Some(high)) => notes.push(format!("{low} to {high}{unit}")),
            (Some(low), None) => notes.push(format!("{low} or more{unit}")),
            (None, Some(high)) => notes.push(format!("up to {high}{unit}")),
            (None, None) => {}
        }
    }
    if let Some(step) = keys.get("multipleOf").filter(|step| step.is_number()) {
        notes.push(format!("a multiple of {step}"));
    }
    notes
}

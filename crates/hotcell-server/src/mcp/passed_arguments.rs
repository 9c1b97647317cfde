//! Arguments of passed-through tools: read as they are meant, and refused with a JSON example.

use hotcell_model::{Error, Result};
use rmcp::model::JsonObject;
use serde_json::{Value, json};

use crate::dialects::hotcell::arguments::{NULLABLE, check, names_in, without_nulls};
use hotcell_dialects::as_meant;

/// How deep an example goes into objects and lists.
const MOST_DEPTH: u32 = 5;

/// The arguments of a call, of the types that the tool's schema names.
///
/// # Errors
/// `invalid`: names the argument and its value, and shows an example.
pub(super) fn prepare(
    tool: &str,
    schema: &JsonObject,
    arguments: JsonObject,
) -> Result<JsonObject> {
    let schema = plain_object(schema);
    let mut arguments = without_nulls(&schema, arguments);
    let required = names_in(schema.get("required"));
    arguments.retain(|name, value| {
        let is_empty = matches!(value, Value::String(text) if text.is_empty());
        !is_empty || required.contains(&name.as_str()) || takes_empty(&schema, name)
    });
    let arguments = as_meant(&schema, arguments);
    match check(tool, &schema, "", &arguments) {
        Ok(()) => Ok(arguments),
        Err(error) => {
            let hint = format!("example: {}", example(tool, &schema, &error.message));
            Err(error.hint(hint))
        }
    }
}

/// The same error with a JSON example in place of a hint for code.
pub(super) fn with_example(tool: &str, schema: &JsonObject, error: Error) -> Error {
    let hint = format!("example: {}", example(tool, &plain_object(schema), &error.message));
    error.hint(hint)
}

/// Whether an empty text may be a value of an argument.
fn takes_empty(schema: &JsonObject, name: &str) -> bool {
    let Some(argument) = schema.get("properties").and_then(|all| all.get(name)) else {
        return true;
    };
    let restricts = ["enum", "const", "format", "pattern", "minLength"];
    argument["type"] == "string" && !restricts.iter().any(|word| argument.get(word).is_some())
}

/// A schema in which what may be null is marked as such and has one type.
fn plain(schema: &Value) -> Value {
    match schema {
        Value::Object(schema) => Value::Object(plain_object(schema)),
        Value::Array(parts) => parts.iter().map(plain).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

fn plain_object(schema: &JsonObject) -> JsonObject {
    let mut plain: JsonObject =
        schema.iter().map(|(name, part)| (name.clone(), plain(part))).collect();
    if let Some(Value::Array(types)) = plain.get_mut("type") {
        let count = types.len();
        types.retain(|name| name != "null");
        let (is_nullable, only) = (types.len() < count, types.first().cloned());
        if types.len() == 1
            && let Some(only) = only
        {
            plain.insert("type".to_owned(), only);
        }
        if is_nullable {
            plain.insert(NULLABLE.to_owned(), true.into());
        }
    }
    for word in ["anyOf", "oneOf"] {
        let Some(Value::Array(choices)) = plain.get_mut(word) else { continue };
        let count = choices.len();
        choices.retain(|choice| choice["type"] != "null");
        let is_nullable = choices.len() < count;
        if let [Value::Object(only)] = choices.as_mut_slice() {
            let only = std::mem::take(only);
            plain.remove(word);
            for (name, part) in only {
                plain.entry(name).or_insert(part);
            }
        }
        if is_nullable {
            plain.insert(NULLABLE.to_owned(), true.into());
        }
    }
    plain
}

/// Arguments of the right types: those that are required, and the refused one.
fn example(tool: &str, schema: &JsonObject, refusal: &str) -> Value {
    let refusal = refusal.strip_prefix(tool).map_or(refusal, |rest| rest.trim_start_matches(": "));
    let end = refusal.find([' ', '.', '[']).unwrap_or(refusal.len());
    let mut shown = sample(&Value::Object(schema.clone()), MOST_DEPTH);
    if let (Value::Object(shown), Some(argument)) =
        (&mut shown, schema.get("properties").and_then(|all| all.get(&refusal[..end])))
    {
        shown.entry(&refusal[..end]).or_insert_with(|| sample(argument, MOST_DEPTH));
    }
    shown
}

fn sample(schema: &Value, depth: u32) -> Value {
    let stated = [
        schema["examples"].get(0),
        schema.get("default").filter(|value| !value.is_null()),
        schema.get("const"),
        schema["enum"].get(0),
    ];
    if let Some(stated) = stated.into_iter().flatten().next() {
        return stated.clone();
    }
    if depth == 0 {
        return Value::Null;
    }
    let least = schema.get("minimum").cloned();
    match schema["type"].as_str() {
        Some("integer" | "number") => least.unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some("array") => match schema.get("items") {
            Some(items) => json!([sample(items, depth - 1)]),
            None => json!([]),
        },
        Some("string") => match schema["format"].as_str() {
            Some("date") => json!("2026-01-31"),
            Some("date-time") => json!("2026-01-31T12:00:00Z"),
            Some("uri") => json!("https://example.com"),
            Some("email") => json!("me@example.com"),
            Some(_) | None => json!("text"),
        },
        _ => {
            let names = names_in(schema.get("required"));
            let field =
                |name: &str| (name.to_owned(), sample(&schema["properties"][name], depth - 1));
            Value::Object(names.into_iter().map(field).collect())
        }
    }
}

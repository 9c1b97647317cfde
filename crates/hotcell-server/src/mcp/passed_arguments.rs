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

/// How many definitions may stand within one another.
const MOST_NESTED: u32 = 8;
/// How many parts of a schema are read: definitions may multiply.
const MOST_PARTS: u32 = 20_000;

/// A schema in which what may be null is marked as such and has one type, and definitions stand where
/// they are referred to.
fn plain_object(schema: &JsonObject) -> JsonObject {
    let root = Value::Object(schema.clone());
    let mut nested = MOST_NESTED;
    loop {
        let mut plain = Plain { root: &root, left: MOST_PARTS };
        let read = plain.object(schema, nested);
        // Definitions that multiply are read less deep, so that all of the first level is known.
        match nested.checked_sub(1) {
            Some(fewer) if plain.left == 0 => nested = fewer,
            Some(_) | None => return read,
        }
    }
}

struct Plain<'a> {
    root: &'a Value,
    left: u32,
}

impl Plain<'_> {
    fn value(&mut self, schema: &Value, nested: u32) -> Value {
        match schema {
            Value::Object(schema) => Value::Object(self.object(schema, nested)),
            Value::Array(parts) => parts.iter().map(|part| self.value(part, nested)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
        }
    }

    fn object(&mut self, schema: &JsonObject, nested: u32) -> JsonObject {
        let Some(left) = self.left.checked_sub(1) else { return JsonObject::new() };
        self.left = left;
        if let Some(Value::String(pointer)) = schema.get("$ref") {
            return self.referred(pointer, schema, nested);
        }
        // Definitions are read where they are referred to.
        let parts = schema.iter().filter(|(name, part)| {
            !(["$defs", "definitions"].contains(&name.as_str()) && part.is_object())
        });
        let mut plain: JsonObject =
            parts.map(|(name, part)| (name.clone(), self.value(part, nested))).collect();
        collapse(&mut plain);
        plain
    }

    /// What a reference stands for, with what stands beside it.
    fn referred(&mut self, pointer: &str, schema: &JsonObject, nested: u32) -> JsonObject {
        let found = pointer.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let (Some(Value::Object(found)), Some(nested)) = (found, nested.checked_sub(1)) else {
            return JsonObject::new();
        };
        let mut whole = found.clone();
        let beside = schema.iter().filter(|(name, _)| *name != "$ref");
        whole.extend(beside.map(|(name, part)| (name.clone(), part.clone())));
        self.object(&whole, nested)
    }
}

/// Marks what may be null, and takes the place of a choice that is none.
fn collapse(plain: &mut JsonObject) {
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
    for word in ["anyOf", "oneOf", "allOf"] {
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

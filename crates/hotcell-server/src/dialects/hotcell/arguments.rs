//! Arguments as models write them: read as they are meant where that is clear, and refused with the
//! name of the argument and its value where it is not.

use hotcell_dialects::as_meant;
use hotcell_model::{Error, Result};
use rmcp::model::JsonObject;
use serde_json::Value;

use super::tool::ToolKind;

/// How much of a wrong value an error quotes.
const QUOTED_CHARS: usize = 80;

/// The arguments of a call, of the types that the tool's schema names.
///
/// # Errors
/// `invalid`: names the argument and its value.
pub(super) fn prepare(
    kind: &ToolKind,
    schema: &JsonObject,
    arguments: JsonObject,
) -> Result<JsonObject> {
    let mut arguments = arguments;
    let required = names_in(schema.get("required"));
    // Many clients send every optional argument, empty.
    arguments.retain(|name, value| {
        let is_empty = match value {
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        };
        !is_empty || required.contains(&name.as_str())
    });
    let arguments = as_meant(schema, without_nulls(schema, arguments));
    match fault_in_object(schema, "", &arguments) {
        None => Ok(arguments),
        Some(fault) => Err(Error::invalid(format!("{}: {fault}", kind.name))),
    }
}

/// Without optional arguments that are null, or an empty text in place of another type, at every
/// level that the schema describes.
fn without_nulls(schema: &JsonObject, arguments: JsonObject) -> JsonObject {
    let required = names_in(schema.get("required"));
    let type_of = |name: &str| schema.get("properties")?.get(name)?.get("type")?.as_str();
    let is_absent = |name: &str, value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() && type_of(name).is_some_and(|it| it != "string"),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
    };
    let present = arguments
        .into_iter()
        .filter(|(name, value)| !is_absent(name, value) || required.contains(&name.as_str()));
    let read = |(name, value): (String, Value)| {
        let inner = schema.get("properties").and_then(|all| all.get(&name));
        let value = match (inner, value) {
            (Some(Value::Object(inner)), Value::Object(fields)) => {
                Value::Object(without_nulls(inner, fields))
            }
            (Some(Value::Object(inner)), Value::Array(items)) => Value::Array(
                items.into_iter().map(|item| item_without_nulls(inner, item)).collect(),
            ),
            (_, value) => value,
        };
        (name, value)
    };
    present.map(read).collect()
}

fn item_without_nulls(array: &JsonObject, item: Value) -> Value {
    match (array.get("items"), item) {
        (Some(Value::Object(schema)), Value::Object(fields)) => {
            Value::Object(without_nulls(schema, fields))
        }
        (_, item) => item,
    }
}

fn names_in(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The first thing that is wrong with an object.
fn fault_in_object(schema: &JsonObject, path: &str, object: &JsonObject) -> Option<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = names_in(schema.get("required"));
    for (name, value) in object {
        let known = properties.and_then(|all| all.get(name));
        // The values of a map have a schema of their own.
        let other = schema.get("additionalProperties");
        if known.is_none() && other == Some(&Value::Bool(false)) {
            let names: Vec<&str> =
                properties.into_iter().flat_map(JsonObject::keys).map(String::as_str).collect();
            return Some(format!(
                "{path}{name} is not an argument (its value is {}); there are {}",
                quoted(value),
                names.join(", ")
            ));
        }
        if let Some(Value::Object(inner)) = known.or(other)
            && let Some(fault) = fault_in(inner, &format!("{path}{name}"), value)
        {
            return Some(fault);
        }
    }
    // After unknown names: one of those is likely to be the missing one, misspelt.
    let missing = required.iter().find(|name| !object.contains_key(**name))?;
    Some(format!("{path}{missing} is missing"))
}

fn fault_in(schema: &JsonObject, path: &str, value: &Value) -> Option<String> {
    let expected = schema.get("type").and_then(Value::as_str)?;
    let fits = match expected {
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    if !fits {
        let article = if expected.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
        return Some(format!("{path} must be {article} {expected}, not {}", quoted(value)));
    }
    let choices = names_in(schema.get("enum"));
    if let Value::String(chosen) = value
        && !choices.is_empty()
        && !choices.contains(&chosen.as_str())
    {
        return Some(format!("{path} must be one of {}, not {chosen:?}", choices.join(", ")));
    }
    match value {
        Value::Object(fields) => fault_in_object(schema, &format!("{path}."), fields),
        Value::Array(items) => {
            let schema = schema.get("items").and_then(Value::as_object)?;
            let fault = |(place, item)| fault_in(schema, &format!("{path}[{place}]"), item);
            items.iter().enumerate().find_map(fault)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn quoted(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

//! Arguments as models write them: read as they are meant where that is clear, and refused with the
//! name of the argument and its value where it is not.

use hotcell_dialects::as_meant;
use hotcell_model::{Error, Result};
use rmcp::model::JsonObject;
use serde_json::Value;

use super::schema::{MAXIMUM, MINIMUM};
use super::tool::{ToolBounds, ToolKind};

/// How much of a wrong value an error quotes.
const QUOTED_CHARS: usize = 80;
/// Integers up to here are exact as fractions; a larger bound of a type is not worth stating.
const MOST_STATED: f64 = 9_007_199_254_740_992.0;
/// Arguments of a tool, or of any, that are lowered to the largest value that is accepted.
const LOWERED: &[(Option<&str>, &str)] =
    &[(None, "wait_s"), (Some("fs_list"), "limit"), (Some("exec_list"), "limit")];
/// Marks what may be null, beside its type.
pub(crate) const NULLABLE: &str = "nullable";
/// How many execs fit into a result if they have all details.
pub(super) const MOST_DETAILED_EXECS: u32 = 40;

/// The arguments of a call, of the types that the tool's schema names.
///
/// # Errors
/// `invalid`: names the argument and its value.
pub(super) fn prepare(
    kind: &ToolKind,
    schema: &JsonObject,
    bounds: ToolBounds,
    arguments: JsonObject,
) -> Result<JsonObject> {
    let schema = &bounded(kind, schema, bounds, &arguments);
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
    let mut arguments = as_meant(schema, without_nulls(schema, arguments));
    for (tool, name) in LOWERED {
        if tool.is_none_or(|tool| tool == kind.name)
            && let Some(most) = property(schema, name).and_then(|it| it.get(MAXIMUM))
            && let Some(value) = arguments.get_mut(*name)
            && value.as_f64() > most.as_f64()
        {
            *value = most.clone();
        }
    }
    check(kind.name, schema, "", &arguments)?;
    Ok(arguments)
}

/// Checks an object, which is at a path in the arguments of a tool.
///
/// # Errors
/// `invalid`: names the argument and its value.
pub(crate) fn check(
    tool: &str,
    schema: &JsonObject,
    path: &str,
    object: &JsonObject,
) -> Result<()> {
    match fault_in_object(schema, path, object) {
        None => Ok(()),
        Some(fault) => Err(Error::invalid(format!("{tool}: {fault}"))),
    }
}

fn property<'a>(schema: &'a JsonObject, name: &str) -> Option<&'a JsonObject> {
    schema.get("properties")?.get(name)?.as_object()
}

/// The schema with the ranges that depend on the call.
fn bounded(
    kind: &ToolKind,
    schema: &JsonObject,
    bounds: ToolBounds,
    arguments: &JsonObject,
) -> JsonObject {
    let mut schema = schema.clone();
    let mut set_most = |name: &str, most: Value| {
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        if let Some(Value::Object(property)) = properties.and_then(|all| all.get_mut(name)) {
            property.insert(MAXIMUM.to_owned(), most);
        }
    };
    set_most("wait_s", bounds.most_wait_s.into());
    if kind.name == "exec_list" && arguments.get("details") == Some(&Value::Bool(true)) {
        set_most("limit", MOST_DETAILED_EXECS.into());
    }
    schema
}

/// Without optional arguments that are null, or an empty text in place of another type, at every
/// level that the schema describes.
pub(crate) fn without_nulls(schema: &JsonObject, arguments: JsonObject) -> JsonObject {
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

/// The texts of a list in a schema.
pub(crate) fn names_in(list: Option<&Value>) -> Vec<&str> {
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
            let near = nearest(name, &names)
                .map_or_else(String::new, |near| format!("did you mean {path}{near}? "));
            return Some(format!(
                "{path}{name} is not an argument (its value is {}); {near}there are {}",
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

/// The one of some names that another is likely to mean.
fn nearest<'n>(meant: &str, names: &[&'n str]) -> Option<&'n str> {
    let plain = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
    let meant = plain(meant);
    let is_near = |name: &&&str| {
        let name = plain(name);
        meant.len() > 2 && (name.starts_with(&meant) || meant.starts_with(&name))
    };
    names.iter().find(is_near).copied()
}

fn fault_in(schema: &JsonObject, path: &str, value: &Value) -> Option<String> {
    if value.is_null() && schema.get(NULLABLE) == Some(&Value::Bool(true)) {
        return None;
    }
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
    let article = if expected.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    if let Some(number) = value.as_f64() {
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
        let (least, most) = (bound(MINIMUM), bound(MAXIMUM));
        let is_within =
            least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most);
        let range = match (least, most.filter(|most| *most <= MOST_STATED)) {
            (Some(least), Some(most)) => format!(" from {least} to {most}"),
            (Some(least), None) => format!(" of at least {least}"),
            (None, Some(most)) => format!(" of at most {most}"),
            (None, None) => String::new(),
        };
        if ["integer", "number"].contains(&expected) && !(fits && is_within) {
            return Some(format!("{path} must be {article} {expected}{range}, not {value}"));
        }
    }
    if !fits {
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

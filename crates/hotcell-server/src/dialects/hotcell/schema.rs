//! JSON Schemas from the types that are read and written, as short as they can be.

use std::borrow::Cow;

use rmcp::model::JsonObject;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

/// The smallest value of a number.
pub(super) const MINIMUM: &str = "minimum";
/// The largest value of a number.
pub(super) const MAXIMUM: &str = "maximum";

/// The schema of arguments, with the range of each number. Omits what a client does not need: every
/// word costs its model tokens.
pub(super) fn of<T: JsonSchema>() -> JsonObject {
    generate::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

/// The schema of a result as it is serialized: a field that may be skipped is not required.
pub(super) fn output<T: JsonSchema>() -> JsonObject {
    without_ranges(generate::<T>(SchemaSettings::draft2020_12().for_serialize()))
}

fn generate<T: JsonSchema>(mut settings: SchemaSettings) -> JsonObject {
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    let mut schema = Value::from(settings.into_generator().into_root_schema_for::<T>());
    shorten(&mut schema);
    match schema {
        Value::Object(mut object) => {
            // What the type is to its reader here.
            object.remove("description");
            object
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            JsonObject::new()
        }
    }
}

/// The same schema without the ranges of numbers: descriptions state those that matter.
pub(super) fn without_ranges(schema: JsonObject) -> JsonObject {
    let mut schema = Value::Object(schema);
    remove_ranges(&mut schema);
    match schema {
        Value::Object(schema) => schema,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            JsonObject::new()
        }
    }
}

fn remove_ranges(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for bound in [MINIMUM, MAXIMUM] {
                if object.get(bound).is_some_and(Value::is_number) {
                    object.remove(bound);
                }
            }
            object.values_mut().for_each(remove_ranges);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_ranges),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The same schema without the rule that an object has no other fields.
pub(super) fn open(schema: JsonObject) -> JsonObject {
    let open_value = |value: Value| match value {
        Value::Object(inner) => Value::Object(open(inner)),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)) => other,
    };
    let closed = |(name, value): &(String, Value)| {
        name == "additionalProperties" && *value == Value::Bool(false)
    };
    let rest = schema.into_iter().filter(|field| !closed(field));
    rest.map(|(name, value)| (name, open_value(value))).collect()
}

/// An object whose parts speak for themselves, or are described where they stand alone.
#[derive(Debug)]
pub(super) struct Object;

impl JsonSchema for Object {
    fn schema_name() -> Cow<'static, str> {
        "Object".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

/// Any value at all. Some clients take no schema that is just `true`.
#[derive(Debug)]
pub(super) struct Anything;

impl JsonSchema for Anything {
    fn schema_name() -> Cow<'static, str> {
        "Anything".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}

/// The words of a choice among words.
fn words(choices: &Value) -> Option<Value> {
    choices.as_array()?.iter().map(|choice| choice.get("const").cloned()).collect()
}

fn shorten(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            let range: Option<(Value, Value)> = match object.get("format").and_then(Value::as_str) {
                Some("uint64") => Some((0.into(), u64::MAX.into())),
                Some("uint32") => Some((0.into(), u32::MAX.into())),
                Some("int32") => Some((i32::MIN.into(), i32::MAX.into())),
                Some(_) | None => None,
            };
            if let Some((least, most)) = range {
                object.entry(MINIMUM).or_insert(least);
                object.entry(MAXIMUM).or_insert(most);
            }
            for word in ["$schema", "title", "format"] {
                if !object.get(word).is_some_and(Value::is_object) {
                    object.remove(word);
                }
            }
            // Descriptions state them: some clients drop this key.
            if !object.get("default").is_some_and(Value::is_object) {
                object.remove("default");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
                if let [Value::Object(only)] = choices.as_mut_slice() {
                    let only = std::mem::take(only);
                    object.remove("anyOf");
                    for (key, value) in only {
                        object.entry(key).or_insert(value);
                    }
                }
            }
            if let Some(words) = object.get("oneOf").and_then(words) {
                object.remove("oneOf");
                object.insert("enum".to_owned(), words);
            }
            if let Some(Value::Array(words)) = object.get_mut("enum") {
                words.retain(|word| !word.is_null());
                object.insert("type".to_owned(), "string".into());
            }
            object.values_mut().for_each(shorten);
        }
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

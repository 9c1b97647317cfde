//! Arguments as they are meant: models write `"30"` and `30.0` for 30, and the servers whose place
//! dialects take have always read them so.

use rmcp::model::{JsonObject, Tool};
use serde_json::{Number, Value};

/// Whole numbers beyond it are not all told apart as fractions.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// The arguments of a tool, if there is one, as they are meant.
pub(crate) fn arguments_of(tool: Option<&Tool>, arguments: JsonObject) -> JsonObject {
    match tool {
        Some(tool) => as_meant(&tool.input_schema, arguments),
        None => arguments,
    }
}

/// The same arguments, each of the type that a schema names if it can be read as that.
pub fn as_meant(schema: &JsonObject, arguments: JsonObject) -> JsonObject {
    let properties = schema.get("properties");
    let read = |(name, value): (String, Value)| {
        let value = match properties.and_then(|all| all.get(&name)) {
            Some(schema) => of_type(schema, value),
            None => value,
        };
        (name, value)
    };
    arguments.into_iter().map(read).collect()
}

fn of_type(schema: &Value, value: Value) -> Value {
    let schema = match schema["anyOf"].as_array() {
        // What may be left out stands beside null.
        Some(either) => either.iter().find(|it| it["type"] != "null").unwrap_or(schema),
        None => schema,
    };
    match (schema["type"].as_str(), value) {
        (Some("integer"), Value::String(text)) => match number(&text).map(whole) {
            Some(read) if !read.is_f64() => Value::Number(read),
            Some(_) | None => Value::String(text),
        },
        (Some("integer"), Value::Number(number)) => Value::Number(whole(number)),
        (Some("number"), Value::String(text)) => {
            number(&text).map_or(Value::String(text), Value::Number)
        }
        (Some("boolean"), Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Value::Bool(true),
            "false" | "0" | "no" | "off" => Value::Bool(false),
            _ => Value::String(text),
        },
        (Some("array" | "object"), Value::String(text)) => {
            match serde_json::from_str::<Value>(&text) {
                Ok(read @ (Value::Array(_) | Value::Object(_))) => of_type(schema, read),
                Ok(_) | Err(_) => Value::String(text),
            }
        }
        (Some("array"), Value::Array(items)) => {
            items.into_iter().map(|item| of_type(&schema["items"], item)).collect()
        }
        (Some("object"), Value::Object(fields)) => match schema.as_object() {
            Some(schema) => Value::Object(as_meant(schema, fields)),
            None => Value::Object(fields),
        },
        (_, value) => value,
    }
}

/// A number in decimal digits: whole if it is written so.
fn number(text: &str) -> Option<Number> {
    let text = text.trim();
    let whole = text.parse::<i64>().map(Number::from).ok();
    whole.or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64))
}

fn whole(number: Number) -> Number {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(read) if read.fract() == 0.0 && read.abs() <= MOST_EXACT => Number::from(read as i64),
        Some(_) | None => number,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Value {
        let schema = json!({ "type": "object", "properties": {
            "n": { "type": "integer" },
            "f": { "type": "number" },
            "maybe": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
            "flag": { "type": "boolean" },
            "text": { "type": "string" },
            "list": { "type": "array", "items": { "type": "string" } },
            "inner": { "type": "object", "properties": { "n": { "type": "integer" } } },
        }});
        of_type(&schema, value)
    }

    #[test]
    fn what_can_be_read_as_the_type_is() {
        let cases = [
            (json!({ "n": "30" }), json!({ "n": 30 })),
            (json!({ "n": " -3 " }), json!({ "n": -3 })),
            (json!({ "n": "7.0" }), json!({ "n": 7 })),
            (json!({ "n": "1e3" }), json!({ "n": 1000 })),
            (json!({ "f": "1" }), json!({ "f": 1 })),
            (json!({ "n": 30.0 }), json!({ "n": 30 })),
            (json!({ "f": "2.5" }), json!({ "f": 2.5 })),
            (json!({ "f": 2 }), json!({ "f": 2 })),
            (json!({ "maybe": "7" }), json!({ "maybe": 7 })),
            (json!({ "maybe": null }), json!({ "maybe": null })),
            (json!({ "flag": "True" }), json!({ "flag": true })),
            (json!({ "flag": "off" }), json!({ "flag": false })),
            (json!({ "list": "[\"a\", \"b\"]" }), json!({ "list": ["a", "b"] })),
            (json!({ "inner": { "n": "1" } }), json!({ "inner": { "n": 1 } })),
            (json!({ "inner": "{\"n\": 1.0}" }), json!({ "inner": { "n": 1 } })),
        ];
        for (given, meant) in cases {
            assert_eq!(read(given.clone()), meant, "{given}");
        }
    }

    #[test]
    fn anything_else_stays_as_it_is() {
        let cases = [
            json!({ "n": "many" }),
            json!({ "n": "2.5" }),
            json!({ "n": 2.5 }),
            json!({ "f": "nan" }),
            json!({ "f": "soon" }),
            json!({ "n": 1e300 }),
            json!({ "n": [1] }),
            json!({ "n": true }),
            json!({ "flag": "often" }),
            json!({ "flag": 7 }),
            json!({ "text": "30" }),
            json!({ "text": 30 }),
            json!({ "list": "a" }),
            json!({ "other": "30" }),
        ];
        for given in cases {
            assert_eq!(read(given.clone()), given);
        }
    }
}

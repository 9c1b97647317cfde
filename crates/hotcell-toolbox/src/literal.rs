//! JSON values as expressions of Python and TypeScript.

use serde_json::Value;

use crate::text::{Language, quoted};

/// The longest expression that is written out.
const LONGEST: usize = 120;
/// How deep values are written out.
const DEEPEST: usize = 6;

/// A value as an expression, unless it is too long to be one.
pub(crate) fn expression(value: &Value, language: Language) -> Option<String> {
    let mut out = String::new();
    write(value, language, DEEPEST, &mut out)?;
    Some(out)
}

fn write(value: &Value, language: Language, depth: usize, out: &mut String) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let python = language == Language::Python;
    match value {
        Value::Null => out.push_str(if python { "None" } else { "null" }),
        Value::Bool(true) => out.push_str(if python { "True" } else { "true" }),
        Value::Bool(false) => out.push_str(if python { "False" } else { "false" }),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(text) if text.len() > LONGEST => return None,
        Value::String(text) => out.push_str(&quoted(text, language)),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write(item, language, depth, out)?;
            }
            out.push(']');
        }
        Value::Object(keys) => {
            out.push('{');
            let mut keys: Vec<_> = keys.iter().collect();
            keys.sort_unstable_by_key(|(key, _)| *key);
            for (at, (key, item)) in keys.into_iter().enumerate() {
                (key.len() <= LONGEST).then_some(())?;
                out.push_str(if at > 0 { ", " } else { "" });
                out.push_str(&quoted(key, language));
                out.push_str(": ");
                write(item, language, depth, out)?;
            }
            out.push('}');
        }
    }
    (out.len() <= LONGEST).then_some(())
}

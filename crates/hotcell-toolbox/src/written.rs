//! Arguments written at a command line, made what a schema says they are.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::catalog::Tool;

/// An argument as it is written: its name, and its value unless it stands alone.
pub(crate) type Word = (String, Option<String>);

/// Arguments by the names of a tool's schema. The same name more than once makes a list.
pub(crate) fn of_words(tool: &Tool, words: Vec<Word>) -> Map<String, Value> {
    let properties = tool.listing().input_schema.get("properties").and_then(Value::as_object);
    let mut by_name: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
    for (name, text) in words {
        let name = properties.and_then(|known| find(known, &name)).unwrap_or(name);
        by_name.entry(name).or_default().push(text);
    }
    let value = |(name, texts): (String, Vec<Option<String>>)| {
        let value = argument(|value| tool.takes(&name, value), &texts);
        (name, value)
    };
    by_name.into_iter().map(value).collect()
}

/// The one name that is meant: as it is written, else without regard to case and separators.
fn find(known: &Map<String, Value>, written: &str) -> Option<String> {
    if known.contains_key(written) {
        return Some(written.to_owned());
    }
    let plain = |name: &str| -> String {
        name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let wanted = plain(written);
    let mut alike = known.keys().filter(|name| plain(name) == wanted);
    alike.next().filter(|_| alike.next().is_none()).cloned()
}

/// A text stays one where the schema takes one; else it is JSON, if it can be, and a list of what
/// stands there where the schema takes nothing but a list.
fn argument(takes: impl Fn(&Value) -> bool, texts: &[Option<String>]) -> Value {
    let all = |of: fn(&String) -> Value| -> Vec<Value> {
        texts.iter().map(|text| text.as_ref().map_or(Value::Bool(true), of)).collect()
    };
    let as_text = all(|text| Value::String(text.clone()));
    let as_json =
        all(|text| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())));
    let lists = [Value::Array(as_text.clone()), Value::Array(as_json.clone())];
    let alone = match (as_text.as_slice(), as_json.as_slice()) {
        ([text], [json]) => vec![text.clone(), json.clone()],
        (_, _) => Vec::new(),
    };
    let taken = alone.iter().chain(&lists).find(|value| takes(value));
    // What nothing takes is found wrong later, as what it looks like.
    let [_, list] = &lists;
    taken.or(alone.last()).unwrap_or(list).clone()
}

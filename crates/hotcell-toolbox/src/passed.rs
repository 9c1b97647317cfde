//! Tools handed to a model as they are: under names that every client takes, with schemas that none refuses.

use std::collections::BTreeMap;

use hotcell_model::stable_hash;
use serde_json::{Map, Value, json};

use crate::catalog::{Catalog, Tool};
use crate::text::{lines, one_line};

/// The longest name: some clients shorten what is longer than 63.
const LONGEST: usize = 60;
/// What stands between a server and its tool; no tool of Hotcell's own has it in its name.
pub const PASSED_MARK: &str = "__";
/// The longest description.
const MAX_DESCRIPTION: usize = 4_000;
/// How deep a schema is looked into; what lies deeper may be anything.
const DEEPEST: usize = 24;

/// A tool under the name by which it is passed through.
#[derive(Debug)]
pub struct Passed<'a> {
    /// The same as long as the names of the server and the tool are, whatever else is listed.
    pub name: String,
    /// Which.
    pub tool: &'a Tool,
}

impl Catalog {
    /// All tools of servers but one, by the names under which they are passed through. A name that two tools
    /// could claim is nobody's.
    #[must_use]
    pub fn passed<'a>(&'a self, but: &str) -> Vec<Passed<'a>> {
        let mut by_name: BTreeMap<String, Vec<&Tool>> = BTreeMap::new();
        for tool in self.tools().filter(|tool| tool.key().server != but) {
            by_name.entry(passed_name(tool)).or_default().push(tool);
        }
        let only = |(name, tools): (String, Vec<&'a Tool>)| match tools.as_slice() {
            [tool] => Some(Passed { name, tool }),
            _ => None,
        };
        by_name.into_iter().filter_map(only).collect()
    }
}

fn passed_name(tool: &Tool) -> String {
    let whole = format!("{}{PASSED_MARK}{}", tool.server_identifier(), tool.identifier());
    if whole.len() <= LONGEST {
        return whole;
    }
    let mark = stable_hash(whole.as_bytes()) & 0xff_ffff;
    let head = whole.get(..LONGEST - 7).unwrap_or(&whole).trim_end_matches('_');
    format!("{head}_{mark:06x}")
}

impl Tool {
    /// What it is called, in words for people.
    #[must_use]
    pub fn shown_title(&self) -> Option<String> {
        let annotated = self.listing().annotations.as_ref().and_then(|it| it.title.as_deref());
        let title = self.listing().title.as_deref().or(annotated)?;
        Some(one_line(title, 80)).filter(|title| !title.is_empty())
    }

    /// What its server says of it, without characters that hide.
    #[must_use]
    pub fn shown_description(&self) -> String {
        lines(self.listing().description.as_deref().unwrap_or_default(), MAX_DESCRIPTION).join("\n")
    }

    /// What it takes, as clients of all kinds understand it: an object, and no schema that is only true or
    /// false.
    #[must_use]
    pub fn shown_schema(&self) -> Map<String, Value> {
        let schema = plain(&self.listing().input_schema, DEEPEST);
        let mut schema = schema.as_object().cloned().unwrap_or_default();
        schema.insert("type".to_owned(), json!("object"));
        if !matches!(schema.get("properties"), Some(Value::Object(_))) {
            schema.insert("properties".to_owned(), json!({}));
        }
        schema
    }
}

/// Keys under which a schema stands.
const ONE: &[&str] = &["items", "not", "if", "then", "else", "contains", "propertyNames"];
/// Keys under which a schema stands that may be only true or false.
const ONE_OR_BOOL: &[&str] = &["additionalProperties", "additionalItems", "unevaluatedProperties"];
/// Keys under which a list of them stands.
const LISTS: &[&str] = &["anyOf", "oneOf", "allOf", "prefixItems"];
/// Keys under which they stand by name.
const NAMED: &[&str] = &["properties", "patternProperties", "$defs", "definitions"];

/// A schema as an object.
fn plain(schema: &Value, depth: usize) -> Value {
    let Some(deeper) = depth.checked_sub(1) else { return json!({}) };
    let keys = match schema {
        Value::Object(keys) => keys,
        Value::Bool(false) => return json!({ "not": {} }),
        Value::Null | Value::Bool(true) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return json!({});
        }
    };
    let all = |items: &[Value]| items.iter().map(|item| plain(item, deeper)).collect();
    let mut made = Map::new();
    for (key, value) in keys {
        let (name, is) = (key.as_str(), |keys: &[&str]| keys.contains(&key.as_str()));
        let value = match value {
            Value::Object(inner) if is(NAMED) => {
                let inner = inner.iter().map(|(name, it)| (name.clone(), plain(it, deeper)));
                Value::Object(inner.collect())
            }
            Value::Array(items) if is(LISTS) || name == "items" => Value::Array(all(items)),
            Value::Bool(_) if is(ONE_OR_BOOL) => value.clone(),
            _ if is(ONE) || is(ONE_OR_BOOL) => plain(value, deeper),
            // Clients of HTTP send what this marks in headers as well.
            _ if name.starts_with("x-mcp-") => continue,
            // A list or a table of schemas that is none.
            _ if is(NAMED) || is(LISTS) => continue,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => value.clone(),
        };
        made.insert(key.clone(), value);
    }
    made.into()
}

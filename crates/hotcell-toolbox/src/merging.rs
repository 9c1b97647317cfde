//! Schemas that hold together (`allOf`, keys beside a `$ref`) as one schema.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::reference;

/// How deep schemas that are made of schemas are followed.
const DEEPEST: usize = 12;

/// The longest list of values that is compared with another.
const MAX_ENUM: usize = 256;

/// Merges schemas of one root; what that may cost is bounded.
#[derive(Debug)]
pub(crate) struct Merging<'a> {
    root: &'a Value,
    fuel: usize,
}

impl<'a> Merging<'a> {
    pub(crate) fn new(root: &'a Value, fuel: usize) -> Self {
        Self { root, fuel }
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.fuel == 0
    }

    /// A copy of a schema, if it can still be paid for.
    pub(crate) fn copy(&mut self, keys: &Map<String, Value>) -> Option<Map<String, Value>> {
        self.spend(keys).map(|()| keys.clone())
    }

    /// A schema without `$ref` and `allOf` at its top.
    pub(crate) fn flat(&mut self, schema: &Value) -> Map<String, Value> {
        self.flat_below(schema, 0)
    }

    fn flat_below(&mut self, schema: &Value, depth: usize) -> Map<String, Value> {
        let Value::Object(keys) = schema else { return Map::new() };
        let (Some(_), true) = (self.spend(keys), depth < DEEPEST) else { return Map::new() };
        let mut whole = Map::new();
        for (key, value) in keys {
            if !is_left_out(key) {
                whole.insert(key.clone(), value.clone());
            }
        }
        if let Some(target) = keys.get("$ref").and_then(Value::as_str)
            && let Some(target) = reference::find(self.root, target)
        {
            let target = self.flat_below(target, depth + 1);
            combine(&mut whole, target);
        }
        for part in keys.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            let part = self.flat_below(part, depth + 1);
            combine(&mut whole, part);
        }
        whole
    }

    /// An object schema with its alternatives laid over each other: every key that one of them knows,
    /// and required what all of them require.
    pub(crate) fn overlaid(&mut self, schema: &Value) -> Map<String, Value> {
        self.overlaid_below(schema, 0)
    }

    fn overlaid_below(&mut self, schema: &Value, depth: usize) -> Map<String, Value> {
        let mut whole = self.flat_below(schema, depth);
        for keyword in ["anyOf", "oneOf"] {
            let Some(Value::Array(variants)) = whole.remove(keyword) else { continue };
            if depth >= DEEPEST || variants.is_empty() {
                continue;
            }
            let mut shared: Option<Vec<Value>> = None;
            for variant in &variants {
                let mut variant = self.overlaid_below(variant, depth + 1);
                let required = required_of(&variant);
                shared = Some(match shared {
                    None => required,
                    Some(mut so_far) => {
                        let required: BTreeSet<&str> =
                            required.iter().filter_map(Value::as_str).collect();
                        so_far.retain(|name| {
                            name.as_str().is_some_and(|name| required.contains(name))
                        });
                        so_far
                    }
                });
                variant.remove("required");
                add_alternative(&mut whole, variant);
            }
            let mut all = required_of(&whole);
            all.extend(shared.unwrap_or_default());
            whole.insert("required".to_owned(), Value::Array(all));
        }
        whole
    }

    /// Pays for a copy of a schema.
    fn spend(&mut self, keys: &Map<String, Value>) -> Option<()> {
        let copied = keys.iter().filter(|(key, _)| !is_left_out(key)).map(|(_, value)| value);
        let mut ahead: Vec<&Value> = copied.collect();
        self.fuel = self.fuel.saturating_sub(1);
        while let Some(value) = ahead.pop() {
            let cost = match value {
                Value::String(text) => 1 + text.len() / 64,
                Value::Array(items) => {
                    ahead.extend(items);
                    1
                }
                Value::Object(keys) => {
                    ahead.extend(keys.values());
                    1
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => 1,
            };
            self.fuel = self.fuel.saturating_sub(cost);
            if self.fuel == 0 {
                return None;
            }
        }
        (self.fuel > 0).then_some(())
    }
}

/// What is resolved, or only there to be pointed at.
fn is_left_out(key: &str) -> bool {
    matches!(key, "$ref" | "allOf" | "$defs" | "definitions")
}

fn required_of(schema: &Map<String, Value>) -> Vec<Value> {
    schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// What has to hold for one schema and for another.
pub(crate) fn combine(whole: &mut Map<String, Value>, part: Map<String, Value>) {
    for (key, value) in part {
        let Some(present) = whole.get_mut(&key) else {
            whole.insert(key, value);
            continue;
        };
        match (key.as_str(), present, value) {
            ("properties" | "patternProperties", Value::Object(present), Value::Object(more)) => {
                for (name, schema) in more {
                    match present.get_mut(&name) {
                        None => drop(present.insert(name, schema)),
                        Some(known) if *known == schema => {}
                        Some(known) => *known = json!({ "allOf": [known.take(), schema] }),
                    }
                }
            }
            ("required", Value::Array(present), Value::Array(more)) => present.extend(more),
            ("enum", Value::Array(present), Value::Array(more)) if more.len() <= MAX_ENUM => {
                present.retain(|value| more.contains(value));
            }
            ("type", present, more) => *present = shared_types(present, &more),
            ("additionalProperties", present, Value::Bool(false)) => *present = Value::Bool(false),
            ("anyOf" | "oneOf", Value::Array(present), Value::Array(more))
                if present.is_empty() =>
            {
                *present = more;
            }
            _ => {}
        }
    }
}

fn shared_types(one: &Value, other: &Value) -> Value {
    let names = |value: &Value| -> Vec<Value> {
        value.as_array().cloned().unwrap_or_else(|| vec![value.clone()])
    };
    let (one, other) = (names(one), names(other));
    let holds = |list: &[Value], name: &Value| {
        list.contains(name) || (name == "integer" && list.contains(&Value::from("number")))
    };
    let mut both: Vec<Value> = one.iter().filter(|name| holds(&other, name)).cloned().collect();
    both.extend(other.iter().filter(|name| holds(&one, name) && !one.contains(name)).cloned());
    if both.len() == 1 { both.remove(0) } else { Value::Array(both) }
}

fn add_alternative(whole: &mut Map<String, Value>, variant: Map<String, Value>) {
    for (key, value) in variant {
        if key != "properties" {
            whole.entry(key).or_insert(value);
            continue;
        }
        let slot = whole.entry(key).or_insert_with(|| json!({}));
        let (Value::Object(present), Value::Object(more)) = (slot, value) else { continue };
        for (name, schema) in more {
            match present.get_mut(&name) {
                None => drop(present.insert(name, schema)),
                Some(known) if *known == schema => {}
                Some(Value::Object(keys)) if keys.len() == 1 && keys.contains_key("anyOf") => {
                    if let Some(Value::Array(known)) = keys.get_mut("anyOf") {
                        known.push(schema);
                    }
                }
                Some(known) => *known = json!({ "anyOf": [known.take(), schema] }),
            }
        }
    }
}

//! Whether a value is what a JSON Schema says, for what servers use of it.
//!
//! What is not known here (`unevaluatedProperties`, formats, patterns with look-around) is left to the
//! server, which wrote the schema and checks again.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Number, Value};

use crate::check::ArgumentFault;
use crate::literal::expression;
use crate::python;
use crate::reference;
use crate::text::{Language, one_line};

/// How deep schemas are followed.
const DEEPEST: usize = 64;
/// How many schemas are looked at for one value.
const MAX_STEPS: usize = 200_000;
/// How many patterns of one schema are compiled, and how large each may get.
const MAX_PATTERNS: usize = 100;
const PATTERN_BYTES: usize = 1 << 18;
/// How many types are put into words for one value: those of alternatives that are not told too.
const MAX_WORDS: usize = 50;
/// How many faults of one list or object are looked for.
const MAX_FAULTS: usize = 16;

/// The patterns of a schema, compiled; one that cannot be is left out.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    compiled: BTreeMap<String, Regex>,
}

impl Patterns {
    pub(crate) fn of(schema: &Value) -> Self {
        let mut found = BTreeSet::new();
        let mut ahead = vec![schema];
        let mut steps = 0;
        while let Some(value) = ahead.pop() {
            steps += 1;
            if steps > MAX_STEPS || found.len() >= MAX_PATTERNS {
                break;
            }
            match value {
                Value::Object(keys) => {
                    found.extend(keys.get("pattern").and_then(Value::as_str));
                    let named = keys.get("patternProperties").and_then(Value::as_object);
                    found.extend(named.into_iter().flat_map(Map::keys).map(String::as_str));
                    ahead.extend(keys.values());
                }
                Value::Array(items) => ahead.extend(items),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let compiled = found.into_iter().filter_map(|pattern| {
            let regex = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build().ok()?;
            Some((pattern.to_owned(), regex))
        });
        Self { compiled: compiled.collect() }
    }

    /// Whether a text matches; not known where the pattern could not be compiled.
    fn matches(&self, pattern: &str, text: &str) -> Option<bool> {
        self.compiled.get(pattern).map(|regex| regex.is_match(text))
    }
}

/// Holds values against one schema.
#[derive(Debug)]
pub(crate) struct Conformance<'a> {
    root: &'a Value,
    patterns: &'a Patterns,
    steps: Cell<usize>,
    /// How many types may still be put into words.
    words: Cell<usize>,
}

type Faults = Vec<ArgumentFault>;

impl<'a> Conformance<'a> {
    pub(crate) fn new(root: &'a Value, patterns: &'a Patterns) -> Self {
        Self { root, patterns, steps: Cell::new(MAX_STEPS), words: Cell::new(MAX_WORDS) }
    }

    /// What of a value is not as the schema says.
    pub(crate) fn faults(&self, value: &Value) -> Faults {
        self.check(self.root, value, "", 0)
    }

    /// Whether an argument may not be null.
    pub(crate) fn refuses_null(&self, argument: &str) -> bool {
        self.root["properties"][argument].is_object() && !self.takes(argument, &Value::Null)
    }

    /// Whether an argument may be this.
    pub(crate) fn takes(&self, argument: &str, value: &Value) -> bool {
        self.check(&self.root["properties"][argument], value, argument, 0).is_empty()
    }

    fn check(&self, schema: &Value, value: &Value, path: &str, depth: usize) -> Faults {
        let keys = match schema {
            Value::Object(keys) => keys,
            Value::Bool(false) => return vec![fault(path, value, "nothing here".to_owned())],
            Value::Null
            | Value::Bool(true)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => return Faults::new(),
        };
        let Some(left) = self.steps.get().checked_sub(1).filter(|_| depth < DEEPEST) else {
            return Faults::new();
        };
        self.steps.set(left);
        if value.is_null() && keys.get("nullable") == Some(&Value::Bool(true)) {
            return Faults::new();
        }
        if !Self::is_of_type(keys, value) {
            return vec![fault(path, value, self.in_words(schema))];
        }
        let mut faults = chosen_faults(keys, value, path);
        faults.extend(match value {
            Value::Number(number) => number_faults(keys, number, path),
            Value::String(text) => self.text_faults(keys, text, path),
            Value::Array(items) => self.list_faults(keys, items, path, depth),
            Value::Object(inner) => self.object_faults(keys, inner, path, depth),
            Value::Null | Value::Bool(_) => Faults::new(),
        });
        faults.extend(self.combined_faults(keys, schema, value, path, depth));
        faults
    }

    fn in_words(&self, schema: &Value) -> String {
        match self.words.get().checked_sub(1) {
            Some(left) => {
                self.words.set(left);
                python::type_text(self.root, schema)
            }
            None => "another type".to_owned(),
        }
    }

    fn is_of_type(keys: &Map<String, Value>, value: &Value) -> bool {
        let is = |kind: &str| match kind {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => true,
        };
        match keys.get("type") {
            Some(Value::String(kind)) => is(kind),
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).any(is),
            _ => true,
        }
    }

    fn text_faults(&self, keys: &Map<String, Value>, text: &str, path: &str) -> Faults {
        let length = text.chars().count();
        let value = || Value::from(text);
        let mut faults = Faults::new();
        if let Some(expected) = outside(keys, "minLength", "maxLength", length, "characters") {
            faults.push(fault(path, &value(), expected));
        }
        if let Some(pattern) = keys.get("pattern").and_then(Value::as_str)
            && self.patterns.matches(pattern, text) == Some(false)
        {
            faults.push(fault(path, &value(), format!("what matches {}", one_line(pattern, 80))));
        }
        faults
    }

    fn list_faults(
        &self,
        keys: &Map<String, Value>,
        items: &[Value],
        path: &str,
        depth: usize,
    ) -> Faults {
        let mut faults = Faults::new();
        if let Some(expected) = outside(keys, "minItems", "maxItems", items.len(), "items") {
            faults.push(counted(path, items.len(), "items", expected));
        }
        let first = keys.get("prefixItems").or_else(|| keys.get("items")).and_then(Value::as_array);
        let first = first.map_or(&[][..], Vec::as_slice);
        let behind = if keys.contains_key("prefixItems") || first.is_empty() {
            keys.get("items")
        } else {
            keys.get("additionalItems")
        };
        for (at, item) in items.iter().enumerate() {
            if faults.len() > MAX_FAULTS {
                return faults;
            }
            if let Some(schema) = first.get(at).or(behind) {
                faults.extend(self.check(schema, item, &format!("{path}[{at}]"), depth + 1));
            }
        }
        if keys.get("uniqueItems") == Some(&Value::Bool(true)) {
            let different: BTreeSet<String> = items.iter().map(Value::to_string).collect();
            if different.len() < items.len() {
                let expected = "items that differ".to_owned();
                faults.push(counted(path, different.len(), "different ones", expected));
            }
        }
        faults
    }

    fn object_faults(
        &self,
        keys: &Map<String, Value>,
        inner: &Map<String, Value>,
        path: &str,
        depth: usize,
    ) -> Faults {
        let mut faults = Faults::new();
        if let Some(expected) = outside(keys, "minProperties", "maxProperties", inner.len(), "keys")
        {
            faults.push(counted(path, inner.len(), "keys", expected));
        }
        let known = keys.get("properties").and_then(Value::as_object);
        let mut missing: BTreeSet<&str> = strings(keys.get("required")).collect();
        let needs = keys.get("dependentRequired").and_then(Value::as_object);
        for (key, needed) in needs.into_iter().flatten() {
            if inner.contains_key(key) {
                missing.extend(strings(Some(needed)));
            }
        }
        let missing = missing.into_iter().filter(|name| !inner.contains_key(*name));
        for name in missing.take(MAX_FAULTS) {
            let kind = known.and_then(|known| known.get(name));
            let expected = kind.map_or("a value".to_owned(), |kind| self.in_words(kind));
            let (path, found) = (below(path, name), "nothing: it is required".to_owned());
            faults.push(ArgumentFault { path, found, expected });
        }
        let patterns = keys.get("patternProperties").and_then(Value::as_object);
        for (name, value) in inner {
            if faults.len() > MAX_FAULTS {
                return faults;
            }
            let path = below(path, name);
            let mut covered = false;
            if let Some(schema) = known.and_then(|known| known.get(name)) {
                faults.extend(self.check(schema, value, &path, depth + 1));
                covered = true;
            }
            for (pattern, schema) in patterns.into_iter().flatten() {
                match self.patterns.matches(pattern, name) {
                    Some(true) => {
                        faults.extend(self.check(schema, value, &path, depth + 1));
                        covered = true;
                    }
                    Some(false) => {}
                    None => covered = true,
                }
            }
            match keys.get("additionalProperties") {
                Some(Value::Bool(false)) if !covered => {
                    faults.push(fault(&path, value, "no such key".to_owned()));
                }
                Some(schema @ Value::Object(_)) if !covered => {
                    faults.extend(self.check(schema, value, &path, depth + 1));
                }
                _ => {}
            }
        }
        faults
    }

    fn combined_faults(
        &self,
        keys: &Map<String, Value>,
        schema: &Value,
        value: &Value,
        path: &str,
        depth: usize,
    ) -> Faults {
        let mut faults = Faults::new();
        let check = |part: &Value| self.check(part, value, path, depth + 1);
        if let Some(target) = keys.get("$ref").and_then(Value::as_str)
            && let Some(target) = reference::find(self.root, target)
        {
            faults.extend(check(target));
        }
        for part in parts(keys, "allOf") {
            faults.extend(check(part));
        }
        for keyword in ["anyOf", "oneOf"] {
            let mut nearest: Option<Faults> = None;
            for part in parts(keys, keyword) {
                let found = check(part);
                if nearest.as_ref().is_none_or(|so_far| is_nearer(&found, so_far)) {
                    nearest = Some(found);
                }
            }
            // Where no alternative comes near, all of them are told.
            faults.extend(match nearest {
                Some(nearest) if nearest.first().is_some_and(|first| first.path == shown(path)) => {
                    vec![fault(path, value, self.in_words(schema))]
                }
                nearest => nearest.unwrap_or_default(),
            });
        }
        if let Some(refused) = keys.get("not")
            && self.steps.get() > 0
            && depth + 1 < DEEPEST
            && check(refused).is_empty()
            && self.steps.get() > 0
        {
            let refused = self.in_words(refused);
            faults.push(fault(path, value, format!("anything but {refused}")));
        }
        if let Some(condition) = keys.get("if") {
            let branch = if check(condition).is_empty() { "then" } else { "else" };
            faults.extend(keys.get(branch).map(check).unwrap_or_default());
        }
        faults
    }
}

fn parts<'a>(keys: &'a Map<String, Value>, keyword: &str) -> &'a [Value] {
    keys.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Whether faults of one alternative speak of a deeper place than those of another.
fn is_nearer(found: &Faults, so_far: &Faults) -> bool {
    let deep = |faults: &Faults| match faults.first() {
        None => usize::MAX,
        Some(first) => first.path.matches(['.', '[']).count(),
    };
    deep(found) > deep(so_far)
}

fn chosen_faults(keys: &Map<String, Value>, value: &Value, path: &str) -> Faults {
    let mut faults = Faults::new();
    if let Some(only) = keys.get("const")
        && !is_equal(only, value)
    {
        faults.push(fault(path, value, brief(only)));
    }
    if let Some(Value::Array(values)) = keys.get("enum")
        && !values.iter().any(|one| is_equal(one, value))
    {
        let mut shown: Vec<String> = values.iter().take(12).map(brief).collect();
        if values.len() > shown.len() {
            shown.push(format!("… ({} in all)", values.len()));
        }
        faults.push(fault(path, value, format!("one of {}", shown.join(", "))));
    }
    faults
}

/// Whether two values are the same; a number is, however it is written.
fn is_equal(one: &Value, other: &Value) -> bool {
    one == other || (one.is_number() && other.is_number() && one.as_f64() == other.as_f64())
}

fn number_faults(keys: &Map<String, Value>, number: &Number, path: &str) -> Faults {
    let limit = |key: &str| keys.get(key).and_then(Value::as_f64);
    let number_is = number.as_f64().unwrap_or_default();
    let mut expected = Vec::new();
    if let Some(low) = limit("minimum").filter(|low| number_is < *low) {
        expected.push(format!("{low} or more"));
    }
    if let Some(high) = limit("maximum").filter(|high| number_is > *high) {
        expected.push(format!("{high} or less"));
    }
    if let Some(low) = limit("exclusiveMinimum").filter(|low| number_is <= *low) {
        expected.push(format!("more than {low}"));
    }
    if let Some(high) = limit("exclusiveMaximum").filter(|high| number_is >= *high) {
        expected.push(format!("less than {high}"));
    }
    if let Some(step) = limit("multipleOf").filter(|step| *step > 0.0) {
        let steps = number_is / step;
        if (steps - steps.round()).abs() > 1e-9 * steps.abs().max(1.0) {
            expected.push(format!("a multiple of {step}"));
        }
    }
    let value = Value::Number(number.clone());
    expected.into_iter().map(|expected| fault(path, &value, expected)).collect()
}

/// What a count should be that is not between its bounds.
fn outside(
    keys: &Map<String, Value>,
    low: &str,
    high: &str,
    count: usize,
    unit: &str,
) -> Option<String> {
    let limit = |key: &str| keys.get(key).and_then(Value::as_f64);
    let fits = u32::try_from(count).map_or(f64::MAX, f64::from);
    if let Some(low) = limit(low).filter(|low| fits < *low) {
        return Some(format!("{low} {unit} or more"));
    }
    limit(high).filter(|high| fits > *high).map(|high| format!("{high} {unit} or fewer"))
}

fn fault(path: &str, value: &Value, expected: String) -> ArgumentFault {
    ArgumentFault { path: shown(path), found: brief(value), expected }
}

fn counted(path: &str, count: usize, unit: &str, expected: String) -> ArgumentFault {
    ArgumentFault { path: shown(path), found: format!("{count} {unit}"), expected }
}

fn shown(path: &str) -> String {
    if path.is_empty() { "(all arguments)".to_owned() } else { one_line(path, 160) }
}

fn below(path: &str, key: &str) -> String {
    let key = if crate::names::is_plain(key) { key.to_owned() } else { brief(&Value::from(key)) };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// A value on one line, short.
pub(crate) fn brief(value: &Value) -> String {
    let kind = match value {
        Value::String(text) => return crate::text::quoted(&one_line(text, 60), Language::Python),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(keys) => format!("a dict with {} keys", keys.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    };
    expression(value, Language::Python).filter(|text| text.len() <= 60).unwrap_or(kind)
}

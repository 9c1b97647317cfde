//! From JSON Schema to types. Whatever the schema, this ends soon and its outcome is small.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::merging::{Merging, combine};
use crate::names::{TYPES_TAKEN, type_name};
use crate::notes;
use crate::reference;
use crate::text::one_line;
use crate::types::{Definition, Definitions, Presence, Record, Type, cut_circles, kind_of};

/// How deep types are shown.
const DEEPEST: usize = 14;
/// How many schemas are looked at for one tool.
const MAX_SCHEMAS: usize = 1_500;
/// How much may be copied to merge schemas.
const MERGE_FUEL: usize = 300_000;
/// The most keys that are shown of one object.
const MAX_FIELDS: usize = 200;
/// The most alternatives that are looked at.
const MAX_VARIANTS: usize = 32;
/// The longest key that is shown.
const MAX_KEY: usize = 128;
/// The longest text that is shown as a value of its own.
const MAX_LITERAL: usize = 120;

/// What the schemas of one tool come to.
#[derive(Debug)]
pub(crate) struct Lowering<'a> {
    root: &'a Value,
    merging: Merging<'a>,
    definitions: Vec<(String, Option<Definition>)>,
    names: BTreeSet<String>,
    references: BTreeMap<String, Referenced>,
    fuel: usize,
    cut: bool,
}

/// A reference that is being followed, or was.
#[derive(Debug)]
enum Referenced {
    Open { name: String, used: bool },
    Done(Type),
}

/// How the type of an object is to be called.
#[derive(Debug, Clone)]
enum Naming {
    /// Like this, or with a number behind it.
    After(String),
    /// Like this: the name is kept for it.
    Exactly(String),
}

impl Naming {
    fn stem(&self) -> &str {
        match self {
            Self::After(stem) | Self::Exactly(stem) => stem,
        }
    }

    fn inner(&self, part: &str) -> Self {
        Self::After(format!("{}{}", self.stem(), type_name(part)))
    }
}

impl<'a> Lowering<'a> {
    /// Begins with a schema; `taken` names what else stands in the same file.
    pub(crate) fn new(root: &'a Value, taken: &[&str]) -> Self {
        let names = TYPES_TAKEN.iter().chain(taken).map(|name| (*name).to_owned()).collect();
        Self {
            root,
            merging: Merging::new(root, MERGE_FUEL),
            definitions: Vec::new(),
            names,
            references: BTreeMap::new(),
            fuel: MAX_SCHEMAS,
            cut: false,
        }
    }

    /// Goes on with another schema, whose references are its own.
    pub(crate) fn go_on_with(&mut self, root: &'a Value) {
        self.root = root;
        self.merging = Merging::new(root, MERGE_FUEL);
        self.references.clear();
        self.fuel = MAX_SCHEMAS;
    }

    /// The type of the whole schema.
    pub(crate) fn whole(&mut self, name: &str) -> Type {
        let root = self.root;
        self.lower(root, &Naming::After(name.to_owned()), 0)
    }

    /// The type of a part of the schema.
    pub(crate) fn part(&mut self, schema: &Value) -> Type {
        self.lower(schema, &Naming::After("Value".to_owned()), 0)
    }

    /// The arguments that the schema describes; a schema that names none leaves open what there can be.
    pub(crate) fn arguments(&mut self, name: &str) -> Record {
        let root = self.root;
        let flat = self.merging.overlaid(root);
        let mut record = self.record(&flat, &Naming::After(name.to_owned()), 0);
        let closed = flat.get("additionalProperties") == Some(&Value::Bool(false));
        if !closed && !flat.get("properties").is_some_and(Value::is_object) {
            record.others = Some(Type::Any);
        }
        self.cut |= self.merging.is_spent();
        record
    }

    /// The definitions that the types name, and whether something is not shown.
    pub(crate) fn finish(self) -> (Definitions, bool) {
        let mut definitions: Definitions = self
            .definitions
            .into_iter()
            .map(|(name, made)| (name, made.unwrap_or(Definition::Alias(Type::Any))))
            .collect();
        cut_circles(&mut definitions);
        (definitions, self.cut)
    }

    fn lower(&mut self, schema: &Value, naming: &Naming, depth: usize) -> Type {
        if self.fuel == 0 || depth > DEEPEST {
            self.cut = true;
            return Type::Any;
        }
        self.fuel -= 1;
        let keys = match schema {
            Value::Object(keys) => keys,
            Value::Bool(false) => return Type::Never,
            Value::Null
            | Value::Bool(true)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => return Type::Any,
        };
        if let Some(target) = keys.get("$ref").and_then(Value::as_str) {
            if keys.keys().all(|key| key == "$ref" || notes::is_annotation(key)) {
                let kind = self.referenced(target, depth);
                return nullable(keys, kind);
            }
        } else if !keys.contains_key("allOf") {
            return self.plain(keys, naming, depth);
        }
        let flat = self.merging.flat(schema);
        self.plain(&flat, naming, depth)
    }

    /// The type of a schema that has no `$ref` and no `allOf` at its top.
    fn plain(&mut self, keys: &Map<String, Value>, naming: &Naming, depth: usize) -> Type {
        if let Some(value) = keys.get("const") {
            return nullable(keys, literals(std::slice::from_ref(value)));
        }
        if let Some(values) = keys.get("enum").and_then(Value::as_array) {
            return nullable(keys, literals(values));
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(variants) = keys.get(keyword).and_then(Value::as_array)
                && variants.iter().any(tells_a_type)
            {
                let kind = self.alternatives(keys, keyword, variants, naming, depth);
                return nullable(keys, kind);
            }
        }
        let kind = match keys.get("type") {
            Some(Value::String(kind)) => self.of_kind(kind, keys, naming, depth),
            Some(Value::Array(kinds)) => Type::one_of(
                kinds
                    .iter()
                    .take(8)
                    .map(|kind| self.of_kind(kind.as_str().unwrap_or(""), keys, naming, depth))
                    .collect::<Vec<_>>(),
            ),
            _ => self.of_kind(guessed_kind(keys), keys, naming, depth),
        };
        nullable(keys, kind)
    }

    fn alternatives(
        &mut self,
        keys: &Map<String, Value>,
        keyword: &str,
        variants: &[Value],
        naming: &Naming,
        depth: usize,
    ) -> Type {
        let is_base = |key: &str| key != keyword && key != "nullable" && !notes::is_annotation(key);
        let has_base = keys.keys().any(|key| is_base(key) && TELLING.contains(&key.as_str()));
        let mut members = Vec::new();
        for (at, variant) in variants.iter().enumerate() {
            if at >= MAX_VARIANTS {
                self.cut = true;
                return Type::Any;
            }
            let naming = Naming::After(variant_name(variant, naming));
            if !has_base {
                members.push(self.lower(variant, &naming, depth + 1));
                continue;
            }
            let Some(mut base) = self.merging.copy(keys) else {
                self.cut = true;
                return Type::Any;
            };
            base.retain(|key, _| is_base(key));
            let mut merged = self.merging.flat(variant);
            combine(&mut merged, base);
            members.push(self.lower(&Value::Object(merged), &naming, depth + 1));
        }
        Type::one_of(members)
    }

    fn of_kind(
        &mut self,
        kind: &str,
        keys: &Map<String, Value>,
        naming: &Naming,
        depth: usize,
    ) -> Type {
        match kind {
            "null" => Type::Null,
            "boolean" => Type::Bool,
            "integer" => Type::Int,
            "number" => Type::Float,
            "string" => Type::Text,
            "array" => self.list(keys, naming, depth),
            "object" => self.object(keys, naming, depth),
            _ => Type::Any,
        }
    }

    fn list(&mut self, keys: &Map<String, Value>, naming: &Naming, depth: usize) -> Type {
        let item = naming.inner("Item");
        let first = keys.get("prefixItems").or_else(|| keys.get("items")).and_then(Value::as_array);
        let Some(first) = first.filter(|first| !first.is_empty()) else {
            let inner =
                keys.get("items").map_or(Type::Any, |inner| self.lower(inner, &item, depth + 1));
            return Type::List(Box::new(inner));
        };
        if first.len() > 16 {
            self.cut = true;
            return Type::List(Box::new(Type::Any));
        }
        let items = first.iter().map(|inner| self.lower(inner, &item, depth + 1)).collect();
        let behind = if keys.contains_key("prefixItems") { "items" } else { "additionalItems" };
        let rest = keys.get(behind).filter(|rest| rest.is_object());
        let rest = rest.map(|rest| Box::new(self.lower(rest, &item, depth + 1)));
        Type::Tuple(items, rest)
    }

    fn object(&mut self, keys: &Map<String, Value>, naming: &Naming, depth: usize) -> Type {
        let known = keys.get("properties").and_then(Value::as_object);
        if known.is_none_or(Map::is_empty) {
            return Type::Map(Box::new(self.other_keys(keys, naming, depth).unwrap_or(Type::Any)));
        }
        let name = match naming {
            Naming::Exactly(name) => name.clone(),
            Naming::After(stem) => self.fresh(stem),
        };
        let at = self.definitions.len();
        self.definitions.push((name.clone(), None));
        let record = self.record(keys, &Naming::After(name.clone()), depth);
        self.definitions[at].1 = Some(Definition::Record(record));
        Type::Named(name)
    }

    /// What keys hold that the schema does not name; nothing where it does not speak of them.
    fn other_keys(
        &mut self,
        keys: &Map<String, Value>,
        naming: &Naming,
        depth: usize,
    ) -> Option<Type> {
        let mut kinds = Vec::new();
        let patterns = keys.get("patternProperties").and_then(Value::as_object);
        for schema in patterns.into_iter().flat_map(Map::values).take(8) {
            kinds.push(self.lower(schema, &naming.inner("Value"), depth + 1));
        }
        match keys.get("additionalProperties") {
            Some(Value::Bool(true)) => kinds.push(Type::Any),
            Some(schema @ Value::Object(_)) => {
                kinds.push(self.lower(schema, &naming.inner("Value"), depth + 1));
            }
            _ => {}
        }
        (!kinds.is_empty()).then(|| Type::one_of(kinds))
    }

    fn record(&mut self, keys: &Map<String, Value>, naming: &Naming, depth: usize) -> Record {
        let empty = Map::new();
        let known = keys.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let mut record = Record {
            doc: keys
                .get("description")
                .and_then(Value::as_str)
                .map_or(String::new(), |doc| one_line(doc, 300)),
            others: self.other_keys(keys, naming, depth),
            ..Record::default()
        };
        for (name, presence) in in_order(keys, known) {
            if record.fields.len() == MAX_FIELDS || name.len() > MAX_KEY || self.fuel == 0 {
                record.left_out += 1;
                continue;
            }
            let schema = &known[name];
            let kind = self.lower(schema, &naming.inner(name), depth + 1);
            record.fields.push(notes::field(self.root, name, schema, kind, presence));
        }
        self.cut |= record.left_out > 0;
        record
    }

    fn referenced(&mut self, target: &str, depth: usize) -> Type {
        match self.references.get_mut(target) {
            Some(Referenced::Done(kind)) => return kind.clone(),
            Some(Referenced::Open { name, used }) => {
                *used = true;
                return Type::Named(name.clone());
            }
            None => {}
        }
        let Some(schema) = reference::find(self.root, target) else { return Type::Any };
        let name = self.fresh(&type_name(reference::last_part(target)));
        let open = Referenced::Open { name: name.clone(), used: false };
        self.references.insert(target.to_owned(), open);
        let kind = self.lower(schema, &Naming::Exactly(name.clone()), depth + 1);
        let used = matches!(self.references.get(target), Some(Referenced::Open { used: true, .. }));
        let made = self.definitions.iter().any(|(known, _)| *known == name);
        let kind = match (made, used) {
            (true, _) => kind,
            (false, true) => {
                let alias = if kind == Type::Named(name.clone()) { Type::Any } else { kind };
                self.definitions.push((name.clone(), Some(Definition::Alias(alias))));
                Type::Named(name)
            }
            (false, false) => {
                self.names.remove(&name);
                kind
            }
        };
        self.references.insert(target.to_owned(), Referenced::Done(kind.clone()));
        kind
    }

    fn fresh(&mut self, stem: &str) -> String {
        let stem = stem.get(..48).unwrap_or(stem);
        let mut name = stem.to_owned();
        let mut number = 2;
        while !self.names.insert(name.clone()) {
            name = format!("{stem}{number}");
            number += 1;
        }
        name
    }
}

/// Keys with those first that have to be there, in the order in which the schema names them.
fn in_order<'a>(
    keys: &'a Map<String, Value>,
    known: &'a Map<String, Value>,
) -> Vec<(&'a str, Presence)> {
    let mut seen = BTreeSet::new();
    let required = keys.get("required").and_then(Value::as_array).into_iter().flatten();
    let required: Vec<&str> = required
        .filter_map(Value::as_str)
        .filter(|name| known.contains_key(*name) && seen.insert(*name))
        .collect();
    let mut others: Vec<&str> = known.keys().map(String::as_str).collect();
    others.retain(|name| !seen.contains(name));
    // The order of a map depends on how serde_json was built.
    others.sort_unstable();
    let required = required.into_iter().map(|name| (name, Presence::Required));
    required.chain(others.into_iter().map(|name| (name, Presence::Optional))).collect()
}

fn nullable(keys: &Map<String, Value>, kind: Type) -> Type {
    if keys.get("nullable") == Some(&Value::Bool(true)) {
        Type::one_of([kind, Type::Null])
    } else {
        kind
    }
}

fn literals(values: &[Value]) -> Type {
    Type::one_of(values.iter().map(|value| match value {
        Value::String(text) if text.len() > MAX_LITERAL => Type::Text,
        Value::Number(number) if number.is_f64() => Type::Float,
        Value::String(_) | Value::Number(_) | Value::Bool(_) => Type::Literal(vec![value.clone()]),
        Value::Null | Value::Array(_) | Value::Object(_) => kind_of(value),
    }))
}

fn variant_name(variant: &Value, naming: &Naming) -> String {
    match variant["title"].as_str() {
        Some(title) if !title.is_empty() => type_name(title),
        _ => naming.stem().to_owned(),
    }
}

/// Keywords that say what a value is.
const TELLING: &[&str] = &[
    "$ref",
    "allOf",
    "anyOf",
    "const",
    "enum",
    "items",
    "oneOf",
    "prefixItems",
    "properties",
    "type",
];

/// Whether a schema says what a value is, not only what an object has to have.
fn tells_a_type(schema: &Value) -> bool {
    match schema {
        Value::Object(keys) => TELLING.iter().any(|key| keys.contains_key(*key)),
        Value::Bool(_) => true,
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

/// The type that a schema means which does not say it.
fn guessed_kind(keys: &Map<String, Value>) -> &'static str {
    let has = |names: &[&str]| names.iter().any(|name| keys.contains_key(*name));
    if has(&["properties", "additionalProperties", "patternProperties", "required"]) {
        "object"
    } else if has(&["items", "prefixItems", "minItems", "maxItems", "uniqueItems"]) {
        "array"
    } else if has(&["pattern", "minLength", "maxLength", "format"]) {
        "string"
    } else if has(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]) {
        "number"
    } else {
        ""
    }
}

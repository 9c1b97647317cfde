//! Shapes of results, learned from results: types and keys, never values.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::names::{TYPES_TAKEN, type_name};
use crate::types::{Definition, Definitions, Field, Presence, Record, Type};

/// How deep results are looked into.
const DEEPEST: usize = 6;
/// The most keys of one object; with more they are taken for data.
const MAX_KEYS: usize = 40;
/// The longest key; a longer one is taken for data.
const MAX_KEY: usize = 40;
/// How many items of a list are looked at.
const MAX_ITEMS: usize = 100;
/// How many values are looked at in one result.
const MAX_VALUES: usize = 5_000;
/// The most parts that a shape keeps.
const MAX_PARTS: usize = 300;

/// What the results of a tool had in common so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    count: u64,
    shape: Shape,
}

/// What values were seen at one place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Shape {
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    plain: BTreeSet<Plain>,
    #[serde(skip_serializing_if = "Option::is_none")]
    list: Option<Box<Shape>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<Keys>,
}

/// A type that has no parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Plain {
    /// It was not looked at.
    Any,
    Text,
    Int,
    Float,
    Bool,
    Null,
}

/// What objects were seen at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Keys {
    /// Keys, how many objects had each, and how many objects there were.
    Known { count: u64, keys: BTreeMap<String, (u64, Shape)> },
    /// The keys are data.
    Data(Box<Shape>),
}

impl Observed {
    /// Takes the shape of one more result. Its values are forgotten.
    pub fn learn(&mut self, result: &Value) {
        let shape = Shape::of(result, 0, &mut { MAX_VALUES });
        self.merge(Observed { count: 1, shape });
    }

    /// Takes what was learned elsewhere; it does not matter who learned first.
    pub fn merge(&mut self, other: Observed) {
        self.count = self.count.saturating_add(other.count);
        self.shape.join(other.shape);
        let mut deepest = DEEPEST;
        while self.shape.parts() > MAX_PARTS && deepest > 0 {
            deepest -= 1;
            self.shape.flatten(deepest);
        }
    }

    /// How many results it was learned from.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The type of results, and the definitions that it names.
    pub(crate) fn types(&self, name: &str, taken: &[&str]) -> (Type, Definitions) {
        let names = TYPES_TAKEN.iter().chain(taken).map(|name| (*name).to_owned()).collect();
        let mut naming = Naming { names, definitions: Vec::new() };
        let kind = naming.kind(&self.shape, name);
        (kind, naming.definitions)
    }
}

impl Shape {
    fn of(value: &Value, depth: usize, left: &mut usize) -> Self {
        let plain = |plain| Self { plain: BTreeSet::from([plain]), ..Self::default() };
        let Some(fewer) = left.checked_sub(1).filter(|_| depth < DEEPEST) else {
            return plain(Plain::Any);
        };
        *left = fewer;
        match value {
            Value::Null => plain(Plain::Null),
            Value::Bool(_) => plain(Plain::Bool),
            Value::Number(number) if number.is_f64() => plain(Plain::Float),
            Value::Number(_) => plain(Plain::Int),
            Value::String(_) => plain(Plain::Text),
            Value::Array(items) => {
                let mut inner = Self::default();
                for item in items.iter().take(MAX_ITEMS) {
                    inner.join(Self::of(item, depth + 1, left));
                }
                Self { list: Some(Box::new(inner)), ..Self::default() }
            }
            Value::Object(keys) => {
                Self { object: Some(Keys::of(keys, depth, left)), ..Self::default() }
            }
        }
    }

    fn join(&mut self, other: Self) {
        self.plain.extend(other.plain);
        match (&mut self.list, other.list) {
            (Some(list), Some(more)) => list.join(*more),
            (slot @ None, more) => *slot = more,
            (Some(_), None) => {}
        }
        self.object = match (self.object.take(), other.object) {
            (Some(one), Some(more)) => Some(one.join(more)),
            (one, more) => one.or(more),
        };
    }

    /// Forgets what is deeper than that.
    fn flatten(&mut self, deepest: usize) {
        let Some(deepest) = deepest.checked_sub(1) else {
            *self = Self { plain: BTreeSet::from([Plain::Any]), ..Self::default() };
            return;
        };
        if let Some(list) = &mut self.list {
            list.flatten(deepest);
        }
        match &mut self.object {
            Some(Keys::Known { keys, .. }) => {
                keys.values_mut().for_each(|(_, shape)| shape.flatten(deepest));
            }
            Some(Keys::Data(inner)) => inner.flatten(deepest),
            None => {}
        }
    }

    fn parts(&self) -> usize {
        let list = self.list.as_ref().map_or(0, |list| list.parts());
        let object = match &self.object {
            Some(Keys::Known { keys, .. }) => keys.values().map(|(_, shape)| shape.parts()).sum(),
            Some(Keys::Data(inner)) => inner.parts(),
            None => 0,
        };
        1 + list + object
    }
}

impl Keys {
    fn of(keys: &Map<String, Value>, depth: usize, left: &mut usize) -> Self {
        let mut known = BTreeMap::new();
        let mut data = false;
        for (key, value) in keys.iter().take(10 * MAX_KEYS) {
            data |= is_data(key);
            // A key that is data stands in memory only until all of them are seen.
            known.insert(key.clone(), (1, Shape::of(value, depth + 1, left)));
        }
        let known = Self::Known { count: 1, keys: known };
        if data { Self::Data(Box::new(known.values())) } else { known.bounded() }
    }

    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Known { count, mut keys }, Self::Known { count: more, keys: others }) => {
                for (key, (seen, shape)) in others {
                    let slot = keys.entry(key).or_default();
                    slot.0 = slot.0.saturating_add(seen);
                    slot.1.join(shape);
                }
                Self::Known { count: count.saturating_add(more), keys }.bounded()
            }
            (one, other) => {
                let mut values = one.values();
                values.join(other.values());
                Self::Data(Box::new(values))
            }
        }
    }

    /// With more keys than a record has, they are data.
    fn bounded(self) -> Self {
        match &self {
            Self::Known { keys, .. } if keys.len() > MAX_KEYS => {
                Self::Data(Box::new(self.values()))
            }
            Self::Known { .. } | Self::Data(_) => self,
        }
    }

    /// What the keys hold, all of them together.
    fn values(self) -> Shape {
        match self {
            Self::Data(values) => *values,
            Self::Known { keys, .. } => {
                keys.into_values().fold(Shape::default(), |mut all, (_, shape)| {
                    all.join(shape);
                    all
                })
            }
        }
    }
}

/// Whether a key looks like a value: an id, an address, a date.
fn is_data(key: &str) -> bool {
    let digits = key.chars().filter(char::is_ascii_digit).count();
    let first = key.chars().next().unwrap_or('0');
    key.len() > MAX_KEY
        || digits > 4
        || !(first.is_ascii_alphabetic() || matches!(first, '_' | '$' | '@'))
        || !key
            .chars()
            .skip(1)
            .all(|letter| letter.is_ascii_alphanumeric() || "_-.$:".contains(letter))
}

/// Gives names to the objects of a shape.
struct Naming {
    names: BTreeSet<String>,
    definitions: Definitions,
}

impl Naming {
    fn kind(&mut self, shape: &Shape, name: &str) -> Type {
        let mut members: Vec<Type> = shape.plain.iter().map(|plain| plain.kind()).collect();
        if let Some(list) = &shape.list {
            let empty = **list == Shape::default();
            let item = if empty { Type::Any } else { self.kind(list, &format!("{name}Item")) };
            members.push(Type::List(Box::new(item)));
        }
        match &shape.object {
            Some(Keys::Data(values)) => {
                members.push(Type::Map(Box::new(self.kind(values, &format!("{name}Value")))));
            }
            Some(Keys::Known { keys, .. }) if keys.is_empty() => {
                members.push(Type::Map(Box::new(Type::Any)));
            }
            Some(Keys::Known { count, keys }) => members.push(self.record(*count, keys, name)),
            None => {}
        }
        Type::one_of(members)
    }

    fn record(&mut self, count: u64, keys: &BTreeMap<String, (u64, Shape)>, name: &str) -> Type {
        let stem = name.get(..48).unwrap_or(name);
        let mut name = stem.to_owned();
        let mut number = 2;
        while !self.names.insert(name.clone()) {
            name = format!("{stem}{number}");
            number += 1;
        }
        let at = self.definitions.len();
        self.definitions.push((name.clone(), Definition::Alias(Type::Any)));
        let mut record = Record::default();
        for (key, (seen, shape)) in keys {
            record.fields.push(Field {
                name: key.clone(),
                kind: self.kind(shape, &format!("{name}{}", type_name(key))),
                presence: if *seen < count { Presence::Optional } else { Presence::Required },
                default: None,
                example: None,
                doc: String::new(),
                notes: Vec::new(),
            });
        }
        record.fields.sort_by_key(|field| field.presence == Presence::Optional);
        self.definitions[at].1 = Definition::Record(record);
        Type::Named(name)
    }
}

impl Plain {
    fn kind(self) -> Type {
        match self {
            Self::Any => Type::Any,
            Self::Text => Type::Text,
            Self::Int => Type::Int,
            Self::Float => Type::Float,
            Self::Bool => Type::Bool,
            Self::Null => Type::Null,
        }
    }
}

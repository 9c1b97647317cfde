//! Types between JSON Schema and the languages of stubs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The most members that a union shows.
const MAX_UNION: usize = 16;
/// The most values that a literal type shows.
const MAX_LITERALS: usize = 64;

/// What a value can be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    Any,
    Never,
    Null,
    Bool,
    Int,
    Float,
    Text,
    /// One of some texts, whole numbers or truth values.
    Literal(Vec<Value>),
    List(Box<Type>),
    /// A list of known length, or with more of one kind behind it.
    Tuple(Vec<Type>, Option<Box<Type>>),
    /// An object whose keys are data.
    Map(Box<Type>),
    /// One of the definitions.
    Named(String),
    Union(Vec<Type>),
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Definition {
    Record(Record),
    Alias(Type),
}

/// An object whose keys are known.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Record {
    pub(crate) doc: String,
    pub(crate) fields: Vec<Field>,
    /// What other keys hold, where the schema says that there may be some.
    pub(crate) others: Option<Type>,
    /// How many keys are not shown.
    pub(crate) left_out: usize,
}

/// A key of an object, or an argument of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    /// The name on the wire.
    pub(crate) name: String,
    pub(crate) kind: Type,
    pub(crate) presence: Presence,
    pub(crate) default: Option<Value>,
    /// A value that its schema gives as an example.
    pub(crate) example: Option<Value>,
    pub(crate) doc: String,
    /// Bounds and formats, in words.
    pub(crate) notes: Vec<String>,
}

/// Whether a key has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    Optional,
}

/// Definitions in the order in which they were begun.
pub(crate) type Definitions = Vec<(String, Definition)>;

impl Type {
    /// What is one of several types.
    pub(crate) fn one_of(members: impl IntoIterator<Item = Type>) -> Type {
        let mut kept: Vec<Type> = Vec::new();
        let mut literals: Vec<Value> = Vec::new();
        let mut null = false;
        let mut ahead: Vec<Type> = members.into_iter().collect();
        ahead.reverse();
        while let Some(member) = ahead.pop() {
            match member {
                Type::Any => return Type::Any,
                Type::Never => {}
                Type::Null => null = true,
                Type::Union(inner) => ahead.extend(inner.into_iter().rev()),
                Type::Literal(values) => {
                    for value in values {
                        if !literals.contains(&value) && literals.len() <= MAX_LITERALS {
                            literals.push(value);
                        }
                    }
                }
                other @ (Type::Bool
                | Type::Int
                | Type::Float
                | Type::Text
                | Type::List(_)
                | Type::Tuple(..)
                | Type::Map(_)
                | Type::Named(_)) => {
                    if !kept.contains(&other) {
                        kept.push(other);
                    }
                }
            }
        }
        if literals.len() > MAX_LITERALS {
            kept.extend(literals.iter().map(kind_of).filter(|kind| !kept.contains(kind)).fold(
                Vec::new(),
                |mut kinds, kind| {
                    if !kinds.contains(&kind) {
                        kinds.push(kind);
                    }
                    kinds
                },
            ));
        } else if !literals.is_empty() {
            kept.insert(0, Type::Literal(literals));
        }
        if kept.len() > MAX_UNION {
            return Type::Any;
        }
        kept.extend(null.then_some(Type::Null));
        match kept.len() {
            0 => Type::Never,
            1 => kept.remove(0),
            _ => Type::Union(kept),
        }
    }
}

/// The type of a value, not looking into it.
pub(crate) fn kind_of(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Number(number) if number.is_f64() => Type::Float,
        Value::Number(_) => Type::Int,
        Value::String(_) => Type::Text,
        Value::Array(_) => Type::List(Box::new(Type::Any)),
        Value::Object(_) => Type::Map(Box::new(Type::Any)),
    }
}

/// Ends circles of aliases that stand for nothing but each other: no language has such types.
pub(crate) fn cut_circles(definitions: &mut Definitions) {
    let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, definition) in definitions.iter() {
        if let Definition::Alias(kind) = definition {
            let members =
                if let Type::Union(members) = kind { members } else { std::slice::from_ref(kind) };
            let named = members.iter().filter_map(|member| match member {
                Type::Named(next) => Some(next.clone()),
                Type::Any
                | Type::Never
                | Type::Null
                | Type::Bool
                | Type::Int
                | Type::Float
                | Type::Text
                | Type::Literal(_)
                | Type::List(_)
                | Type::Tuple(..)
                | Type::Map(_)
                | Type::Union(_) => None,
            });
            edges.insert(name.clone(), named.collect());
        }
    }
    for (name, definition) in definitions {
        if let Definition::Alias(kind) = definition
            && comes_back(&edges, name)
        {
            *kind = Type::Any;
            edges.remove(name);
        }
    }
}

/// Whether an alias comes down to itself, through aliases and unions alone.
fn comes_back(edges: &BTreeMap<String, Vec<String>>, name: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut ahead = vec![name];
    while let Some(at) = ahead.pop() {
        for next in edges.get(at).into_iter().flatten() {
            if next == name {
                return true;
            }
            if seen.insert(next.as_str()) {
                ahead.push(next);
            }
        }
    }
    false
}

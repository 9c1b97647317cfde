//! A value that a tool could be given, for the example in its stub.

use serde_json::{Map, Number, Value, json};

use crate::signature::Signature;
use crate::types::{Field, Presence, Type};

/// How many values a sample is made of.
const MOST: usize = 40;

/// A sample of what an argument may be.
pub(crate) fn of_field(signature: &Signature, field: &Field) -> Value {
    in_record(signature, field, &mut { MOST })
}

fn in_record(signature: &Signature, field: &Field, left: &mut usize) -> Value {
    let given = field.example.as_ref().or(field.default.as_ref()).filter(|value| !value.is_null());
    match (given, &field.kind) {
        (Some(value), _) => value.clone(),
        (None, Type::Int | Type::Float) => least(field).map_or_else(|| json!(1), Value::Number),
        (None, Type::Text) => Value::from(text(field)),
        (
            None,
            kind @ (Type::Any
            | Type::Never
            | Type::Null
            | Type::Bool
            | Type::Literal(_)
            | Type::List(_)
            | Type::Tuple(..)
            | Type::Map(_)
            | Type::Named(_)
            | Type::Union(_)),
        ) => of_type(signature, kind, left),
    }
}

fn of_type(signature: &Signature, kind: &Type, left: &mut usize) -> Value {
    let Some(fewer) = left.checked_sub(1) else { return Value::Null };
    *left = fewer;
    match kind {
        Type::Any | Type::Text => json!("..."),
        Type::Never | Type::Null => Value::Null,
        Type::Bool => Value::Bool(true),
        Type::Int | Type::Float => json!(1),
        Type::Literal(values) => values.first().cloned().unwrap_or_default(),
        Type::List(item) => json!([of_type(signature, item, left)]),
        Type::Tuple(items, _) => items.iter().map(|item| of_type(signature, item, left)).collect(),
        Type::Map(inner) => json!({ "key": of_type(signature, inner, left) }),
        Type::Union(members) => {
            members.first().map_or(Value::Null, |first| of_type(signature, first, left))
        }
        Type::Named(name) => {
            let fields = signature.find_record(name).map_or(&[][..], |record| &record.fields);
            let required = fields.iter().filter(|field| field.presence == Presence::Required);
            let filled = required
                .map(|field| (field.name.clone(), in_record(signature, field, left)))
                .collect::<Map<_, _>>();
            Value::Object(filled)
        }
    }
}

/// The lower bound that the notes of a number tell.
fn least(field: &Field) -> Option<Number> {
    let note =
        field.notes.iter().find(|note| note.contains(" to ") || note.contains(" or more"))?;
    note.split(' ').next()?.parse().ok()
}

fn text(field: &Field) -> &'static str {
    let format = field.notes.iter().find_map(|note| note.strip_prefix("format "));
    match format {
        Some("date") => "2026-01-31",
        Some("date-time") => "2026-01-31T12:00:00Z",
        Some("time") => "12:00:00Z",
        Some("email") => "ada@example.com",
        Some("uri" | "url") => "https://example.com",
        Some("uuid") => "123e4567-e89b-12d3-a456-426614174000",
        _ => "...",
    }
}

//! Edits JSON as text, so that comments, order and layout stay.

use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use jsonc_parser::errors::ParseError;
use jsonc_parser::tokens::Token;
use jsonc_parser::{ParseOptions, Scanner, ScannerOptions};
use serde_json::{Map, Value};

use super::Unfit;
use super::concealed::{Hidden, Ours};
use super::entry::Entry;

/// What clients read: JSON, some of them with comments and trailing commas.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// What the text means; nothing where it says nothing.
pub(super) fn read(text: &str) -> Result<Value, Unfit> {
    let root = CstRootNode::parse(text, &OPTIONS).map_err(unreadable)?;
    Ok(root.to_serde_value().unwrap_or_else(|| Value::Object(Map::new())))
}

/// The text with this entry among the servers.
pub(super) fn edit(text: &str, section: &str, name: &str, entry: &Entry) -> Result<String, Unfit> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root = CstRootNode::parse(text, &OPTIONS).map_err(unreadable)?;
    let top = root
        .object_value_or_create()
        .ok_or_else(|| Unfit::new("it holds something else than an object"))?;
    let servers = match find(&top, section)? {
        None => top.object_value_or_set(section),
        Some(property) => object(&property, section)?,
    };
    match find(&servers, name)? {
        None => {
            let fields = entry.fields.iter().map(|(key, value)| ((*key).to_owned(), input(value)));
            servers.append(name, CstInputValue::Object(fields.collect()));
        }
        Some(property) => bring_up_to_date(&object(&property, name)?, entry)?,
    }
    Ok(root.to_string())
}

/// The values and comments that are not ours.
pub(super) fn hidden(text: &str, ours: &Ours) -> Result<Vec<Hidden>, Unfit> {
    let mut scanner = Scanner::new(text, &ScannerOptions::default());
    let mut hidden = Vec::new();
    // A text is a name or a value: what follows tells which.
    let mut undecided = None;
    while let Some(token) = scanner.scan().map_err(unreadable)? {
        let range = scanner.token_start()..scanner.token_end();
        if let Token::CommentLine(_) = token {
            hidden.push(Hidden { range, instead: "// …" });
            continue;
        }
        if let Token::CommentBlock(_) = token {
            hidden.push(Hidden { range, instead: "/* … */" });
            continue;
        }
        let before = undecided.take();
        hidden.extend(before.filter(|_| token != Token::Colon));
        if let Token::String(text) = &token
            && !ours.has(text)
        {
            undecided = Some(Hidden { range, instead: "\"…\"" });
        } else if let Token::Number(number) = token
            && !ours.has(number)
        {
            hidden.push(Hidden { range, instead: "…" });
        }
    }
    hidden.extend(undecided);
    hidden.sort_by_key(|part| part.range.start);
    Ok(hidden)
}

fn bring_up_to_date(there: &CstObject, entry: &Entry) -> Result<(), Unfit> {
    let fields = match there.to_serde_value() {
        Some(Value::Object(fields)) => fields,
        Some(_) | None => Map::new(),
    };
    let changes = entry.changes(&fields);
    for key in &changes.remove {
        if let Some(property) = find(there, key)? {
            property.remove();
        }
    }
    for (key, value) in &changes.set {
        match find(there, key)? {
            Some(property) => property.set_value(input(value)),
            None => {
                there.append(key, input(value));
            }
        }
    }
    Ok(())
}

/// The property of this name. One that is there twice means one thing to us and may mean another to
/// the client.
fn find(object: &CstObject, name: &str) -> Result<Option<CstObjectProp>, Unfit> {
    let mut found =
        object.properties().into_iter().filter(|it| it.decoded_name().as_deref() == Some(name));
    match (found.next(), found.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(Unfit::new(format!("{name:?} is there twice"))),
    }
}

fn object(property: &CstObjectProp, name: &str) -> Result<CstObject, Unfit> {
    property.object_value().ok_or_else(|| Unfit::new(format!("{name:?} is not an object")))
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(yes) => CstInputValue::Bool(*yes),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => CstInputValue::Object(
            fields.iter().map(|(key, value)| (key.clone(), input(value))).collect(),
        ),
    }
}

fn unreadable(error: ParseError) -> Unfit {
    let problem = error.kind().to_string();
    Unfit { line: Some(error.line_display()), problem: lowercase_first(&problem) }
}

fn lowercase_first(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_lowercase().to_string()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}

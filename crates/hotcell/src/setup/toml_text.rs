//! Edits TOML as text, so that comments, order and layout stay.

use std::ops::Range;

use serde_json::{Map, Value};
use toml_edit::{Document, DocumentMut, Item, Table, TableLike, TomlError, value};

use super::Unfit;
use super::concealed::{Hidden, Ours};
use super::entry::Entry;

/// What the text means.
pub(super) fn read(text: &str) -> Result<Value, Unfit> {
    let document: DocumentMut = text.parse().map_err(|error| unreadable(text, &error))?;
    Ok(meaning(document.as_item()))
}

/// The text with this entry among the servers.
pub(super) fn edit(text: &str, section: &str, name: &str, entry: &Entry) -> Result<String, Unfit> {
    // The editor writes the line ends of one system only.
    let foreign = text.contains("\r\n") && !text.replace("\r\n", "").contains('\n');
    let native = if foreign { text.replace("\r\n", "\n") } else { text.to_owned() };
    let mut document: DocumentMut = native.parse().map_err(|error| unreadable(text, &error))?;
    let servers = document.entry(section).or_insert_with(|| {
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let is_inline = servers.is_inline_table();
    let servers = servers
        .as_table_like_mut()
        .ok_or_else(|| Unfit::new(format!("{section:?} is not a table")))?;
    match servers.get_mut(name) {
        None => {
            servers.insert(name, Item::Table(Table::new()));
            let fresh = servers.get_mut(name).and_then(Item::as_table_like_mut);
            bring_up_to_date(fresh.ok_or_else(|| Unfit::new("it takes no table"))?, entry);
            if is_inline && let Some(fresh) = servers.get_mut(name) {
                fresh.make_value();
            }
        }
        Some(there) => {
            let there = there
                .as_table_like_mut()
                .ok_or_else(|| Unfit::new(format!("{section}.{name} is not a table")))?;
            bring_up_to_date(there, entry);
        }
    }
    let edited = document.to_string();
    Ok(if foreign { edited.replace('\n', "\r\n") } else { edited })
}

/// The values and comments that are not ours.
pub(super) fn hidden(text: &str, ours: &Ours) -> Result<Vec<Hidden>, Unfit> {
    let document = Document::parse(text).map_err(|error| unreadable(text, &error))?;
    let mut values = Vec::new();
    values_of(document.as_item(), &mut values);
    values.sort_by_key(|(range, _)| range.start);
    let mut hidden = Vec::new();
    let mut at = 0;
    for (range, value) in values {
        comments(text, at..range.start, &mut hidden);
        at = range.end;
        if let Some(instead) = shown_as(value, ours) {
            hidden.push(Hidden { range, instead });
        }
    }
    comments(text, at..text.len(), &mut hidden);
    Ok(hidden)
}

fn values_of<'a>(item: &'a Item, found: &mut Vec<(Range<usize>, &'a toml_edit::Value)>) {
    match item {
        Item::None => {}
        Item::Value(value) => single_values_of(value, found),
        Item::Table(table) => table.iter().for_each(|(_, item)| values_of(item, found)),
        Item::ArrayOfTables(tables) => {
            tables.iter().flat_map(Table::iter).for_each(|(_, item)| values_of(item, found));
        }
    }
}

fn single_values_of<'a>(
    value: &'a toml_edit::Value,
    found: &mut Vec<(Range<usize>, &'a toml_edit::Value)>,
) {
    match value {
        toml_edit::Value::Array(items) => {
            items.iter().for_each(|item| single_values_of(item, found));
        }
        toml_edit::Value::InlineTable(table) => {
            table.iter().for_each(|(_, value)| single_values_of(value, found));
        }
        single @ (toml_edit::Value::String(_)
        | toml_edit::Value::Integer(_)
        | toml_edit::Value::Float(_)
        | toml_edit::Value::Boolean(_)
        | toml_edit::Value::Datetime(_)) => {
            found.extend(single.span().map(|range| (range, single)));
        }
    }
}

/// What is shown instead of a value; nothing where it may be shown.
fn shown_as(value: &toml_edit::Value, ours: &Ours) -> Option<&'static str> {
    match value_meaning(value) {
        Value::String(text) if ours.has(&text) => None,
        Value::String(_) if value.is_str() => Some("\"…\""),
        Value::Number(number) if ours.has(&number.to_string()) => None,
        Value::String(_) | Value::Number(_) => Some("…"),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The comments of a range in which there is no value: names, signs and spaces alone.
fn comments(text: &str, range: Range<usize>, hidden: &mut Vec<Hidden>) {
    let mut quote = None;
    let mut begun = None;
    for (at, char) in text.get(range.clone()).unwrap_or_default().char_indices() {
        let at = range.start + at;
        match (char, begun, quote) {
            ('\n', begun_at, _) => {
                hidden.extend(begun_at.map(|begun| comment(text, begun..at)));
                (begun, quote) = (None, None);
            }
            (_, Some(_), _) => {}
            (_, None, Some(open)) => quote = (char != open).then_some(open),
            ('#', None, None) => begun = Some(at),
            ('"' | '\'', None, None) => quote = Some(char),
            (_, None, None) => {}
        }
    }
    hidden.extend(begun.map(|begun| comment(text, begun..range.end)));
}

fn comment(text: &str, line: Range<usize>) -> Hidden {
    let end = line.end - usize::from(text[line.clone()].ends_with('\r'));
    Hidden { range: line.start..end, instead: "# …" }
}

fn bring_up_to_date(there: &mut dyn TableLike, entry: &Entry) {
    let fields = there.iter().map(|(key, item)| (key.to_owned(), meaning(item))).collect();
    let changes = entry.changes(&fields);
    for key in &changes.remove {
        there.remove(key);
    }
    for (key, wanted) in &changes.set {
        let mut item = value(written(wanted));
        let decor = there.get(key).and_then(Item::as_value).map(|value| value.decor().clone());
        if let (Some(decor), Some(value)) = (decor, item.as_value_mut()) {
            *value.decor_mut() = decor;
        }
        there.insert(key, item);
    }
}

fn written(wanted: &Value) -> toml_edit::Value {
    match wanted {
        Value::Null => "".into(),
        Value::Bool(yes) => (*yes).into(),
        Value::Number(number) => number.as_f64().unwrap_or_default().into(),
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(written).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.as_str(), written(value))).collect()
        }
    }
}

/// An item as JSON has it; what JSON does not know becomes its text.
fn meaning(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => value_meaning(value),
        Item::Table(table) => table_meaning(table),
        Item::ArrayOfTables(tables) => {
            tables.iter().map(|table| table_meaning(table)).collect::<Vec<_>>().into()
        }
    }
}

fn value_meaning(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => text.value().as_str().into(),
        toml_edit::Value::Boolean(yes) => (*yes.value()).into(),
        toml_edit::Value::Array(items) => {
            items.iter().map(value_meaning).collect::<Vec<_>>().into()
        }
        toml_edit::Value::InlineTable(table) => table_meaning(table),
        toml_edit::Value::Integer(number) => (*number.value()).into(),
        toml_edit::Value::Float(number) => number.value().to_string().into(),
        toml_edit::Value::Datetime(time) => time.value().to_string().into(),
    }
}

fn table_meaning(table: &dyn TableLike) -> Value {
    let fields: Map<String, Value> =
        table.iter().map(|(key, item)| (key.to_owned(), meaning(item))).collect();
    Value::Object(fields)
}

fn unreadable(text: &str, error: &TomlError) -> Unfit {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let problem = error.message().trim_end_matches('.').replace('\n', "; ");
    Unfit { line: Some(before.matches('\n').count() + 1), problem }
}

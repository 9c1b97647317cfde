//! Settings as they are shown: what is not ours may be a secret of somebody else.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::Value;

use super::entry::Entry;

/// Part of a text that is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hidden {
    pub(super) range: Range<usize>,
    /// What is shown in its place.
    pub(super) instead: &'static str,
}

/// What may be shown: every value that we write ourselves, wherever it stands.
#[derive(Debug, Default)]
pub(super) struct Ours(HashSet<String>);

impl Ours {
    /// What this entry says.
    pub(super) fn of(entry: &Entry) -> Self {
        let mut ours = Self::default();
        entry.fields.iter().for_each(|(_, value)| ours.add(value));
        ours
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => drop(self.0.insert(number.to_string())),
            Value::String(text) => drop(self.0.insert(text.clone())),
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(fields) => fields.values().for_each(|value| self.add(value)),
        }
    }

    /// Whether a value is one of them.
    pub(super) fn has(&self, value: &str) -> bool {
        self.0.contains(value)
    }
}

/// The text without its hidden parts, which are in order.
pub(super) fn without(text: &str, hidden: &[Hidden]) -> String {
    let mut shown = String::new();
    let mut at = 0;
    for Hidden { range, instead } in hidden {
        shown.push_str(text.get(at..range.start).unwrap_or_default());
        shown.push_str(instead);
        at = range.end;
    }
    shown.push_str(text.get(at..).unwrap_or_default());
    shown
}

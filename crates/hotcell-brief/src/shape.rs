//! What a JSON value is made of: keys, types, lengths, and an example of each.

use serde_json::Value;

use crate::json::json_beginning;
use crate::parts::Text;
use crate::pieces::{TailShare, beginning, fit, truncated};
use crate::sample;
use crate::tokens::estimate_tokens;

/// Items of a list that are looked at, evenly spaced.
const ITEMS: usize = 64;
/// Keys of an object that are looked at.
const KEYS: usize = 64;
/// Values that are looked at in all.
const VALUES: usize = 50_000;
/// Lines of a text that are looked at as values.
const LINES: usize = 200;
/// The longest line that is.
const LINE_BYTES: usize = 64 << 10;
/// What an example may cost.
const EXAMPLE_TOKENS: usize = 12;
/// How deep and how wide is told, tried in this order.
const DETAILS: [Detail; 6] = [
    Detail { depth: 8, keys: 64 },
    Detail { depth: 5, keys: 32 },
    Detail { depth: 4, keys: 20 },
    Detail { depth: 3, keys: 12 },
    Detail { depth: 2, keys: 10 },
    Detail { depth: 1, keys: 8 },
];
/// Lines of a shape at most.
const MOST_LINES: usize = 1_000;

#[derive(Debug, Clone, Copy)]
struct Detail {
    depth: usize,
    keys: usize,
}

/// What values at one place have been so far.
#[derive(Debug, Default)]
struct Shape {
    seen: usize,
    nulls: usize,
    booleans: usize,
    integers: usize,
    numbers: usize,
    strings: usize,
    lists: usize,
    objects: usize,
    lengths: Option<(usize, usize)>,
    example: Option<String>,
    keys: Vec<(String, Shape)>,
    more_keys: usize,
    items: Option<Box<Shape>>,
}

impl Shape {
    fn see(&mut self, value: &Value, left: &mut usize) {
        self.seen += 1;
        if *left == 0 {
            return;
        }
        *left -= 1;
        match value {
            Value::Null => self.nulls += 1,
            Value::Bool(_) => self.booleans += 1,
            Value::Number(number) if number.is_f64() => self.numbers += 1,
            Value::Number(_) => self.integers += 1,
            Value::String(_) => self.strings += 1,
            Value::Array(items) => {
                self.lists += 1;
                let (least, most) = self.lengths.unwrap_or((items.len(), items.len()));
                self.lengths = Some((least.min(items.len()), most.max(items.len())));
                let step = items.len().div_ceil(ITEMS).max(1);
                for item in items.iter().step_by(step) {
                    self.items.get_or_insert_default().see(item, left);
                }
            }
            Value::Object(entries) => {
                self.objects += 1;
                for (key, value) in entries {
                    self.see_key(key, value, left);
                }
            }
        }
        let scalar = !matches!(value, Value::Null | Value::Array(_) | Value::Object(_));
        if self.example.is_none() && scalar {
            self.example = Some(json_beginning(value, EXAMPLE_TOKENS));
        }
    }

    fn see_key(&mut self, key: &str, value: &Value, left: &mut usize) {
        match self.keys.iter().position(|(known, _)| known == key) {
            Some(at) => self.keys[at].1.see(value, left),
            None if self.keys.len() < KEYS => {
                let mut shape = Self::default();
                shape.see(value, left);
                self.keys.push((key.to_owned(), shape));
            }
            None => self.more_keys += 1,
        }
    }

    /// What it is, in a few words.
    fn words(&self) -> String {
        let mut kinds = Vec::new();
        for (count, name) in [
            (self.booleans, "boolean"),
            (self.integers, "integer"),
            (self.numbers, "number"),
            (self.strings, "string"),
        ] {
            if count > 0 {
                kinds.push(name.to_owned());
            }
        }
        if let Some((least, most)) = self.lengths {
            let length =
                if least == most { format!("{most}") } else { format!("{least} to {most}") };
            let of =
                self.items.as_ref().map_or(String::new(), |items| format!(" of {}", items.words()));
            kinds.push(format!("list[{length}]{of}"));
        }
        if self.objects > 0 {
            kinds.push("object".to_owned());
        }
        if self.nulls > 0 {
            kinds.push("null".to_owned());
        }
        beginning(&kinds.join(" or "), 40)
    }

    /// The objects in it that have keys to tell, below lists of lists too.
    fn inner(&self) -> &Self {
        match &self.items {
            Some(items) if self.keys.is_empty() => items.inner(),
            Some(_) | None => self,
        }
    }

    fn describe(&self, indent: usize, detail: Detail, out: &mut Vec<String>) {
        let told = self.inner();
        if detail.depth == 0 {
            return;
        }
        let space = "  ".repeat(indent);
        for (key, shape) in told.keys.iter().take(detail.keys) {
            if out.len() >= MOST_LINES {
                return;
            }
            let mut line = format!("{space}{}: {}", beginning(key, 24), shape.words());
            if let Some(example) = &shape.example {
                line.push_str(if shape.seen == 1 { " = " } else { ", such as " });
                line.push_str(example);
            }
            if shape.seen < told.objects {
                line.push_str(&format!(" (in {} of {} seen)", shape.seen, told.objects));
            }
            out.push(line);
            shape.describe(indent + 1, Detail { depth: detail.depth - 1, ..detail }, out);
        }
        let left = told.keys.len().saturating_sub(detail.keys) + told.more_keys;
        match (left, told.objects) {
            (0, _) => {}
            (_, 1) => out.push(format!("{space}… {left} more keys")),
            (_, _) => out.push(format!("{space}… more keys")),
        }
    }

    /// As much of it as fits.
    fn told(&self, room: usize) -> String {
        for detail in DETAILS {
            let mut lines = vec![self.words()];
            self.describe(1, detail, &mut lines);
            let text = lines.join("\n") + "\n";
            if estimate_tokens(&text) <= room {
                return text;
            }
        }
        beginning(&(self.words() + "\n"), room)
    }
}

/// What a value is made of, and some of its items if it is a list.
pub(crate) fn summarised(value: &Value, room: usize) -> String {
    let mut shape = Shape::default();
    shape.see(value, &mut VALUES.clone());
    fit(room, |room| match value {
        Value::Array(items) => {
            let told = shape.told(room / 2);
            let rest = room.saturating_sub(estimate_tokens(&told) + 2);
            format!("{told}{}", sample::items(items, rest))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            shape.told(room)
        }
    })
}

/// What the values are made of that a text has on its lines, and the first and the last of them.
pub(crate) fn summarised_lines(text: &Text<'_>, room: usize) -> String {
    let mut shape = Shape::default();
    let mut left = VALUES;
    for line in text.head.lines().take(LINES).filter(|line| line.len() <= LINE_BYTES) {
        if let Ok(value) = serde_json::from_str(line) {
            shape.see(&value, &mut left);
        }
    }
    fit(room, |room| {
        let told = shape.told(room / 2);
        let head = format!("{} lines of JSON, each: {told}", text.total_lines);
        let rest = room.saturating_sub(estimate_tokens(&head) + 2);
        format!("{head}{}", truncated(text, rest, TailShare::Half))
    })
}

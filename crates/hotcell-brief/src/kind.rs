//! What a text is, by its beginning.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::log::shape_of;
use crate::parts::Text;
use crate::table::delimiter_of;

/// How much of a text is looked at.
const LOOKED_AT: usize = 64 << 10;
/// The longest text that is read as one JSON value: in memory it takes many times as much.
const MOST_JSON: usize = 4 << 20;
/// Fewer lines than this are no log.
const LEAST_LOG: usize = 12;

/// A kind of text.
pub(crate) enum Kind {
    Json(Value),
    JsonLines,
    Table(char),
    Log,
    Bytes,
    Plain,
}

pub(crate) fn kind_of(text: &Text<'_>) -> Kind {
    let start = &text.head[..text.head.floor_char_boundary(LOOKED_AT)];
    if is_no_text(start) {
        return Kind::Bytes;
    }
    if text.missing == 0
        && text.head.len() <= MOST_JSON
        && text.head.trim_start().starts_with(['{', '['])
        && let Ok(value) = serde_json::from_str(&text.head)
    {
        return Kind::Json(value);
    }
    let lines: Vec<&str> = whole_lines(start, text);
    if lines.len() >= 3 && lines.iter().take(5).all(|line| is_json_object(line)) {
        return Kind::JsonLines;
    }
    if let Some(delimiter) = delimiter_of(&lines) {
        return Kind::Table(delimiter);
    }
    if lines.len() >= LEAST_LOG {
        let shapes: BTreeSet<Vec<u8>> = lines.iter().map(|line| shape_of(line)).collect();
        if shapes.len() * 3 <= lines.len() || has_levels(&lines) {
            return Kind::Log;
        }
    }
    Kind::Plain
}

/// The lines at the beginning of a text, without one that may go on.
fn whole_lines<'a>(start: &'a str, text: &Text<'_>) -> Vec<&'a str> {
    let mut lines: Vec<&str> = start.lines().collect();
    if (start.len() < text.head.len() || text.missing > 0) && !start.ends_with('\n') {
        lines.pop();
    }
    lines
}

fn is_no_text(start: &str) -> bool {
    let (mut odd, mut all) = (0_usize, 0_usize);
    for letter in start.chars().take(4096) {
        all += 1;
        let plain = matches!(letter, '\n' | '\r' | '\t' | '\x1b' | '\x08' | '\x0c');
        odd += usize::from(letter == '\u{fffd}' || (letter.is_control() && !plain));
    }
    odd * 10 > all
}

fn is_json_object(line: &str) -> bool {
    line.starts_with('{') && serde_json::from_str::<Value>(line).is_ok()
}

/// Whether most lines say how grave they are.
fn has_levels(lines: &[&str]) -> bool {
    let says = |line: &&&str| {
        let start = &line[..line.floor_char_boundary(80)];
        ["INFO", "DEBUG", "WARN", "ERROR", "TRACE", "info:", "debug:", "warn:", "error:"]
            .iter()
            .any(|level| start.contains(level))
    };
    lines.iter().filter(says).count() * 2 > lines.len()
}

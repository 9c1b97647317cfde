//! A log told by the shapes of its lines: how many there are of each, what went wrong first.

use std::collections::HashMap;
use std::fmt::Write;

use crate::parts::Text;
use crate::pieces::{End, beginning, fit, piece_of_lines};
use crate::tokens::estimate_tokens;

/// Bytes of a line that its shape is made of.
const MOST_OF_A_LINE: usize = 160;
/// Shapes that are told apart; lines of others are counted together.
const MOST_SHAPES: usize = 512;
/// What a line may cost that stands for others.
const LINE_TOKENS: usize = 60;

const GRAVE: [&str; 6] = ["error", "fatal", "critical", "panic", "traceback", "exception"];
const WARNING: &str = "warn";

/// How grave a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Error,
    Warning,
    Other,
}

struct Lines<'a> {
    level: Level,
    count: u64,
    number: u64,
    first: &'a str,
}

/// A line with what differs between lines of one kind taken out: numbers, and words with digits.
pub(crate) fn shape_of(line: &str) -> Vec<u8> {
    let bytes = line.as_bytes();
    let bytes = &bytes[..bytes.len().min(MOST_OF_A_LINE)];
    let mut shape = Vec::with_capacity(bytes.len());
    for word in bytes.split_inclusive(|byte| !byte.is_ascii_alphanumeric() && *byte < 128) {
        let end = match word.last() {
            Some(byte) if !byte.is_ascii_alphanumeric() && *byte < 128 => word.len() - 1,
            Some(_) | None => word.len(),
        };
        if word[..end].iter().any(u8::is_ascii_digit) {
            shape.push(b'#');
        } else {
            shape.extend_from_slice(&word[..end]);
        }
        shape.extend_from_slice(&word[end..]);
    }
    shape
}

pub(crate) fn summarised(text: &Text<'_>, room: usize) -> String {
    let mut shapes: HashMap<Vec<u8>, Lines<'_>> = HashMap::new();
    let mut others = 0_u64;
    let mut looked_at = 0_u64;
    let mut errors = 0_u64;
    let after = text.total_lines.saturating_sub(text.tail.lines().count() as u64);
    let head = (1..).zip(text.head.lines());
    let tail = (after + 1..).zip(text.tail.lines());
    for (number, line) in head.chain(tail) {
        looked_at += 1;
        let shape = shape_of(line);
        if let Some(known) = shapes.get_mut(&shape) {
            known.count += 1;
            errors += u64::from(known.level == Level::Error);
            continue;
        }
        let level = level_of(line);
        errors += u64::from(level == Level::Error);
        if shapes.len() < MOST_SHAPES {
            shapes.insert(shape, Lines { level, count: 1, number, first: line });
        } else {
            others += 1;
        }
    }
    let mut shapes: Vec<Lines<'_>> = shapes.into_values().collect();
    shapes.sort_by_key(|lines| (lines.level, u64::MAX - lines.count, lines.number));
    let mut head = format!("log: {} lines, {errors} with errors", text.total_lines);
    if looked_at < text.total_lines {
        let _ = write!(head, " among the {looked_at} at hand");
    }
    head.push_str(". Kinds of lines, errors first, each by how often and its first:\n");
    fit(room, |room| rendered(text, &head, &shapes, others, room))
}

fn rendered(text: &Text<'_>, head: &str, shapes: &[Lines<'_>], others: u64, room: usize) -> String {
    let last = if text.missing == 0 { &text.head } else { &text.tail };
    let last = piece_of_lines(last.trim_end(), End::Tail, room / 4);
    let mut left = room.saturating_sub(estimate_tokens(head) + estimate_tokens(last) + 24);
    let mut out = head.to_owned();
    let mut shown = 0;
    for lines in shapes {
        let first = beginning(lines.first, LINE_TOKENS);
        let line = format!("{}× line {}: {first}\n", lines.count, lines.number);
        let Some(rest) = left.checked_sub(estimate_tokens(&line) + 1) else { break };
        left = rest;
        out.push_str(&line);
        shown += 1;
    }
    let rest: u64 = shapes[shown..].iter().map(|lines| lines.count).sum();
    if rest + others > 0 {
        let _ = writeln!(out, "{}× of other kinds", rest + others);
    }
    format!("{out}last lines:\n{last}")
}

fn level_of(line: &str) -> Level {
    let start = line[..line.floor_char_boundary(MOST_OF_A_LINE)].to_ascii_lowercase();
    if GRAVE.iter().any(|word| start.contains(word)) {
        Level::Error
    } else if start.contains(WARNING) {
        Level::Warning
    } else {
        Level::Other
    }
}

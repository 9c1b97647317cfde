//! Text of others made fit for a stub: no character that hides, none that ends a comment or a string.

use std::fmt::Write;

/// A text on one line, cut to a number of characters; the cut is shown.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    let mut gap = false;
    for letter in text.chars() {
        if letter.is_whitespace() || letter.is_control() {
            gap = !line.is_empty();
            continue;
        }
        if is_unseen(letter) {
            continue;
        }
        if count + usize::from(gap) >= limit {
            line.push('…');
            return line;
        }
        if gap {
            line.push(' ');
            count += 1;
            gap = false;
        }
        line.push(letter);
        count += 1;
    }
    line
}

/// The lines of a text, each without what hides, all of them together cut to a number of characters.
pub(crate) fn lines(text: &str, limit: usize) -> Vec<String> {
    let mut left = limit;
    let mut kept: Vec<String> = Vec::new();
    for line in text.lines() {
        if left == 0 {
            kept.push("…".to_owned());
            break;
        }
        let line = one_line(line, left);
        left = left.saturating_sub(line.chars().count() + 1);
        if !line.is_empty() || kept.last().is_some_and(|last| !last.is_empty()) {
            kept.push(line);
        }
    }
    while kept.last().is_some_and(String::is_empty) {
        kept.pop();
    }
    kept
}

/// The first sentence of a text, on one line.
pub(crate) fn first_sentence(text: &str, limit: usize) -> String {
    let line = one_line(text.trim_start().lines().next().unwrap_or_default(), limit * 4);
    let end = line.find(". ").unwrap_or(line.len());
    one_line(line[..end].trim_end_matches('.'), limit)
}

/// Whether a character shows nothing, or changes how others are shown: with them a text can say one
/// thing to a person and another to a model.
fn is_unseen(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// A language in which stubs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// `.pyi`.
    Python,
    /// `.d.ts`.
    TypeScript,
}

/// A string literal of a language; whatever does not show is escaped.
pub(crate) fn quoted(text: &str, language: Language) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        let code = u32::from(letter);
        let plain = letter == ' ' || !(letter.is_whitespace() || letter.is_control());
        // Writing to a string cannot fail.
        let _ = match letter {
            '"' | '\\' => write!(out, "\\{letter}"),
            '\n' => write!(out, "\\n"),
            '\t' => write!(out, "\\t"),
            _ if plain && !is_unseen(letter) => write!(out, "{letter}"),
            _ if code <= 0xffff => write!(out, "\\u{code:04x}"),
            _ if language == Language::Python => write!(out, "\\U{code:08x}"),
            _ => write!(out, "\\u{{{code:x}}}"),
        };
    }
    out.push('"');
    out
}

/// A line that can stand between the three quotes of a docstring.
pub(crate) fn in_docstring(line: &str) -> String {
    line.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"")
}

/// A line that can stand in a comment of TypeScript.
pub(crate) fn in_block_comment(line: &str) -> String {
    line.replace("*/", "*\\/")
}

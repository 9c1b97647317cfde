//! What goes in and what comes out.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

/// What code left behind.
#[derive(Debug, Clone, Default)]
pub struct Parts<'a> {
    /// What it printed.
    pub stdout: Text<'a>,
    /// What it printed as diagnostics.
    pub stderr: Text<'a>,
    /// What its last expression was worth.
    pub result: Option<ResultPart<'a>>,
    /// What it raised.
    pub error: Option<ErrorPart<'a>>,
}

/// A text, or its beginning and its end.
#[derive(Debug, Clone, Default)]
pub struct Text<'a> {
    pub(crate) head: Cow<'a, str>,
    pub(crate) tail: Cow<'a, str>,
    /// Bytes between the two that are not at hand.
    pub(crate) missing: u64,
    pub(crate) total_bytes: u64,
    pub(crate) total_lines: u64,
    pub(crate) more: Option<&'a str>,
}

impl<'a> Text<'a> {
    /// A text that is at hand as a whole.
    #[must_use]
    pub fn whole(text: &'a str) -> Self {
        Self {
            head: Cow::Borrowed(text),
            total_bytes: text.len() as u64,
            total_lines: count_lines(text),
            ..Self::default()
        }
    }

    /// The beginning and the end of what was printed; `total_bytes` and `total_lines` count all of it.
    /// What is not UTF-8 is replaced, and a character that a piece ends within is left out.
    #[must_use]
    pub fn pieces(head: &'a [u8], tail: &'a [u8], total_bytes: u64, total_lines: u64) -> Self {
        let at_hand = (head.len() + tail.len()) as u64;
        let missing = total_bytes.saturating_sub(at_hand);
        let (head, tail) = match missing {
            0 if tail.is_empty() => (String::from_utf8_lossy(head), Cow::Borrowed("")),
            0 => (Cow::Owned(joined(head, tail)), Cow::Borrowed("")),
            _ => (
                String::from_utf8_lossy(without_broken_end(head)),
                String::from_utf8_lossy(without_broken_start(tail)),
            ),
        };
        let total_bytes = total_bytes.max(at_hand);
        Self { head, tail, missing, total_bytes, total_lines, more: None }
    }

    /// Says how to read all of it.
    #[must_use]
    pub fn read_by(mut self, more: &'a str) -> Self {
        self.more = Some(more);
        self
    }
}

fn joined(head: &[u8], tail: &[u8]) -> String {
    let whole = [head, tail].concat();
    String::from_utf8(whole)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn without_broken_end(bytes: &[u8]) -> &[u8] {
    let from = bytes.len().saturating_sub(3);
    let start = (from..bytes.len()).rev().find(|at| bytes[*at] & 0xc0 == 0xc0);
    match start {
        Some(at) if std::str::from_utf8(&bytes[at..]).is_err() => &bytes[..at],
        Some(_) | None => bytes,
    }
}

fn without_broken_start(bytes: &[u8]) -> &[u8] {
    let broken = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    &bytes[broken..]
}

pub(crate) fn count_lines(text: &str) -> u64 {
    let breaks = text.bytes().filter(|byte| *byte == b'\n').count() as u64;
    breaks + u64::from(!text.is_empty() && !text.ends_with('\n'))
}

/// What the last expression was worth.
#[derive(Debug, Clone)]
pub struct ResultPart<'a> {
    /// The value.
    pub content: ResultContent<'a>,
    /// How to read all of it.
    pub more: Option<&'a str>,
}

/// A value, as JSON if it can be.
#[derive(Debug, Clone)]
pub enum ResultContent<'a> {
    /// As JSON.
    Json(&'a Value),
    /// As text, or a preview of it.
    Text(Text<'a>),
}

/// What was raised.
#[derive(Debug, Clone, Copy, Default)]
pub struct ErrorPart<'a> {
    /// Type of the exception.
    pub kind: &'a str,
    /// Its message.
    pub message: &'a str,
    /// Where it happened, the most recent call last.
    pub traceback: &'a str,
    /// How to read all of it.
    pub more: Option<&'a str>,
}

/// What a model is shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Shown {
    /// Of what was printed.
    pub stdout: String,
    /// Of what was printed as diagnostics.
    pub stderr: String,
    /// Of the result.
    pub result: Option<ShownResult>,
    /// Of the error.
    pub error: Option<ShownError>,
    /// What is not shown as it was.
    pub cut: Vec<Cut>,
    /// What all of this costs, `cut` included.
    pub tokens: usize,
}

/// A result as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownResult {
    /// All of it.
    Json(Value),
    /// A text, or a text about what was too large.
    Text(String),
}

/// An error as it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ShownError {
    /// Type of the exception.
    pub kind: String,
    /// Its message.
    pub message: String,
    /// Where it happened.
    pub traceback: String,
}

/// A part that is not shown as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cut {
    /// Which.
    pub part: Part,
    /// What was done with it.
    pub how: How,
    /// Bytes that are shown.
    pub kept: u64,
    /// Bytes that there are.
    pub total: u64,
    /// How to read all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how_to_read_more: Option<String>,
}

/// A part of what code leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// What was raised.
    Error,
    /// What the last expression was worth.
    Result,
    /// What was printed.
    Stdout,
    /// What was printed as diagnostics.
    Stderr,
}

/// How something was made to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Its beginning and its end.
    Truncated,
    /// What it is made of.
    Summarised,
    /// Some of it, evenly spaced.
    Sampled,
}

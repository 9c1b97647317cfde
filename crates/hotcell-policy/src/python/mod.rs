//! Reads Python code: what it imports and calls, the commands it starts, the files it writes.

mod calls;
mod depth;
mod names;

#[cfg(test)]
mod python_tests;

use ruff_python_parser::parse_module;
use ruff_text_size::Ranged;
use serde::Serialize;

use self::depth::is_too_deep;
use crate::finding::Finding;
use crate::shell::{LONGEST, Span, TOO_LONG};
use crate::walk::Field;

/// Why code is no Python, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct PythonError {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    pub message: String,
    /// The line itself.
    pub source_line: String,
}

impl PythonError {
    fn at(code: &str, offset: usize, message: String) -> Self {
        let offset =
            (0..=offset.min(code.len())).rev().find(|at| code.is_char_boundary(*at)).unwrap_or(0);
        let before = &code[..offset];
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let source_line = code[start..].lines().next().unwrap_or_default().to_owned();
        let column = before[start..].chars().count() + 1;
        Self { line, column, message, source_line }
    }

    /// The line, and a mark below the place.
    #[must_use]
    pub fn caret(&self) -> String {
        let indent: String = self
            .source_line
            .chars()
            .take(self.column - 1)
            .map(|letter| if letter == '\t' { '\t' } else { ' ' })
            .collect();
        format!("{}\n{indent}^", self.source_line)
    }
}

/// Says whether code is Python, as far as a parser can tell.
///
/// # Errors
/// The first error of syntax.
pub fn python_syntax(code: &str) -> Result<(), PythonError> {
    analyse(code).map(|_| ())
}

/// A command that code starts.
#[derive(Debug)]
pub(crate) enum Started {
    /// Text for a shell.
    Text(Field),
    /// A program and its arguments.
    Program(Vec<Field>),
    /// More Python.
    Code(Field),
}

/// What code does, in the order in which it stands there.
#[derive(Debug)]
pub(crate) enum Deed {
    /// Something that is judged as it is.
    Found(Box<Finding>),
    /// A command, in a directory if that is known.
    Starts(Started, Span, Option<Field>),
}

/// What code does.
#[derive(Debug, Default)]
pub(crate) struct Analysis {
    pub(crate) deeds: Vec<Deed>,
    /// It changes its directory, so that nobody knows what a relative path means.
    pub(crate) moves: bool,
    /// It does more than is looked at.
    pub(crate) more: bool,
}

/// Reads code.
pub(crate) fn analyse(code: &str) -> Result<Analysis, PythonError> {
    if code.len() > LONGEST {
        return Err(PythonError::at("", 0, TOO_LONG.to_owned()));
    }
    if is_too_deep(code) {
        return Err(PythonError::at(code, 0, "nested too deep".to_owned()));
    }
    let parsed = parse_module(code).map_err(|error| {
        PythonError::at(code, error.location.start().to_usize(), error.error.to_string())
    })?;
    Ok(calls::deeds(parsed.suite()))
}

fn span(node: &impl Ranged) -> Span {
    let range = node.range();
    Span { start: range.start().to_usize(), end: range.end().to_usize() }
}

impl Finding {
    fn at(mut self, node: &impl Ranged) -> Self {
        self.span = Some(span(node));
        self
    }
}

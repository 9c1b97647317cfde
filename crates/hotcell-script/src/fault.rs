//! What is wrong with a text, and where.

use oxc_diagnostics::OxcDiagnostic;

/// How much of a line is shown.
const MOST_SHOWN: usize = 160;

/// A text that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub message: String,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The line itself, with a mark below.
    pub shown: String,
}

impl Fault {
    /// The first of what was found in a text.
    pub(crate) fn first(text: &str, found: &[OxcDiagnostic]) -> Option<Self> {
        let found = found.first()?;
        let mut message = found.message.to_string();
        if let Some(help) = &found.help {
            message = format!("{message}; {help}");
        }
        // What is told of two places is wrong at the later one.
        let Some(label) = found.labels.iter().max_by_key(|label| label.offset()) else {
            return Some(Self { message, line: None, shown: String::new() });
        };
        let at = (label.offset() as usize).min(text.len());
        let before = text.get(..at).unwrap_or(text);
        let begin = before.rfind('\n').map_or(0, |end| end + 1);
        let line = before.matches('\n').count() + 1;
        let whole = text[begin..].lines().next().unwrap_or_default();
        let column = before[begin..].chars().count();
        Some(Self { message, line: u32::try_from(line).ok(), shown: marked(whole, column) })
    }

    /// As an error is told.
    #[must_use]
    pub fn traceback(&self) -> String {
        match self.line {
            Some(line) => format!("<code>:{line}\n{}\nSyntaxError: {}", self.shown, self.message),
            None => format!("SyntaxError: {}", self.message),
        }
    }
}

/// A line and a mark below the column; of a long line what is around it.
fn marked(line: &str, column: usize) -> String {
    let from = column.saturating_sub(MOST_SHOWN / 2);
    let part: String = line.chars().skip(from).take(MOST_SHOWN).collect();
    format!("    {part}\n    {}^", " ".repeat(column - from))
}

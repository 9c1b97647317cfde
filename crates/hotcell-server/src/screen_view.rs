//! A terminal's screen as it is shown to callers.

use hotcell_model::{CursorPlace, TerminalScreen};
use schemars::JsonSchema;
use serde::Serialize;

/// The screen of a terminal.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Screen")]
pub(crate) struct ScreenView {
    /// Rows from the top, without trailing blanks and without empty rows at the bottom.
    rows: Vec<String>,
    /// Counted from 0.
    cursor: CursorPlace,
    /// The title that the program set.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Whether a full-screen program has switched to the alternate screen.
    alternate_screen: bool,
    /// Rows and columns.
    size: [u16; 2],
    /// Earlier output is missing: parts of the screen may be wrong.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    partial: bool,
}

impl From<TerminalScreen> for ScreenView {
    fn from(screen: TerminalScreen) -> Self {
        Self {
            rows: screen.rows,
            cursor: screen.cursor,
            title: screen.title,
            alternate_screen: screen.alternate,
            size: [screen.size.rows, screen.size.cols],
            partial: screen.partial,
        }
    }
}

impl ScreenView {
    /// The screen as text: a line about it, then its rows.
    pub(crate) fn text(&self) -> String {
        let [rows, cols] = self.size;
        let CursorPlace { row, col } = self.cursor;
        let mut text = format!("[screen {rows}x{cols}, cursor at row {row}, col {col}");
        if self.alternate_screen {
            text.push_str(", alternate screen");
        }
        if let Some(title) = &self.title {
            text.push_str(&format!(", title {title:?}"));
        }
        if self.partial {
            text.push_str(", earlier output is missing");
        }
        text.push_str("]\n");
        for row in &self.rows {
            text.push_str(row);
            text.push('\n');
        }
        text
    }
}

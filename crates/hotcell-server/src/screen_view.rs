//! A terminal's screen as it is shown to callers.

use hotcell_model::{CursorPlace, Highlight, TerminalScreen, TerminalSize};
use schemars::JsonSchema;
use serde::Serialize;

use crate::quoted::quoted;

/// The screen of a terminal.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Screen")]
pub(crate) struct ScreenView {
    /// Rows from the top, without trailing blanks and without empty rows at the bottom.
    rows: Vec<String>,
    /// Counted from 0; left out while the program hides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<CursorPlace>,
    /// Text in reverse video or on another background, such as the selected item of a menu.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    highlighted: Vec<Highlight>,
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
    /// Rows and columns that are shown of a larger screen.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_to: Option<[u16; 2]>,
}

fn pair(size: TerminalSize) -> [u16; 2] {
    [size.rows, size.cols]
}

impl From<TerminalScreen> for ScreenView {
    fn from(screen: TerminalScreen) -> Self {
        Self {
            rows: screen.rows,
            cursor: screen.cursor,
            highlighted: screen.highlighted,
            title: screen.title,
            alternate_screen: screen.alternate,
            size: pair(screen.size),
            partial: screen.partial,
            cut_to: screen.cut_to.map(pair),
        }
    }
}

impl ScreenView {
    /// The screen as text: a line about it, then its rows.
    pub(crate) fn text(&self) -> String {
        let [rows, cols] = self.size;
        let mut text = format!("[screen {rows}x{cols}");
        match self.cursor {
            Some(CursorPlace { row, col }) => {
                text.push_str(&format!(", cursor at row {row}, col {col}"));
            }
            None => text.push_str(", cursor hidden"),
        }
        if self.alternate_screen {
            text.push_str(", alternate screen");
        }
        if let Some(title) = &self.title {
            text.push_str(&format!(", title {}", quoted(title)));
        }
        if let Some([rows, cols]) = self.cut_to {
            text.push_str(&format!(", cut to {rows}x{cols}"));
        }
        if self.partial {
            text.push_str(", earlier output is missing");
        }
        text.push_str("]\n");
        for row in &self.rows {
            text.push_str(row);
            text.push('\n');
        }
        let marks = self.highlighted.iter();
        let marks = marks.map(|mark| format!("row {} {}", mark.row, quoted(&mark.text)));
        let marks: Vec<String> = marks.collect();
        if !marks.is_empty() {
            text.push_str(&format!("[highlighted: {}]\n", marks.join(", ")));
        }
        text
    }
}

#[cfg(test)]
#[path = "screen_view_tests.rs"]
mod tests;

//! A terminal emulator of bounded size: bytes in, a screen out.

use std::num::NonZeroU16;

use hotcell_model::{CursorPlace, TerminalScreen, TerminalSize};
use vt100::{Callbacks, Parser, Screen};

use crate::key_names::CursorKeys;
use crate::screen_highlight::{HighlightedSpan, highlighted};

/// The largest screen that is rendered; a larger one is cut. About 8 MB of memory.
const MOST_ROWS: u16 = 200;
const MOST_COLS: u16 = 500;
/// The longest title that is kept, in characters.
const MOST_TITLE: usize = 200;

/// One terminal.
pub(crate) struct Emulator {
    parser: Parser<Title>,
    /// The size that it was given, also where that is more than is rendered.
    size: TerminalSize,
    /// The beginning of a character whose rest is yet to come.
    begun: Vec<u8>,
}

/// A row, and whether its text goes on in the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScreenRow {
    pub(crate) text: String,
    pub(crate) goes_on: bool,
}

/// The title that a program gave the terminal.
#[derive(Default)]
struct Title(Option<String>);

impl Callbacks for Title {
    fn set_window_title(&mut self, _: &mut Screen, title: &[u8]) {
        let text = String::from_utf8_lossy(title);
        let shown: String =
            text.chars().filter(|character| !character.is_control()).take(MOST_TITLE).collect();
        self.0 = (!shown.is_empty()).then_some(shown);
    }
}

impl Emulator {
    pub(crate) fn new(size: TerminalSize) -> Self {
        let (rows, cols) = rendered(size);
        let parser = Parser::new_with_callbacks(rows, cols, 0, Title::default());
        Self { parser, size, begun: Vec::new() }
    }

    /// Takes bytes that the program printed. They may be split anywhere.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut rest = all.as_slice();
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(text) => return self.print(text),
                Err(error) => error,
            };
            let (valid, after) = rest.split_at(error.valid_up_to());
            self.print(&String::from_utf8_lossy(valid));
            let Some(length) = error.error_len() else {
                self.begun = after.to_vec();
                return;
            };
            self.print("\u{fffd}");
            rest = &after[length..];
        }
    }

    /// One character at a time: the parser takes invalid and split ones differently when they come
    /// together with others.
    fn print(&mut self, text: &str) {
        let mut buffer = [0; 4];
        for character in text.chars() {
            self.parser.process(character.encode_utf8(&mut buffer).as_bytes());
        }
    }

    /// Changes the size, as the terminal of the program was.
    pub(crate) fn resize(&mut self, size: TerminalSize) {
        let (rows, cols) = rendered(size);
        self.parser.set_size(rows, cols);
        self.size = size;
    }

    /// What its cursor keys send.
    pub(crate) fn cursor_keys(&self) -> CursorKeys {
        match self.parser.screen().application_cursor() {
            true => CursorKeys::Application,
            false => CursorKeys::Normal,
        }
    }

    /// Its rows, with all their blanks.
    pub(crate) fn rows(&self) -> Vec<ScreenRow> {
        let screen = self.parser.screen();
        let (_, cols) = screen.size();
        // A program that wraps lines itself fills the row: nothing says so.
        let is_full = |row| {
            screen
                .cell(row, cols.get() - 1)
                .is_some_and(|cell| cell.has_contents() || cell.is_wide_continuation())
        };
        let texts = screen.rows(0, cols.get());
        (0..).zip(texts).map(|(row, text)| ScreenRow { text, goes_on: is_full(row) }).collect()
    }

    /// What stands out on its screen.
    pub(crate) fn highlighted(&self) -> Vec<HighlightedSpan> {
        highlighted(self.parser.screen())
    }

    /// Its screen with these texts as rows, without what stands out.
    pub(crate) fn screen(&self, rows: Vec<String>) -> TerminalScreen {
        let screen = self.parser.screen();
        let (row, col) = screen.cursor_position();
        let (rendered_rows, rendered_cols) = rendered(self.size);
        let cut_to = TerminalSize { rows: rendered_rows.get(), cols: rendered_cols.get() };
        TerminalScreen {
            rows: trimmed(rows),
            cursor: (!screen.hide_cursor()).then_some(CursorPlace { row, col }),
            highlighted: Vec::new(),
            title: self.parser.callbacks().0.clone(),
            alternate: screen.alternate_screen(),
            size: self.size,
            partial: false,
            cut_to: (cut_to.rows < self.size.rows || cut_to.cols < self.size.cols)
                .then_some(cut_to),
        }
    }
}

/// Rows without blanks at their ends, and without empty ones at the bottom.
pub(crate) fn trimmed(mut rows: Vec<String>) -> Vec<String> {
    rows.iter_mut().for_each(|row| row.truncate(row.trim_end().len()));
    while rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    rows
}

fn rendered(size: TerminalSize) -> (NonZeroU16, NonZeroU16) {
    let bounded =
        |value: u16, most: u16| NonZeroU16::new(value.min(most)).unwrap_or(NonZeroU16::MIN);
    (bounded(size.rows, MOST_ROWS), bounded(size.cols, MOST_COLS))
}

impl Emulator {
    /// The line that the cursor is in, over all rows that it fills.
    pub(crate) fn cursor_line(&self) -> String {
        let rows = self.rows();
        let at = usize::from(self.parser.screen().cursor_position().0).min(rows.len() - 1);
        let start = rows[..at].iter().rposition(|row| !row.goes_on).map_or(0, |before| before + 1);
        let last = (at..rows.len()).find(|row| !rows[*row].goes_on).unwrap_or(rows.len() - 1);
        rows[start..=last].iter().map(|row| row.text.as_str()).collect()
    }
}

/// The text of the last line of output, as a terminal shows it.
pub(crate) fn last_line(bytes: &[u8]) -> String {
    let start = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut emulator = Emulator::new(TerminalSize { rows: 2, cols: MOST_COLS });
    emulator.feed(&bytes[start..]);
    let rows = emulator.rows();
    let row = usize::from(emulator.parser.screen().cursor_position().0);
    rows.into_iter().nth(row).map(|row| row.text).unwrap_or_default()
}

#[cfg(test)]
#[path = "emulator_tests.rs"]
mod tests;

//! Finds what a screen highlights: text in reverse video, or on a background that few cells have.

use std::collections::HashMap;

use hotcell_model::Highlight;
use vt100::{Cell, Color, Screen};

use crate::emulator::ScreenRow;
use crate::glass::Glass;

/// How many highlighted texts are returned.
const MOST_HIGHLIGHTS: usize = 24;
/// The longest of them, in characters.
const MOST_CHARS: usize = 120;
/// A background on more than this part of the screen belongs to a window, not to a highlight.
const WINDOW_PART: usize = 8;

/// What cells look like behind their text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Backdrop {
    inverse: bool,
    color: (u8, u8, u8, u8),
}

impl Backdrop {
    fn of(cell: &Cell) -> Self {
        let color = match cell.bgcolor() {
            Color::Default => (0, 0, 0, 0),
            Color::Idx(index) => (1, index, 0, 0),
            Color::Rgb(red, green, blue) => (2, red, green, blue),
        };
        Self { inverse: cell.inverse(), color }
    }
}

/// A highlighted text and where it starts in the text of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HighlightedSpan {
    shown: Highlight,
    start: usize,
}

/// The highlighted texts of a screen, from the top.
pub(crate) fn highlighted(screen: &Screen) -> Vec<HighlightedSpan> {
    let (rows, cols) = (screen.size().0.get(), screen.size().1.get());
    let mut counts: HashMap<Backdrop, usize> = HashMap::new();
    let cells = (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col)));
    for cell in cells.filter_map(|(row, col)| screen.cell(row, col)) {
        *counts.entry(Backdrop::of(cell)).or_default() += 1;
    }
    let usual = counts.iter().max_by_key(|(_, count)| **count).map(|(usual, _)| *usual);
    let all = usize::from(rows) * usize::from(cols);
    let most = (all / WINDOW_PART).max(2 * usize::from(cols));
    let stands_out = |cell: &Cell| {
        let backdrop = Backdrop::of(cell);
        let is_rare = counts.get(&backdrop).is_some_and(|count| *count <= most);
        (Some(backdrop) != usual && (backdrop.inverse || is_rare)).then_some(backdrop)
    };
    let mut spans = Vec::new();
    for row in 0..rows {
        let mut at = 0;
        let mut open: Option<(Backdrop, HighlightedSpan)> = None;
        for col in 0..cols {
            let Some(cell) = screen.cell(row, col).filter(|cell| !cell.is_wide_continuation())
            else {
                continue;
            };
            let text = if cell.has_contents() { cell.contents() } else { " " };
            let backdrop = stands_out(cell);
            if open.as_ref().map(|(backdrop, _)| *backdrop) != backdrop {
                spans.extend(open.take().map(|(_, span)| span));
                let shown = Highlight { row, col, text: String::new() };
                open = backdrop.map(|backdrop| (backdrop, HighlightedSpan { shown, start: at }));
            }
            if let Some((_, span)) = &mut open {
                span.shown.text.push_str(text);
            }
            at += text.len();
        }
        spans.extend(open.map(|(_, span)| span));
    }
    spans.iter_mut().for_each(HighlightedSpan::trim);
    spans.retain(|span| !span.shown.text.is_empty());
    spans.truncate(MOST_HIGHLIGHTS);
    spans
}

impl HighlightedSpan {
    fn trim(&mut self) {
        let text = self.shown.text.trim_end();
        let blanks = text.len() - text.trim_start().len();
        self.start += blanks;
        self.shown.col = self.shown.col.saturating_add(u16::try_from(blanks).unwrap_or(u16::MAX));
        self.shown.text = text.trim_start().to_owned();
    }

    /// The text as it is shown through `glass`, with all that the screen shows around it.
    pub(crate) fn shown(self, rows: &[ScreenRow], glass: Option<&Glass>) -> Highlight {
        let Self { mut shown, start } = self;
        if let Some(glass) = glass {
            let place = usize::from(shown.row);
            let joined = |rows: &[ScreenRow]| -> String {
                let end = |row: &ScreenRow| if row.goes_on { "" } else { "\n" };
                rows.iter().map(|row| row.text.clone() + end(row)).collect()
            };
            let row = rows.get(place).map_or("", |row| row.text.as_str());
            let end = start.saturating_add(shown.text.len());
            let before = joined(rows.get(..place).unwrap_or_default());
            let before = before + row.get(..start).unwrap_or_default();
            let goes_on = rows.get(place).is_some_and(|row| row.goes_on);
            let rest = row.get(end..).unwrap_or_default();
            let after = rest.to_owned() + if goes_on { "" } else { "\n" };
            let after = after + &joined(rows.get(place + 1..).unwrap_or_default());
            let part = glass.part(before.as_bytes(), shown.text.as_bytes(), after.as_bytes());
            shown.text = String::from_utf8_lossy(&part).into_owned();
        }
        if let Some((end, _)) = shown.text.char_indices().nth(MOST_CHARS) {
            shown.text.truncate(end);
            shown.text.push('…');
        }
        shown
    }
}

#[cfg(test)]
#[path = "screen_highlight_tests.rs"]
mod tests;

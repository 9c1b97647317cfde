//! A table of text: its columns, what they hold, how many rows, the first and the last of them.

use crate::parts::Text;
use crate::pieces::{TailShare, beginning, fit, truncated};
use crate::tokens::estimate_tokens;

/// Rows that the types of columns are told by.
const ROWS_LOOKED_AT: usize = 200;
/// Columns that are named.
const MOST_COLUMNS: usize = 200;

/// What stands between the columns, if lines are rows of a table.
pub(crate) fn delimiter_of(lines: &[&str]) -> Option<char> {
    let lines = &lines[..lines.len().min(20)];
    if lines.len() < 3 {
        return None;
    }
    ['\t', ',', ';', '|'].into_iter().find(|delimiter| {
        let columns = cells(lines[0], *delimiter).len();
        columns > 1 && lines.iter().all(|line| cells(line, *delimiter).len() == columns)
    })
}

/// The cells of a row; a delimiter in quotes does not count.
fn cells(line: &str, delimiter: char) -> Vec<&str> {
    let mut cells = Vec::new();
    let (mut start, mut quoted) = (0, false);
    for (at, letter) in line.char_indices() {
        if letter == '"' {
            quoted = !quoted;
        } else if letter == delimiter && !quoted {
            cells.push(&line[start..at]);
            start = at + 1;
        }
    }
    cells.push(&line[start..]);
    cells
}

pub(crate) fn summarised(text: &Text<'_>, delimiter: char, room: usize) -> String {
    let mut lines = text.head.lines();
    let names = cells(lines.next().unwrap_or_default(), delimiter);
    let mut types = vec![Column::default(); names.len().min(MOST_COLUMNS)];
    for line in lines.take(ROWS_LOOKED_AT) {
        for (column, cell) in types.iter_mut().zip(cells(line, delimiter)) {
            column.see(cell.trim().trim_matches('"'));
        }
    }
    let rows = text.total_lines.saturating_sub(1);
    let count = names.len();
    let columns: Vec<String> = names
        .iter()
        .zip(&types)
        .map(|(name, column)| {
            format!("{} {}", beginning(name.trim().trim_matches('"'), 16), column.name())
        })
        .collect();
    let columns = columns.join(", ");
    fit(room, |room| {
        let columns = beginning(&columns, room / 2);
        let head = format!("table: {rows} rows below the first line, {count} columns: {columns}\n");
        let rest = room.saturating_sub(estimate_tokens(&head));
        format!("{head}{}", truncated(text, rest, TailShare::Half))
    })
}

/// What the cells of a column have been so far.
#[derive(Debug, Clone, Copy, Default)]
struct Column {
    integers: usize,
    numbers: usize,
    empty: usize,
    texts: usize,
}

impl Column {
    fn see(&mut self, cell: &str) {
        if cell.is_empty() {
            self.empty += 1;
        } else if cell.parse::<i64>().is_ok() {
            self.integers += 1;
        } else if cell.parse::<f64>().is_ok() {
            self.numbers += 1;
        } else {
            self.texts += 1;
        }
    }

    fn name(&self) -> &'static str {
        match (self.texts, self.numbers, self.integers, self.empty) {
            (0, 0, 0, _) => "(empty)",
            (0, 0, _, 0) => "integer",
            (0, 0, _, _) => "integer or empty",
            (0, _, _, 0) => "number",
            (0, _, _, _) => "number or empty",
            (_, _, _, 0) => "text",
            (_, _, _, _) => "text or empty",
        }
    }
}

//! What was measured, as one table.

use std::io::{self, Write};
use std::time::Duration;

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) value: String,
    pub(crate) spread: String,
    pub(crate) ratio: String,
    pub(crate) promise: &'static str,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            value: value.into(),
            spread: String::new(),
            ratio: String::new(),
            promise: "",
        }
    }

    pub(crate) fn spread(mut self, spread: impl Into<String>) -> Self {
        self.spread = spread.into();
        self
    }

    pub(crate) fn ratio(mut self, ratio: impl Into<String>) -> Self {
        self.ratio = ratio.into();
        self
    }

    pub(crate) fn promise(mut self, promise: &'static str) -> Self {
        self.promise = promise;
        self
    }
}

/// Prints the rows below a title, as Markdown that reads well unrendered too.
pub(crate) fn print(out: &mut impl Write, title: &str, rows: &[Row]) -> io::Result<()> {
    let head = Row::new("what", "p50").spread("min, p99").ratio("ratio").promise("promise");
    let cells = |row: &Row| {
        [
            row.what.clone(),
            row.value.clone(),
            row.spread.clone(),
            row.ratio.clone(),
            row.promise.to_owned(),
        ]
    };
    let all: Vec<[String; 5]> = std::iter::once(&head).chain(rows).map(cells).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..5).map(|column| width(column).unwrap_or(0)).collect();
    writeln!(out, "\n{title}\n")?;
    for (number, row) in all.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            write!(out, "| {cell:width$} ")?;
        }
        writeln!(out, "|")?;
        if number == 0 {
            for width in &widths {
                write!(out, "|{}", "-".repeat(width + 2))?;
            }
            writeln!(out, "|")?;
        }
    }
    out.flush()
}

/// A duration as people read it.
pub(crate) fn time(duration: Duration) -> String {
    let ms = duration.as_secs_f64() * 1000.0;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

/// Bytes as people read them.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}

/// Fewer bytes.
pub(crate) fn kilobytes(bytes: u64) -> String {
    format!("{:.1} kB", bytes as f64 / 1e3)
}

/// A ratio to something.
pub(crate) fn times(ratio: f64, of: &str) -> String {
    format!("{ratio:.2} × {of}")
}

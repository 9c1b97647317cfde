//! How data is printed: aligned tables for people, JSON for programs.

use std::io::{self, Write};
use std::time::Duration;

use hotcell_model::{EndCause, Exec, Timestamp};
use serde::Serialize;

use crate::errors::Failure;
use crate::values::short;

/// Rows with a head, aligned in columns.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads.
    pub(crate) fn new<const N: usize>(head: [&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned).to_vec()] }
    }

    /// The same with one more column, after the first.
    pub(crate) fn with_column(
        mut self,
        head: &str,
        values: impl IntoIterator<Item = String>,
    ) -> Self {
        let values = std::iter::once(head.to_owned()).chain(values);
        for (row, value) in self.rows.iter_mut().zip(values) {
            row.insert(1, value);
        }
        self
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:<width$}  "));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Writes data to standard output, all of it or a failure.
pub(crate) fn print(data: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(data.as_ref()).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Writes one JSON value on a line of its own.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(json_line(value)?)
}

/// One JSON value and a newline.
pub(crate) fn json_line(value: &impl Serialize) -> Result<String, Failure> {
    let mut line =
        serde_json::to_string(value).map_err(|error| Failure::Output(io::Error::other(error)))?;
    line.push('\n');
    Ok(line)
}

/// Says something to the person at the terminal.
pub(crate) fn note(text: &str) {
    // In one write, so that nothing comes between. A note that cannot be written has no other
    // reader.
    let _ = io::stderr().write_all(format!("note: {text}\n").as_bytes());
}

/// Text on one line, without control characters, cut to a length.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for (at, char) in text.chars().enumerate() {
        if at == most {
            shown.push('…');
            break;
        }
        match char {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            other if other.is_control() => shown.extend(other.escape_unicode()),
            other => shown.push(other),
        }
    }
    shown
}

/// A line without what a terminal would act upon.
pub(crate) fn harmless(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for char in line.trim_end_matches('\r').chars() {
        match char {
            '\t' => shown.push(char),
            other if other.is_control() => shown.extend(other.escape_unicode()),
            other => shown.push(other),
        }
    }
    shown
}

/// A value or a dash.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Where an exec stands, in a word or two.
pub(crate) fn standing(exec: &Exec) -> String {
    let Some(end) = &exec.end else {
        let awaits = if exec.awaits_approval() { " (approval)" } else { "" };
        return format!("{}{awaits}", exec.state.as_str());
    };
    match (end.cause, end.exit_code, end.signal) {
        (EndCause::Exited, Some(code), _) => format!("exited {code}"),
        (EndCause::Signaled, _, Some(signal)) => format!("signaled {signal}"),
        (
            EndCause::Exited
            | EndCause::Signaled
            | EndCause::TimedOut
            | EndCause::Cancelled
            | EndCause::OomKilled
            | EndCause::Lost
            | EndCause::Denied,
            _,
            _,
        ) => end.cause.as_str().to_owned(),
    }
}

/// How long an exec has run, or ran.
pub(crate) fn running_time(exec: &Exec, now: Timestamp) -> Option<Duration> {
    let started = exec.started_at?;
    match &exec.end {
        Some(end) => Some(Duration::from_millis(end.usage.wall_ms)),
        None => Some(started.until(now)),
    }
}

/// A table of execs.
pub(crate) fn exec_table(execs: &[Exec], now: Timestamp) -> Table {
    let mut table = Table::new(["EXEC", "CELL", "STATE", "AGE", "TIME", "COMMAND"]);
    for exec in execs {
        table.row([
            exec.id.to_string(),
            exec.cell.to_string(),
            standing(exec),
            short(exec.queued_at.until(now)),
            or_dash(running_time(exec, now).map(short)),
            one_line(&exec.command.to_string(), 72),
        ]);
    }
    table
}

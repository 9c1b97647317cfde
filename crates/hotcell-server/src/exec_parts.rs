//! The parts of a command as callers of every front give them.

use hotcell_model::{Command, Error, Result, Stdin, TerminalSize};

/// What to run: shell text, or a program and its arguments.
pub(crate) fn command(text: Option<String>, argv: Option<Vec<String>>) -> Result<Command> {
    let refused = |message: &str| {
        Err(Error::invalid(message)
            .hint("give shell text as command, or a program and its arguments as argv"))
    };
    match (text, argv) {
        (Some(text), None) => Ok(Command::Shell(text)),
        (None, Some(words)) => Ok(Command::Argv(words)),
        (Some(_), Some(_)) => refused("both command and argv were given"),
        (None, None) => refused("there is nothing to run: neither command nor argv was given"),
    }
}

/// What it reads: nothing, a text up to its end, or what is sent later.
pub(crate) fn stdin(text: Option<String>, stays_open: bool) -> Result<Stdin> {
    match (text, stays_open) {
        (None, false) => Ok(Stdin::Empty),
        (None, true) => Ok(Stdin::Open),
        (Some(text), false) => Ok(Stdin::Text(text)),
        (Some(_), true) => Err(Error::invalid(
            "stdin has a text, and stdin_open or pty keeps it open",
        )
        .hint("leave stdin out and send its text as input later, or leave stdin_open and pty out")),
    }
}

/// A terminal of this size, where one is given at all.
pub(crate) fn terminal_size(rows: Option<u16>, cols: Option<u16>) -> Option<TerminalSize> {
    let usual = TerminalSize::default();
    (rows.is_some() || cols.is_some()).then(|| TerminalSize {
        rows: rows.unwrap_or(usual.rows),
        cols: cols.unwrap_or(usual.cols),
    })
}

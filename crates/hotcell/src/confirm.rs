//! Asks the person at the terminal a yes-or-no question.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::terminal;

/// The person's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
}

/// Whether there is a person to ask: both standard input and standard error are a terminal.
pub(crate) fn is_possible() -> bool {
    terminal::is_ours() && io::stderr().is_terminal()
}

/// Asks; anything but y or yes is a no.
///
/// # Errors
/// The terminal cannot be written or read.
pub(crate) fn ask(question: &str) -> io::Result<Answer> {
    let mut screen = io::stderr();
    screen.write_all(question.as_bytes())?;
    screen.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    if !line.ends_with('\n') {
        screen.write_all(b"\n")?;
    }
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(Answer::Yes),
        _ => Ok(Answer::No),
    }
}

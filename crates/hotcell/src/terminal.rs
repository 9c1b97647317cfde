//! The local terminal: its size, and raw mode that is always left again.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, Once, PoisonError};

use hotcell_model::TerminalSize;
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// How the terminal was before raw mode; where a panic finds it too.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Whether our standard input is a terminal.
pub(crate) fn is_ours() -> bool {
    io::stdin().is_terminal()
}

/// The size of the terminal on our standard input, if there is one that knows its size.
pub(crate) fn size() -> Option<TerminalSize> {
    let size = tcgetwinsize(stdin()).ok()?;
    let known = size.ws_row > 0 && size.ws_col > 0;
    known.then_some(TerminalSize { rows: size.ws_row, cols: size.ws_col })
}

/// How many columns the terminal on our standard output has, if it is one that knows.
pub(crate) fn columns() -> Option<usize> {
    let size = tcgetwinsize(stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// The terminal in raw mode, for as long as this exists.
#[derive(Debug)]
pub(crate) struct RawTerminal;

impl RawTerminal {
    /// Puts the terminal on our standard input into raw mode.
    ///
    /// # Errors
    /// Those of the terminal; it is then as it was.
    pub(crate) fn enter() -> io::Result<Self> {
        restore_on_panic();
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let entered = Self;
        tcsetattr(stdin(), OptionalActions::Now, &raw)?;
        Ok(entered)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        // A terminal that is gone needs no restoring.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}

/// The message of a panic is readable only on a terminal that was restored before it.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            report(info);
        }));
    });
}

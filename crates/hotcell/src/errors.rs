//! Failures of the command line, and the one place where they become exit codes.

use std::io::{self, Write};

use hotcell_model::{EndCause, Error, ExecEnd};

use crate::signals::LocalSignal;

/// Why a command could not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The engine, the configuration or the state directory said no.
    Refused(Error),
    /// Our standard output could not be written.
    Output(io::Error),
    /// The terminal or our standard input failed us.
    Terminal(io::Error),
    /// A signal told us to leave.
    ToldToLeave(LocalSignal),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// What an exit code tells of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codes {
    /// Only how the command of Hotcell went.
    Own,
    /// How a command in a cell ended, so that a failure of ours needs a code of its own.
    OfTheExec,
}

/// Hotcell's own failure in a command whose exit code is that of an exec.
pub(crate) const OWN_FAILURE: u8 = 125;
/// As a shell shows a command that is not there.
pub(crate) const NOT_FOUND: u8 = 127;
/// As a shell shows a process that wrote to a closed pipe.
const CLOSED_PIPE: u8 = 128 + 13;

impl Failure {
    /// The exit code with which it ends the process.
    pub(crate) fn exit_code(&self, codes: Codes) -> u8 {
        match (self, codes) {
            (Self::Output(error), _) if error.kind() == io::ErrorKind::BrokenPipe => CLOSED_PIPE,
            (Self::ToldToLeave(signal), _) => signal.exit_code(),
            (Self::Refused(_) | Self::Output(_) | Self::Terminal(_), Codes::OfTheExec) => {
                OWN_FAILURE
            }
            (Self::Refused(error), Codes::Own) => error.code.exit_code(),
            (Self::Output(_) | Self::Terminal(_), Codes::Own) => 1,
        }
    }

    /// Says it to a person; a reader that went away needs no words.
    pub(crate) fn tell(&self, to: &mut dyn Write) {
        // There is nowhere left to say that stderr is gone.
        let _ = match self {
            Self::Refused(error) => tell_error(error, to),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Self::Output(error) => {
                writeln!(to, "error: cannot write to standard output: {error}")
            }
            Self::Terminal(error) => writeln!(to, "error: the terminal failed: {error}"),
            Self::ToldToLeave(_) => Ok(()),
        };
    }
}

fn tell_error(error: &Error, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "error: {}", error.message)?;
    match &error.hint {
        Some(hint) => writeln!(to, "hint: {}", in_flags(hint)),
        None => Ok(()),
    }
}

/// What the hints of a cell's files call by the names of arguments, and people otherwise.
const FLAGS: [(&str, &str); 5] = [
    ("replace_all", "--all"),
    ("pass literal", "pass --literal"),
    ("a command with as_root", "`hotcell run --as-root`"),
    ("delete it with recursive", "delete it by a command, for example rm -r"),
    ("leave it out by exclude", "leave it out"),
];

/// A hint in the words of the command line.
fn in_flags(hint: &str) -> String {
    FLAGS.iter().fold(hint.to_owned(), |hint, (argument, flag)| hint.replace(argument, flag))
}

/// The exit code that shows how an exec ended.
pub(crate) fn exec_code(end: &ExecEnd) -> u8 {
    match end.cause {
        EndCause::Exited => end.exit_code.map_or(OWN_FAILURE, |code| (code & 0xff) as u8),
        EndCause::Signaled => {
            end.signal.map_or(OWN_FAILURE, |signal| ((128 + signal.number()) & 0xff) as u8)
        }
        EndCause::TimedOut => 124,
        EndCause::Cancelled => 130,
        EndCause::OomKilled => 137,
        EndCause::Lost => OWN_FAILURE,
        // As a shell says of what may not be executed.
        EndCause::Denied => 126,
    }
}

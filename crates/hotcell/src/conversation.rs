//! A person and a running exec: output comes, input and signals go, until one of them leaves.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::time::Duration;

use hotcell_engine::{ExecEvent, ExecStream};
use hotcell_model::{
    CancelStatus, Error, ErrorCode, Exec, ExecCancel, ExecFollow, ExecId, ExecInput, Pace, Result,
    Signal,
};
use tokio::sync::oneshot;

use crate::errors::Failure;
use crate::printer::{Piece, Printer};
use crate::records::{Format, RecordPrinter};
use crate::session::Session;
use crate::signals::{LocalSignal, LocalSignals};
use crate::stdin::{self, LeaveKeys, Typed};
use crate::terminal::{self, RawTerminal};

/// How long a cell may take to answer to a signal before the person is told that it does not.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// What an exec gets between the request to end and the kill.
const GRACE_S: f64 = 5.0;

/// What becomes of our standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// It is not read.
    Unread,
    /// It goes to the exec, and its end too.
    Passed,
    /// It goes to the exec; its end means nothing.
    PassedWithoutEnd,
    /// It goes to the exec until the keys that leave are typed.
    Typed,
}

/// What our signals do to the exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The exec is ours, and its cell with it: it gets our signals and ends when we hang up.
    Owner,
    /// The exec is ours, the cell is not: it gets our signals and runs on when we hang up.
    Tenant,
    /// We only look on: signals end the looking.
    Visitor,
}

/// How a conversation ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The exec has ended and all its output was printed.
    Ended(Box<Exec>),
    /// We left first.
    Left(Leaving),
}

/// Why we left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// The person typed the keys for it.
    Keys,
    /// A signal told us to.
    Signal(LocalSignal),
    /// A signal told us to, after the end of the exec and before all its output was printed.
    Unprinted(LocalSignal),
}

/// Everything about one conversation.
#[derive(Debug)]
pub(crate) struct Conversation<'a> {
    /// The door to the engine.
    pub(crate) session: &'a Session,
    /// With whom.
    pub(crate) exec: Exec,
    /// The last seq that was already printed.
    pub(crate) after_seq: u64,
    /// What becomes of our standard input.
    pub(crate) input: Input,
    /// What our signals do.
    pub(crate) role: Role,
    /// How output is printed.
    pub(crate) format: Format,
    /// Our terminal, where it is the exec's for the time being.
    pub(crate) terminal: Option<RawTerminal>,
    /// Our signals, listened to since before anything was said of how to leave.
    pub(crate) signals: LocalSignals,
}

/// What our input came to.
#[derive(Debug)]
enum InputEnd {
    /// It is over, or the exec reads no more of it.
    Over,
    /// The exec never took any.
    Refused(Error),
    /// The person typed the keys that leave.
    Left,
}

impl Conversation<'_> {
    /// Talks until the exec ends or we leave. The terminal is restored when this returns.
    ///
    /// # Errors
    /// `Failure::Output` when our standard output fails; the exec is then left as it is.
    pub(crate) async fn hold(mut self) -> Result<Outcome, Failure> {
        let mut printer = Printer::start().map_err(Failure::Output)?;
        let pace = match self.role {
            Role::Owner | Role::Tenant => Pace::Follower,
            Role::Visitor => Pace::Free,
        };
        let follow = ExecFollow { exec: self.exec.id.clone(), after_seq: self.after_seq, pace };
        let mut stream = self.session.follow(follow).await?;
        let exec = self.exec.clone();
        let mut pump = pin!(pump(self.session, &exec, self.input));
        let mut pumping = true;
        let mut speech = Speech::new(self.format);
        let mut strikes = 0;
        let ended = loop {
            tokio::select! {
                biased;
                signal = self.signals.next() => {
                    if let Some(leaving) = self.react(signal, &mut strikes, &mut speech).await {
                        return Ok(Outcome::Left(leaving));
                    }
                }
                result = &mut printer.done => return Err(stopped(result)),
                permit = printer.pieces.reserve(), if speech.is_waiting() => {
                    // Without a permit the printer is gone, and `done` says why.
                    if let (Ok(permit), Some(piece)) = (permit, speech.waiting.pop_front()) {
                        permit.send(piece);
                    }
                }
                event = stream.next(), if !speech.is_waiting() => {
                    if let Some(exec) = speech.take(event?)? {
                        break exec;
                    }
                }
                end = &mut pump, if pumping => {
                    pumping = false;
                    match end? {
                        InputEnd::Over => {}
                        InputEnd::Left => return Ok(Outcome::Left(Leaving::Keys)),
                        InputEnd::Refused(error) => self.tell_refusal(&error, &mut speech),
                    }
                }
            }
        };
        speech.finish(&ended)?;
        speech.print_rest(printer, &mut self.signals).await?;
        Ok(Outcome::Ended(Box::new(ended)))
    }

    fn tell_refusal(&self, error: &Error, speech: &mut Speech) {
        match self.role {
            Role::Visitor => speech.note(&error.message),
            // The end of an exec that did not read all of its input is nothing to speak of.
            Role::Owner | Role::Tenant => tracing::debug!(%error, "input was not taken"),
        }
    }

    /// Does what a signal asks for.
    async fn react(
        &self,
        signal: LocalSignal,
        strikes: &mut u32,
        speech: &mut Speech,
    ) -> Option<Leaving> {
        let answer = match (signal, self.role) {
            (LocalSignal::Resize, _) => {
                if self.terminal.is_some() {
                    // An exec that cannot be resized now has bigger news to tell.
                    let _ = within(send_size(self.session, &self.exec.id)).await;
                }
                return None;
            }
            (LocalSignal::Interrupt | LocalSignal::Terminate, Role::Owner | Role::Tenant) => {
                *strikes += 1;
                match *strikes {
                    1 => within(self.forward(signal)).await,
                    2 => within(self.cancel(Signal::KILL, 0.0)).await,
                    _ => return Some(Leaving::Signal(signal)),
                }
            }
            (LocalSignal::HangUp, Role::Owner) => within(self.cancel(Signal::TERM, GRACE_S)).await,
            (LocalSignal::HangUp, Role::Tenant)
            | (
                LocalSignal::Interrupt | LocalSignal::Terminate | LocalSignal::HangUp,
                Role::Visitor,
            ) => return Some(Leaving::Signal(signal)),
        };
        match answer {
            Ok(CancelStatus::Cancelled) => None,
            Ok(CancelStatus::AlreadyEnded | CancelStatus::NotFound) => {
                Some(Leaving::Unprinted(signal))
            }
            // Nobody is there to try again: the exec ends with its cell, which goes when we do.
            Err(error) if signal == LocalSignal::HangUp => {
                tracing::debug!(%error, "an exec did not hear that its terminal hung up");
                Some(Leaving::Signal(signal))
            }
            Err(error) => {
                speech.note(&format!("the signal did not arrive: {}", error.message));
                None
            }
        }
    }

    async fn forward(&self, signal: LocalSignal) -> Result<CancelStatus> {
        let signal = match signal {
            LocalSignal::Interrupt => Signal::INT,
            LocalSignal::Terminate | LocalSignal::HangUp | LocalSignal::Resize => Signal::TERM,
        };
        let input = ExecInput { signal: Some(signal), ..ExecInput::to(self.exec.id.clone()) };
        match self.session.ask(input).await {
            Ok(_) => Ok(CancelStatus::Cancelled),
            // An exec that still waits in the queue has no process to signal, and one that has
            // ended has none any more.
            Err(error) if error.code == ErrorCode::Conflict => self.cancel(signal, GRACE_S).await,
            Err(error) => Err(error),
        }
    }

    async fn cancel(&self, signal: Signal, grace_s: f64) -> Result<CancelStatus> {
        let cancel = ExecCancel { exec: self.exec.id.clone(), signal, grace_s };
        self.session.ask(cancel).await.map(|cancelled| cancelled.status)
    }
}

/// What is to be printed and was not yet handed to the printer.
struct Speech {
    records: RecordPrinter,
    format: Format,
    waiting: VecDeque<Piece>,
}

impl Speech {
    fn new(format: Format) -> Self {
        Self { records: RecordPrinter::new(format), format, waiting: VecDeque::new() }
    }

    fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn note(&mut self, text: &str) {
        self.waiting.push_back(self.records.note(text));
    }

    /// Takes an event of the exec; the exec itself when that was the last one.
    fn take(&mut self, event: Option<ExecEvent>) -> Result<Option<Exec>, Failure> {
        match event {
            Some(ExecEvent::Record(record)) => self.waiting.extend(self.records.record(record)?),
            Some(ExecEvent::Dropped(dropped)) => {
                self.waiting.extend(self.records.dropped(dropped)?);
            }
            Some(ExecEvent::Ended(exec)) => return Ok(Some(exec)),
            None => return Err(Error::internal("the output ended before the exec").into()),
        }
        Ok(None)
    }

    fn finish(&mut self, exec: &Exec) -> Result<(), Failure> {
        self.waiting.extend(self.records.finish()?);
        if self.format == Format::Json {
            self.waiting.push_back(RecordPrinter::exec(exec)?);
        }
        Ok(())
    }

    /// Waits until everything is printed; a signal ends the waiting.
    async fn print_rest(self, printer: Printer, signals: &mut LocalSignals) -> Result<(), Failure> {
        let Printer { pieces, mut done } = printer;
        let send_rest = async {
            for piece in self.waiting {
                if pieces.send(piece).await.is_err() {
                    break;
                }
            }
            drop(pieces);
            (&mut done).await
        };
        let mut send_rest = pin!(send_rest);
        loop {
            tokio::select! {
                result = &mut send_rest => {
                    return match result {
                        Ok(Ok(())) => Ok(()),
                        failed => Err(stopped(failed)),
                    };
                }
                signal = signals.next() => match signal {
                    LocalSignal::Resize => {}
                    LocalSignal::Interrupt | LocalSignal::Terminate | LocalSignal::HangUp => {
                        return Ok(());
                    }
                },
            }
        }
    }
}

/// Why the printer stopped before it was told to.
fn stopped(result: Result<io::Result<()>, oneshot::error::RecvError>) -> Failure {
    match result {
        Ok(Err(error)) => Failure::Output(error),
        Ok(Ok(())) | Err(_) => Failure::Output(io::Error::other("the printer stopped")),
    }
}

async fn within<T>(answer: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(ANSWER_TIME, answer).await.unwrap_or_else(|_| {
        Err(Error::timeout(format!("the cell gave no answer for {} s", ANSWER_TIME.as_secs())))
    })
}

/// Tells an exec the size of our terminal, if that is known.
///
/// # Errors
/// What the engine says.
pub(crate) async fn send_size(session: &Session, exec: &ExecId) -> Result<()> {
    let Some(size) = terminal::size() else { return Ok(()) };
    let resize = ExecInput { size: Some(size), ..ExecInput::to(exec.clone()) };
    session.ask(resize).await.map(|_| ())
}

/// Sends what is read from our standard input to the exec, piece by piece.
async fn pump(session: &Session, exec: &Exec, input: Input) -> Result<InputEnd, Failure> {
    if input == Input::Unread {
        return Ok(InputEnd::Over);
    }
    let mut keys = LeaveKeys::default();
    let mut pieces = stdin::pieces().map_err(Failure::Terminal)?;
    while let Some(bytes) = pieces.recv().await {
        let typed = match input {
            Input::Typed => keys.take(&bytes),
            Input::Unread | Input::Passed | Input::PassedWithoutEnd => Typed::Input(bytes),
        };
        let (data, leaves) = match typed {
            Typed::Input(data) => (data, false),
            Typed::Leave(data) => (data, true),
        };
        if !data.is_empty() {
            let input = ExecInput { data, ..ExecInput::to(exec.id.clone()) };
            if let Err(error) = session.ask(input).await {
                return Ok(InputEnd::Refused(error));
            }
        }
        if leaves {
            return Ok(InputEnd::Left);
        }
    }
    match input {
        Input::Passed => {
            let end = ExecInput { eof: true, ..ExecInput::to(exec.id.clone()) };
            match session.ask(end).await {
                Ok(_) => Ok(InputEnd::Over),
                Err(error) => Ok(InputEnd::Refused(error)),
            }
        }
        Input::Unread | Input::PassedWithoutEnd | Input::Typed => Ok(InputEnd::Over),
    }
}

/// Follows an exec to its end without printing anything.
///
/// # Errors
/// What the engine says.
pub(crate) async fn wait_for_end(mut stream: ExecStream) -> Result<Exec> {
    loop {
        match stream.next().await? {
            Some(ExecEvent::Record(_) | ExecEvent::Dropped(_)) => {}
            Some(ExecEvent::Ended(exec)) => return Ok(exec),
            None => return Err(Error::internal("the output ended before the exec")),
        }
    }
}

//! What an answer shows of output.

use hotcell_model::{Dropped, Exec, ExecId, ExecPage, ExecResult, InputAccepted, Message, Record};
use schemars::JsonSchema;
use serde::Serialize;

use crate::screen_view::ScreenView;

/// An exec with its first output.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RunResult")]
pub(super) struct RunShown {
    exec: Exec,
    messages: Vec<Message>,
    /// What to read on after.
    next_seq: u64,
    /// Whether there is more output than `messages`.
    truncated: bool,
    /// The last line of its output, if it is blocked reading its input.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_for_input: Option<String>,
}

impl From<ExecResult> for RunShown {
    fn from(result: ExecResult) -> Self {
        Self {
            exec: result.exec,
            messages: messages(result.records),
            next_seq: result.next_seq,
            truncated: result.truncated,
            waiting_for_input: result.waiting_for_input,
        }
    }
}

/// Part of an exec's output.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OutputPage")]
pub(super) struct PageShown {
    exec: Exec,
    messages: Vec<Message>,
    /// What to read on after.
    next_seq: u64,
    /// Whether the exec has ended and there is nothing more to read.
    complete: bool,
    /// What is missing within this page because it was not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<Dropped>,
    /// The last line of its output, if it is blocked reading its input.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_for_input: Option<String>,
    /// Whether the pattern that was waited for was printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    matched: Option<bool>,
    /// The screen of its terminal, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    screen: Option<ScreenView>,
}

impl From<ExecPage> for PageShown {
    fn from(page: ExecPage) -> Self {
        Self {
            exec: page.exec,
            messages: messages(page.records),
            next_seq: page.next_seq,
            complete: page.complete,
            dropped: page.dropped,
            waiting_for_input: page.waiting_for_input,
            matched: page.matched,
            screen: page.screen.map(|screen| ScreenView::from(*screen)),
        }
    }
}

/// Input was taken.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "InputResult")]
pub(super) struct InputShown {
    /// By which exec.
    exec: ExecId,
    /// What came out after it, if that was to be waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<PageShown>,
}

impl From<InputAccepted> for InputShown {
    fn from(accepted: InputAccepted) -> Self {
        Self { exec: accepted.exec, output: accepted.output.map(Into::into) }
    }
}

fn messages(records: Vec<Record>) -> Vec<Message> {
    records.into_iter().map(message).collect()
}

/// A record as text.
pub(super) fn message(record: Record) -> Message {
    Message {
        seq: record.seq,
        stream: record.stream,
        data: String::from_utf8_lossy(&record.bytes).into_owned(),
        ts: record.ts,
    }
}

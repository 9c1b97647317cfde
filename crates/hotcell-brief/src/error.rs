//! An error within a budget: its type, the beginning of its message and the last line of its traceback stay.

use crate::parts::{ErrorPart, ShownError, Text};
use crate::pieces::{End, TailShare, beginning, cost_up_to, fits, piece, truncated};
use crate::tokens::estimate_tokens;

pub(crate) fn error_cost(error: &ErrorPart<'_>, limit: usize) -> usize {
    [error.kind, error.message, error.traceback].iter().map(|text| cost_up_to(text, limit)).sum()
}

pub(crate) fn error_bytes(error: &ErrorPart<'_>) -> u64 {
    (error.kind.len() + error.message.len() + error.traceback.len()) as u64
}

pub(crate) fn whole(error: &ErrorPart<'_>) -> ShownError {
    ShownError {
        kind: error.kind.to_owned(),
        message: error.message.to_owned(),
        traceback: error.traceback.to_owned(),
    }
}

pub(crate) fn show_error(error: &ErrorPart<'_>, room: usize) -> ShownError {
    let kind = beginning(error.kind, room / 4);
    let left = room.saturating_sub(estimate_tokens(&kind));
    let for_traceback = cost_up_to(error.traceback, left).min(left / 2);
    let message = message(error.message, left - for_traceback);
    let left = left.saturating_sub(estimate_tokens(&message));
    ShownError { kind, message, traceback: traceback(error.traceback, left) }
}

/// The beginning of a message, and its end where there is room for that.
fn message(text: &str, room: usize) -> String {
    if fits(text, room) {
        return text.to_owned();
    }
    if room < 48 {
        return beginning(text, room);
    }
    truncated(&Text::whole(text), room, TailShare::Half)
}

/// The beginning and the end of a traceback; its last line comes before all else.
fn traceback(text: &str, room: usize) -> String {
    if fits(text, room) {
        return text.to_owned();
    }
    let end = text.trim_end();
    let start = end.rfind('\n').map_or(0, |at| at + 1);
    let (before, last) = (&end[..start], &end[start..]);
    let last = beginning(last, room - room / 3);
    let left = room.saturating_sub(estimate_tokens(&last) + 2);
    let before = truncated(&Text::whole(before), left, TailShare::Most);
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let text = format!("{before}{gap}{last}");
    if estimate_tokens(&text) <= room { text } else { piece(&last, End::Head, room).to_owned() }
}

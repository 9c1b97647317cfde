//! A text that does not fit, made to fit by what it is.

use crate::brief::Strategy;
use crate::kind::{Kind, kind_of};
use crate::parts::{How, Text};
use crate::pieces::{TailShare, fit, truncated};
use crate::{log, sample, shape, table};

/// How many bytes of what is not text are shown.
const BYTES_SHOWN: usize = 16;

pub(crate) fn show_text(text: &Text<'_>, room: usize, strategy: Strategy) -> (String, How) {
    match strategy {
        Strategy::Truncate => (truncated(text, room, TailShare::Half), How::Truncated),
        Strategy::Sample => (sample::lines(text, room), How::Sampled),
        Strategy::Auto | Strategy::Summarise => match (kind_of(text), strategy) {
            (Kind::Json(value), _) => (shape::summarised(&value, room), How::Summarised),
            (Kind::JsonLines, _) => (shape::summarised_lines(text, room), How::Summarised),
            (Kind::Table(delimiter), _) => {
                (table::summarised(text, delimiter, room), How::Summarised)
            }
            (Kind::Log, _) => (log::summarised(text, room), How::Summarised),
            (Kind::Bytes, _) => (described_bytes(text, room), How::Summarised),
            (Kind::Plain, Strategy::Summarise) => (counted(text, room), How::Summarised),
            (Kind::Plain, Strategy::Auto | Strategy::Truncate | Strategy::Sample) => {
                (truncated(text, room, TailShare::Half), How::Truncated)
            }
        },
    }
}

fn counted(text: &Text<'_>, room: usize) -> String {
    let (lines, bytes) = (text.total_lines, text.total_bytes);
    let longest = text.head.lines().chain(text.tail.lines()).map(str::len).max().unwrap_or(0);
    let head = format!("text: {lines} lines, {bytes} bytes, longest line {longest} bytes\n");
    fit(room, |room| {
        let rest = room.saturating_sub(crate::tokens::estimate_tokens(&head));
        format!("{head}{}", truncated(text, rest, TailShare::Half))
    })
}

fn described_bytes(text: &Text<'_>, room: usize) -> String {
    let first: Vec<String> = text
        .head
        .chars()
        .take(BYTES_SHOWN)
        .map(|letter| match u32::from(letter) {
            0xfffd => "??".to_owned(),
            code => format!("{code:02x}"),
        })
        .collect();
    let bytes = text.total_bytes;
    let words = format!("no text: {bytes} bytes, the first are {} …", first.join(" "));
    fit(room, |_| words.clone())
}

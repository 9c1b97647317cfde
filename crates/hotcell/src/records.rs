//! Turns records of output into what is printed: raw bytes, or lines of JSON.

use hotcell_model::{Dropped, Exec, Message, Record, Stream, Timestamp};
use serde::Serialize;

use crate::errors::Failure;
use crate::printer::{Piece, Target};
use crate::show::json_line;
use crate::values;

/// How output is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// As it is.
    Raw,
    /// As it is, on a terminal in raw mode.
    RawTerminal,
    /// One JSON object a line.
    Json,
}

/// Output that was not kept, as a line of JSON.
#[derive(Debug, Serialize)]
struct DroppedLine {
    dropped: Dropped,
}

/// The exec after its output, as a line of JSON.
#[derive(Debug, Serialize)]
struct ExecLine<'a> {
    exec: &'a Exec,
}

/// What is left of a character that was split between two records.
#[derive(Debug, Default)]
struct Split {
    bytes: Vec<u8>,
    seq: u64,
    ts: Timestamp,
}

/// Prints one exec's output in order.
#[derive(Debug)]
pub(crate) struct RecordPrinter {
    format: Format,
    splits: Vec<(Stream, Split)>,
    gaps: u64,
    dropped_bytes: u64,
}

impl RecordPrinter {
    /// A printer at the beginning of an exec's output.
    pub(crate) fn new(format: Format) -> Self {
        Self { format, splits: Vec::new(), gaps: 0, dropped_bytes: 0 }
    }

    /// What to print for a record; nothing when all of it waits for the next one.
    pub(crate) fn record(&mut self, record: Record) -> Result<Option<Piece>, Failure> {
        match self.format {
            Format::Raw | Format::RawTerminal => {
                let target = match record.stream {
                    Stream::Stdout | Stream::Pty => Target::Out,
                    Stream::Stderr => Target::Err,
                };
                Ok(Some(Piece { target, bytes: record.bytes }))
            }
            Format::Json => self.message(record),
        }
    }

    /// What to print for output that was not kept. A person is told of the first gap where it is,
    /// and of all of them at the end: a command that prints faster than we do leaves very many.
    pub(crate) fn dropped(&mut self, dropped: Dropped) -> Result<Option<Piece>, Failure> {
        let Dropped { dropped_bytes, from_seq, to_seq } = dropped;
        self.gaps += 1;
        self.dropped_bytes = self.dropped_bytes.saturating_add(dropped_bytes);
        match self.format {
            Format::Raw | Format::RawTerminal if self.gaps > 1 => Ok(None),
            Format::Raw | Format::RawTerminal => Ok(Some(self.note(&format!(
                "{} of output were not kept (seq {from_seq} to {to_seq})",
                values::bytes(dropped_bytes)
            )))),
            Format::Json => Ok(Some(out(json_line(&DroppedLine { dropped })?))),
        }
    }

    /// What to print after the last record: ends of split characters that never came, and the sum
    /// of what was not kept.
    pub(crate) fn finish(&mut self) -> Result<Option<Piece>, Failure> {
        if self.gaps > 1 && self.format != Format::Json {
            return Ok(Some(self.note(&format!(
                "{} of output were not kept in all, in {} places",
                values::bytes(self.dropped_bytes),
                self.gaps
            ))));
        }
        let mut lines = String::new();
        for (stream, split) in self.splits.drain(..) {
            if !split.bytes.is_empty() {
                let data = String::from_utf8_lossy(&split.bytes).into_owned();
                lines += &json_line(&Message { seq: split.seq, stream, data, ts: split.ts })?;
            }
        }
        Ok((!lines.is_empty()).then(|| out(lines)))
    }

    /// What `run --json` prints last.
    pub(crate) fn exec(exec: &Exec) -> Result<Piece, Failure> {
        Ok(out(json_line(&ExecLine { exec })?))
    }

    /// A word to the person, in the right order among the output.
    pub(crate) fn note(&self, text: &str) -> Piece {
        let (before, after) = match self.format {
            Format::RawTerminal => ("\r\n", "\r\n"),
            Format::Raw | Format::Json => ("", "\n"),
        };
        Piece { target: Target::Err, bytes: format!("{before}note: {text}{after}").into_bytes() }
    }

    fn message(&mut self, record: Record) -> Result<Option<Piece>, Failure> {
        let Record { seq, ts, stream, bytes } = record;
        let mut whole = match self.splits.iter().position(|(of, _)| *of == stream) {
            Some(at) => self.splits.swap_remove(at).1.bytes,
            None => Vec::new(),
        };
        whole.extend(bytes);
        let rest = whole.split_off(whole.len() - unfinished(&whole));
        if !rest.is_empty() {
            self.splits.push((stream, Split { bytes: rest, seq, ts }));
        }
        if whole.is_empty() {
            return Ok(None);
        }
        let data = String::from_utf8_lossy(&whole).into_owned();
        Ok(Some(out(json_line(&Message { seq, stream, data, ts })?)))
    }
}

fn out(text: String) -> Piece {
    Piece { target: Target::Out, bytes: text.into_bytes() }
}

/// How many bytes at the end begin a character whose other bytes have not come yet.
fn unfinished(bytes: &[u8]) -> usize {
    let longest = bytes.len().min(3);
    (1..=longest)
        .find(|back| bytes[bytes.len() - back] & 0xc0 != 0x80)
        .filter(|back| {
            let tail = &bytes[bytes.len() - back..];
            std::str::from_utf8(tail).is_err_and(|error| error.error_len().is_none())
        })
        .unwrap_or(0)
}

//! JSON values that may be too large: what they cost, their beginning, and what is shown of them.

use std::io;

use serde_json::Value;

use crate::brief::Strategy;
use crate::parts::{How, Text};
use crate::pieces::{TailShare, beginning, truncated};
use crate::text::show_text;
use crate::tokens::{MOST_BYTES_OF_A_TOKEN, estimate_tokens};
use crate::{sample, shape};

/// Keeps the beginning of what is written, and counts the rest.
struct Beginning {
    kept: Vec<u8>,
    most: usize,
    written: u64,
}

impl io::Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.most - self.kept.len();
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.written += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn written(value: &Value, most: usize) -> Beginning {
    let mut out = Beginning { kept: Vec::new(), most, written: 0 };
    // Values have no keys that are not text, and this writer does not fail.
    let _ = serde_json::to_writer(&mut out, value);
    out
}

/// What a value costs as JSON, or one more than `limit`, and its bytes.
pub(crate) fn cost_and_bytes(value: &Value, limit: usize) -> (usize, u64) {
    let most = limit.saturating_mul(MOST_BYTES_OF_A_TOKEN);
    let out = written(value, most);
    if out.written > most as u64 {
        return (limit + 1, out.written);
    }
    (estimate_tokens(&String::from_utf8_lossy(&out.kept)).min(limit + 1), out.written)
}

/// A value as JSON, or the beginning of it.
pub(crate) fn json_beginning(value: &Value, tokens: usize) -> String {
    let out = written(value, tokens.saturating_mul(MOST_BYTES_OF_A_TOKEN) + 1);
    beginning(&String::from_utf8_lossy(&out.kept), tokens)
}

/// A value that does not fit.
pub(crate) fn show_json(value: &Value, room: usize, strategy: Strategy) -> (String, How) {
    match (value, strategy) {
        (Value::String(text), _) => show_text(&Text::whole(text), room, strategy),
        (_, Strategy::Truncate) => {
            let text = value.to_string();
            (truncated(&Text::whole(&text), room, TailShare::Half), How::Truncated)
        }
        (Value::Array(items), Strategy::Sample) => (sample::items(items, room), How::Sampled),
        (Value::Object(entries), Strategy::Sample) => {
            (sample::entries(entries, room), How::Sampled)
        }
        (_, Strategy::Auto | Strategy::Summarise | Strategy::Sample) => {
            (shape::summarised(value, room), How::Summarised)
        }
    }
}

//! Messages as JSON, with long texts escaped eight letters at a time and, where one is there twice, once.
//!
//! The content of a file is told as text for models and in `structuredContent` for programs. A message
//! is encoded with short marks in place of such texts, and they are put where their marks are; so is
//! structured content that is JSON already.

use rmcp::model::{ContentBlock, JsonRpcMessage, ServerJsonRpcMessage, ServerResult};
use serde_json::Value;

/// What is shorter is not worth it.
const LONG: usize = 32 * 1024;
/// Room for what is around the texts.
const AROUND: usize = 512;

/// Encodes a message. Its long texts are taken out of it, and given back beside the JSON.
pub(super) fn encode(
    message: &mut ServerJsonRpcMessage,
) -> serde_json::Result<(Vec<u8>, Vec<Piece>)> {
    let mut places = places(message);
    if places.is_empty() {
        let mut line = Vec::with_capacity(AROUND);
        serde_json::to_writer(&mut line, message)?;
        return Ok((line, Vec::new()));
    }
    let mut nonce = [0; 16];
    // Without a mark that nobody can know, a text could hold one.
    getrandom::fill(&mut nonce).map_err(serde::ser::Error::custom)?;
    let mark = |number: usize| format!("{:032x}.{number}", u128::from_ne_bytes(nonce));
    let pieces: Vec<Piece> =
        places.iter_mut().enumerate().map(|(number, place)| place.take(mark(number))).collect();
    let around = serde_json::to_vec(message)?;
    match put_in(&around, &pieces, mark) {
        Some(line) => Ok((line, pieces)),
        None => Err(serde::ser::Error::custom("a text has no place in its message")),
    }
}

/// Something that is put into a message.
#[derive(Debug)]
pub(super) enum Piece {
    /// A text, to be escaped.
    Text(String),
    /// JSON (`encoded.rs`), which stands for itself.
    Json(String),
}

/// Where it is put.
enum Place<'a> {
    Text(&'a mut String),
    Json(&'a mut String),
}

impl Place<'_> {
    /// Takes what is there, and leaves a mark.
    fn take(&mut self, mark: String) -> Piece {
        match self {
            Self::Text(text) => Piece::Text(std::mem::replace(text, mark)),
            Self::Json(json) => Piece::Json(std::mem::replace(json, mark)),
        }
    }
}

/// Where the message has long texts, in the order in which they are encoded.
fn places(message: &mut ServerJsonRpcMessage) -> Vec<Place<'_>> {
    let JsonRpcMessage::Response(response) = message else { return Vec::new() };
    let ServerResult::CallToolResult(result) = &mut response.result else { return Vec::new() };
    let told = result.content.iter_mut().filter_map(|block| {
        let ContentBlock::Text(text) = block else { return None };
        long(&mut text.text)
    });
    let mut places: Vec<Place<'_>> = told.collect();
    match &mut result.structured_content {
        Some(Value::Object(fields)) => {
            places.extend(fields.values_mut().filter_map(|value| match value {
                Value::String(text) => long(text),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_) => None,
            }));
        }
        Some(Value::String(json)) => places.push(Place::Json(json)),
        None | Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {}
    }
    places
}

fn long(text: &mut String) -> Option<Place<'_>> {
    (text.len() >= LONG).then_some(Place::Text(text))
}

/// The JSON with every mark replaced by its piece; none if a mark is missing.
fn put_in(around: &[u8], pieces: &[Piece], mark: impl Fn(usize) -> String) -> Option<Vec<u8>> {
    let long: usize = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.len() / 8 * 9,
            Piece::Json(json) => json.len(),
        })
        .sum();
    let mut line = Vec::with_capacity(around.len() + long);
    let mut rest = around;
    // What was escaped, and where it lies in the line.
    let mut escaped: Vec<(&str, std::ops::Range<usize>)> = Vec::with_capacity(pieces.len());
    for (number, piece) in pieces.iter().enumerate() {
        let mark = mark(number);
        let at = memchr::memmem::find(rest, mark.as_bytes())?;
        let (before, after) = (&rest[..at], &rest[at + mark.len()..]);
        match piece {
            Piece::Text(text) => {
                line.extend_from_slice(before);
                let begin = line.len();
                match escaped.iter().find(|(other, _)| *other == text.as_str()) {
                    Some((_, range)) => line.extend_from_within(range.clone()),
                    None => escape(&mut line, text),
                }
                escaped.push((text, begin..line.len()));
                rest = after;
            }
            Piece::Json(json) => {
                line.extend_from_slice(before.strip_suffix(b"\"")?);
                line.extend_from_slice(json.as_bytes());
                rest = after.strip_prefix(b"\"")?;
            }
        }
    }
    line.extend_from_slice(rest);
    Some(line)
}

/// Writes a text as it stands between the quotes of a JSON string: a block at a time, since most
/// lines are short, and a block's bytes before it is known which of them stand for themselves.
fn escape(line: &mut Vec<u8>, text: &str) {
    const BLOCK: usize = 4096;
    /// The next eight bytes fit, and the longest escape.
    const SPARE: usize = 16;
    let mut block = [0; BLOCK + SPARE];
    let mut used = 0;
    let mut rest = text.as_bytes();
    while let Some(chunk) = rest.first_chunk::<8>() {
        block[used..used + 8].copy_from_slice(chunk);
        let found = specials(u64::from_le_bytes(*chunk));
        if found == 0 {
            used += 8;
            rest = &rest[8..];
        } else {
            let at = (found.trailing_zeros() / 8) as usize;
            used += at;
            used += write_escape(&mut block[used..], chunk[at]);
            rest = &rest[at + 1..];
        }
        if used >= BLOCK {
            line.extend_from_slice(&block[..used]);
            used = 0;
        }
    }
    line.extend_from_slice(&block[..used]);
    for byte in rest {
        if *byte < b' ' || *byte == b'"' || *byte == b'\\' {
            let length = write_escape(&mut block, *byte);
            line.extend_from_slice(&block[..length]);
        } else {
            line.push(*byte);
        }
    }
}

/// Writes a byte that cannot stand for itself; how long it is then.
fn write_escape(place: &mut [u8], byte: u8) -> usize {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let letter = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\t' => b't',
        b'\r' => b'r',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            place[..6].copy_from_slice(&[b'\\', b'u', b'0', b'0', DIGITS[high], DIGITS[low]]);
            return 6;
        }
    };
    place[..2].copy_from_slice(&[b'\\', letter]);
    2
}

/// The highest bit of the first byte of eight that cannot stand for itself, and maybe bits above it.
fn specials(word: u64) -> u64 {
    const EACH: u64 = u64::MAX / 255;
    let zeros = |word: u64| word.wrapping_sub(EACH) & !word;
    let controls = word.wrapping_sub(EACH * u64::from(b' ')) & !word;
    let quotes = zeros(word ^ (EACH * u64::from(b'"')));
    let backslashes = zeros(word ^ (EACH * u64::from(b'\\')));
    (controls | quotes | backslashes) & (EACH << 7)
}

#[cfg(test)]
#[path = "long_texts_tests.rs"]
mod long_texts_tests;

//! Messages as JSON, with long texts escaped eight letters at a time and, where one is there twice, once.
//!
//! The content of a file is told as text for models and in `structuredContent` for programs. A message
//! is encoded with short marks in place of such texts, and they are put where their marks are.

use rmcp::model::{ContentBlock, JsonRpcMessage, ServerJsonRpcMessage, ServerResult};
use serde_json::Value;

/// What is shorter is not worth it.
const LONG: usize = 32 * 1024;
/// Room for what is around the texts.
const AROUND: usize = 512;

/// Encodes a message. Its long texts are taken out of it, and given back beside the JSON.
pub(super) fn encode(
    message: &mut ServerJsonRpcMessage,
) -> serde_json::Result<(Vec<u8>, Vec<String>)> {
    let mut places = places(message);
    if places.is_empty() {
        let mut line = Vec::with_capacity(AROUND);
        serde_json::to_writer(&mut line, message)?;
        return Ok((line, Vec::new()));
    }
    let mut nonce = [0; 16];
    // Without a mark that nobody can know, a text could hold one.
    if getrandom::fill(&mut nonce).is_err() {
        return Ok((serde_json::to_vec(message)?, Vec::new()));
    }
    let mark = |number: usize| format!("{:032x}.{number}", u128::from_ne_bytes(nonce));
    let texts: Vec<String> = places
        .iter_mut()
        .enumerate()
        .map(|(number, place)| std::mem::replace(*place, mark(number)))
        .collect();
    let around = serde_json::to_vec(message)?;
    match put_in(&around, &texts, mark) {
        Some(line) => Ok((line, texts)),
        None => Err(serde::ser::Error::custom("a text has no place in its message")),
    }
}

/// Where the message has long texts, in the order in which they are encoded.
fn places(message: &mut ServerJsonRpcMessage) -> Vec<&mut String> {
    let JsonRpcMessage::Response(response) = message else { return Vec::new() };
    let ServerResult::CallToolResult(result) = &mut response.result else { return Vec::new() };
    let told = result.content.iter_mut().filter_map(|block| {
        let ContentBlock::Text(text) = block else { return None };
        Some(&mut text.text)
    });
    let fields = result.structured_content.iter_mut().filter_map(Value::as_object_mut);
    let structured =
        fields.flat_map(|fields| fields.values_mut()).filter_map(|value| match value {
            Value::String(text) => Some(text),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        });
    told.chain(structured).filter(|text| text.len() >= LONG).collect()
}

/// The JSON with every mark replaced by its text; none if a mark is missing.
fn put_in(around: &[u8], texts: &[String], mark: impl Fn(usize) -> String) -> Option<Vec<u8>> {
    let long: usize = texts.iter().map(String::len).sum();
    let mut line = Vec::with_capacity(around.len() + long / 8 * 9);
    let mut rest = around;
    // What was escaped, and where it lies in the line.
    let mut escaped: Vec<(&str, std::ops::Range<usize>)> = Vec::with_capacity(texts.len());
    for (number, text) in texts.iter().enumerate() {
        let mark = mark(number);
        let at = memchr::memmem::find(rest, mark.as_bytes())?;
        line.extend_from_slice(&rest[..at]);
        rest = &rest[at + mark.len()..];
        let begin = line.len();
        match escaped.iter().find(|(other, _)| *other == text.as_str()) {
            Some((_, range)) => line.extend_from_within(range.clone()),
            None => escape(&mut line, text),
        }
        escaped.push((text, begin..line.len()));
    }
    line.extend_from_slice(rest);
    Some(line)
}

/// Writes a text as it stands between the quotes of a JSON string.
fn escape(line: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut done = 0;
    while let Some(at) = next_special(bytes, done) {
        line.extend_from_slice(&bytes[done..at]);
        let byte = bytes[at];
        let short = match byte {
            b'"' | b'\\' => Some(byte),
            b'\n' => Some(b'n'),
            b'\t' => Some(b't'),
            b'\r' => Some(b'r'),
            0x08 => Some(b'b'),
            0x0c => Some(b'f'),
            _ => None,
        };
        match short {
            Some(letter) => line.extend_from_slice(&[b'\\', letter]),
            None => line.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        done = at + 1;
    }
    line.extend_from_slice(&bytes[done..]);
}

/// The next byte that cannot stand for itself.
fn next_special(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let found = specials(u64::from_le_bytes(*chunk));
        if found != 0 {
            return Some(at + (found.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?.iter();
    let special = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
    rest.into_iter().position(special).map(|further| at + further)
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

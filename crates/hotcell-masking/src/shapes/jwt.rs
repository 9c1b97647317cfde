//! JSON web tokens: three parts in base64, the first of which says how the last was made.

use super::text::{Class, Here, Text};
use super::tokens::URL_SAFE;
use super::verdict::{Found, Verdict};

/// The longest head that is looked into.
const HEAD_BYTES: usize = 1024;
/// No token is longer.
pub(super) const MOST_BYTES: usize = 16 * 1024;
/// So much of the second part makes it one.
const LEAST_BODY: usize = 10;

static PARTS: Class = Class::word(b"_-.");

/// Judges what begins with `eyJ`, which is `{"` in base64.
pub(super) fn judge(text: &Text<'_>, place: usize) -> Verdict {
    let joined = place > 0 && matches!(text.bytes[place - 1], b'_' | b'-' | b'.' | b'/' | b'+');
    if joined || !text.begins(place) {
        return Verdict::No;
    }
    let head = text.run(place, HEAD_BYTES, &URL_SAFE);
    match (head.open, text.at(head.end)) {
        (true, _) | (_, Here::Unknown) => return Verdict::Undecided(place),
        (false, Here::Byte(b'.')) => {}
        (false, Here::Byte(_) | Here::End) => return Verdict::No,
    }
    if !names_algorithm(text.slice(place, head.end)) {
        return Verdict::No;
    }
    let body = text.run(head.end + 1, LEAST_BODY, &URL_SAFE);
    if body.end - head.end - 1 < LEAST_BODY {
        return if body.open { Verdict::Undecided(place) } else { Verdict::No };
    }
    Found::by_form(place, text.run(place, MOST_BYTES, &PARTS), "jwt")
}

/// Whether this is JSON in base64 that has an `alg`.
fn names_algorithm(encoded: &[u8]) -> bool {
    let Some(json) = decode(encoded) else { return false };
    match serde_json::from_slice::<serde_json::Value>(&json) {
        Ok(serde_json::Value::Object(fields)) => fields.contains_key("alg"),
        Ok(_) | Err(_) => false,
    }
}

fn decode(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(encoded.len() * 3 / 4);
    let (mut bits, mut count) = (0u32, 0u32);
    for byte in encoded {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            decoded.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(decoded)
}

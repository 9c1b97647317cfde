//! What stands in `Authorization` headers.

use super::text::{Class, Here, Text};
use super::tokens::MOST_BYTES;
use super::verdict::{Found, Verdict};

const KIND: &str = "authorization";
/// What is not longer is a word of prose.
const LEAST: usize = 8;
const LEAST_ALONE: usize = 16;

static VALUE: Class = Class::word(b"._~+/=:-");
static WORD: Class = Class::word(b"-");

/// Judges a place after `Authorization`, which `end` is the end of.
pub(super) fn authorization(text: &Text<'_>, end: usize) -> Verdict {
    let later = Verdict::Undecided(usize::MAX);
    let mut at = end;
    while let Here::Byte(b'"' | b'\'' | b'\\') = text.at(at)
        && at < end + 2
    {
        at += 1;
    }
    let Some(sign) = text.skip_space(at) else { return later };
    match text.at(sign) {
        Here::Byte(b':' | b'=') => {}
        Here::Unknown => return later,
        Here::Byte(_) | Here::End => return Verdict::No,
    }
    let Some(mut value) = text.skip_space(sign + 1) else { return later };
    let quotes = value;
    while let Here::Byte(b'"' | b'\'' | b'\\') = text.at(value)
        && value < quotes + 2
    {
        value += 1;
    }
    let word = text.run(value, 24, &WORD);
    match (word.open, text.at(word.end)) {
        (true, _) | (_, Here::Unknown) => Verdict::Undecided(value),
        (false, Here::Byte(b' ')) if word.end > value => credentials(text, word.end + 1, LEAST),
        (false, Here::Byte(_) | Here::End) => alone(text, value),
    }
}

/// What follows the name of a scheme.
fn credentials(text: &Text<'_>, at: usize, least: usize) -> Verdict {
    let run = text.run(at, MOST_BYTES, &VALUE);
    if run.open && run.end - at < least {
        return Verdict::Undecided(at);
    }
    if run.end - at < least { Verdict::No } else { Found::by_name(at, run, KIND) }
}

/// A value that has no other sign of being one: it has digits and letters.
fn alone(text: &Text<'_>, at: usize) -> Verdict {
    let run = text.run(at, MOST_BYTES, &VALUE);
    let looked_at = text.slice(at, run.end.min(at + LEAST_ALONE + 16));
    if run.open && looked_at.len() < LEAST_ALONE + 16 {
        return Verdict::Undecided(at);
    }
    let stop = text.at(run.end);
    if stop == Here::Unknown && looked_at.len() < LEAST_ALONE + 16 {
        return Verdict::Undecided(at);
    }
    // A call, or an address.
    let is_other = looked_at.len() < LEAST_ALONE + 16 && stop == Here::Byte(b'(')
        || looked_at.windows(3).any(|three| three == b"://");
    let digits = looked_at.iter().any(u8::is_ascii_digit);
    let letters = looked_at.iter().any(u8::is_ascii_alphabetic);
    if is_other || looked_at.len() < LEAST_ALONE || !digits || !letters {
        return Verdict::No;
    }
    Found::by_name(at, run, KIND)
}

/// Judges what follows `Bearer `, wherever that stands.
pub(super) fn bearer(text: &Text<'_>, place: usize, prefix: usize) -> Verdict {
    match place.checked_sub(1).map(|at| text.bytes[at]) {
        Some(b'B' | b'b') => alone(text, place + prefix),
        Some(_) | None => Verdict::No,
    }
}

//! Private keys between a line that begins and one that ends them.

use super::text::{Class, Here, Run, Text};
use super::tokens::closed;
use super::verdict::{Found, Verdict};

/// No key is longer; what follows is shown again.
pub(super) const MOST_BYTES: usize = 16 * 1024;
/// The longest words in the line that begins one.
const MOST_LABEL: usize = 48;
/// So much of a key makes it one: source code and prose name the line alone.
const LEAST_BODY: usize = 16;
/// The longest of what may stand before the first line: the end of a line, `+` of a diff, a number.
const MOST_MARGIN: usize = 64;

const KIND: &str = "private-key";
const END: &[u8] = b"-----END ";

static LABEL: Class = Class::word(b" ");
static BODY: Class = Class::word(b"+/=");
static MARGIN: Class = Class::only(b" \t\r\n\\\"'+-|>:#*,;");

/// Judges what begins with `-----BEGIN `.
pub(super) fn judge(text: &Text<'_>, place: usize, prefix: usize) -> Verdict {
    let label = text.run(place + prefix, MOST_LABEL, &LABEL);
    let dashes = match (label.open, text.says(label.end, b"-----")) {
        (true, _) | (_, None) => return Verdict::Undecided(place),
        (false, Some(dashes)) => dashes,
    };
    let words = text.slice(place + prefix, label.end);
    if !dashes || !words.windows(11).any(|part| part == b"PRIVATE KEY") {
        return Verdict::No;
    }
    let first = label.end + b"-----".len();
    match begins_body(text, first) {
        None => Verdict::Undecided(place),
        Some(false) => Verdict::No,
        Some(true) => whole(text, place, first),
    }
}

/// Whether a key begins here, or what is said about it first (`Proc-Type: …`, `Version: …`).
fn begins_body(text: &Text<'_>, from: usize) -> Option<bool> {
    let at = skip_margin(text, from)?;
    let run = text.run(at, LEAST_BODY, &BODY);
    if run.end - at == LEAST_BODY {
        return Some(true);
    }
    for said in HEADERS {
        match text.says(at, said) {
            Some(false) => {}
            said => return said,
        }
    }
    if run.open { None } else { Some(false) }
}

/// The place after what stands between two parts of a key. An escaped line end is one, too.
fn skip_margin(text: &Text<'_>, from: usize) -> Option<usize> {
    let mut at = from;
    while at < from + MOST_MARGIN {
        match (text.at(at), text.at(at + 1)) {
            (Here::Unknown, _) | (Here::Byte(b'\\'), Here::Unknown) => return None,
            (Here::Byte(b'\\'), Here::Byte(b'n' | b'r' | b't')) => at += 2,
            // A `+` may be the first byte of a key; either way it belongs to it.
            (Here::Byte(byte), _) if MARGIN.has(byte) => {
                if text.says(at, b"-----")? {
                    break;
                }
                at += 1;
            }
            (Here::Byte(_) | Here::End, _) => break,
        }
    }
    Some(at)
}

/// All of a key: its lines up to the one that ends it, or to what cannot belong to it.
fn whole(text: &Text<'_>, place: usize, first: usize) -> Verdict {
    let bound = place + MOST_BYTES;
    let goes_on = |run: Run| {
        let run = Run { end: run.end.min(bound), open: run.open && run.end < bound, of: None };
        Found::by_form(place, run, KIND)
    };
    let undecided = |end: usize| goes_on(Run { end, open: true, of: None });
    let mut at = first;
    while at < bound {
        let Some(next) = skip_margin(text, at) else { return undecided(at) };
        match text.says(next, END) {
            None => return undecided(at),
            Some(true) => {
                let label = text.run(next + END.len(), MOST_LABEL, &LABEL);
                return match (label.open, text.says(label.end, b"-----")) {
                    (true, _) => goes_on(label),
                    (false, None) => undecided(label.end),
                    (false, Some(true)) => goes_on(closed(label.end + 5)),
                    (false, Some(false)) => goes_on(closed(label.end)),
                };
            }
            Some(false) => {}
        }
        let run = text.run(next, MOST_BYTES, &BODY);
        if run.open {
            return goes_on(run);
        }
        if run.end > next {
            at = run.end;
            continue;
        }
        match rest_of_header(text, first, next) {
            None => return goes_on(closed(at)),
            Some(rest) if rest.open => return goes_on(rest),
            Some(rest) => at = rest.end,
        }
    }
    goes_on(closed(bound))
}

/// The rest of a line that says something about the key, as those before its first do.
fn rest_of_header(text: &Text<'_>, first: usize, stop: usize) -> Option<Run> {
    const MOST: usize = 200;
    let read = text.slice(first, stop);
    let line = read.iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1);
    let is_header = HEADERS.iter().any(|name| read[line..].windows(name.len()).any(|w| w == *name));
    let rest = text.run(stop, MOST, &LINE);
    (is_header && (rest.open || rest.end > stop)).then_some(rest)
}

/// What may be said about a key before its first line.
const HEADERS: [&[u8]; 5] = [b"Proc-Type:", b"DEK-Info:", b"Version:", b"Comment:", b"Hash:"];
static LINE: Class = Class::line();

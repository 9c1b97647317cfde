//! Which part of a file a request wants, and whether it wants it at all (RFC 9110, 13 and 14).

use http::HeaderMap;
use http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH, IF_RANGE, RANGE};

/// What is sent of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of it.
    Whole,
    /// This part: its first byte, and how many.
    Part {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        length: u64,
    },
    /// A part that the file does not have.
    Absent,
    /// Nothing: the caller has it already.
    Unchanged,
    /// Nothing: it is not what the caller expected.
    Changed,
}

/// What a request wants of a file of this etag and size.
pub(super) fn wanted(headers: &HeaderMap, etag: &str, size: u64) -> Wanted {
    if text(headers, IF_MATCH).is_some_and(|list| !names(list, etag, Weak::Differ)) {
        return Wanted::Changed;
    }
    if text(headers, IF_NONE_MATCH).is_some_and(|list| names(list, etag, Weak::Count)) {
        return Wanted::Unchanged;
    }
    // A date in If-Range is never the etag, and then all of it is sent.
    if text(headers, IF_RANGE).is_some_and(|one| one.trim() != format!("\"{etag}\"")) {
        return Wanted::Whole;
    }
    text(headers, RANGE).and_then(|range| part(range, size)).unwrap_or(Wanted::Whole)
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether weak etags can be equal to ours, which are strong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weak {
    Count,
    Differ,
}

fn names(list: &str, etag: &str, weak: Weak) -> bool {
    list.split(',').map(str::trim).any(|one| {
        let strong = match weak {
            Weak::Count => one.strip_prefix("W/").unwrap_or(one),
            Weak::Differ => one,
        };
        one == "*" || strong.trim_matches('"') == etag
    })
}

/// One range of bytes. Whatever else may be written there is not understood, and so is nothing.
fn part(range: &str, size: u64) -> Option<Wanted> {
    let one = range.trim().strip_prefix("bytes=")?.trim();
    if one.contains(',') {
        return None;
    }
    let (first, last) = one.split_once('-')?;
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten()
    };
    let (offset, length) = if first.is_empty() {
        let length = number(last)?.min(size);
        (size - length, length)
    } else {
        let first = number(first)?;
        let last = if last.is_empty() { u64::MAX } else { number(last)? };
        if last < first {
            return None;
        }
        (first, last.saturating_add(1).min(size).saturating_sub(first))
    };
    Some(if length == 0 { Wanted::Absent } else { Wanted::Part { offset, length } })
}

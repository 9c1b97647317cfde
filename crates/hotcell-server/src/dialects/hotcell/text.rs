//! Output as text for a model: valid, bounded, and with a note where something is left out.

use std::borrow::Cow;

use hotcell_model::{Exec, Record, Stream};

use super::mode_switches::without_mode_switches;
use super::views::LeftOut;

/// How much of one stream a result holds: about 2,000 tokens.
pub(super) const STREAM_BYTES: usize = 8000;
/// How much of files, lists and searches a result holds: well below what clients accept.
pub(super) const SHOWN_BYTES: usize = 32 * 1024;

/// The text of one stream of an exec.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) cut: bool,
}

/// The text of some streams of an exec. `gap` says that output is missing between its records.
pub(super) fn of_stream(exec: &Exec, records: &[Record], wanted: &[Stream], gap: bool) -> Shown {
    let shown = |bytes: &[u8]| match exec.pty {
        true => valid(&without_mode_switches(bytes)),
        false => valid(bytes),
    };
    let mut bytes = Vec::new();
    let mut gaps = Vec::new();
    let mut last_seq = None;
    let mut is_after_gap = false;
    for record in records {
        is_after_gap |= gap && last_seq.is_some_and(|last: u64| record.seq > last + 1);
        last_seq = Some(record.seq);
        if wanted.contains(&record.stream) {
            if std::mem::take(&mut is_after_gap) {
                gaps.push(bytes.len());
            }
            bytes.extend_from_slice(&record.bytes);
        }
    }
    if is_after_gap {
        gaps.push(bytes.len());
    }
    // Before the first output of a stream, what is missing is of another one if it can be.
    let gap_at = gaps.iter().copied().find(|at| *at > 0).or(gaps.first().copied());
    // What is missing may all be of the other stream; while it runs, that is not known of one that
    // had printed nothing before.
    let gap_at = gap_at.filter(|gap_at| match printed(exec, wanted) {
        Some(printed) => (bytes.len() as u64) < printed,
        None => *gap_at > 0,
    });
    if gap_at.is_none() && bytes.len() <= STREAM_BYTES {
        let text = shown(&bytes);
        if shown_size(&text) <= STREAM_BYTES {
            return Shown { text, cut: false };
        }
    }
    let (before, after) = match gap_at {
        Some(at) => (shown(&bytes[..at]), shown(skip_cut(&bytes[at..]))),
        None => {
            let middle = bytes.len() / 2;
            let tail = &bytes[bytes.len().saturating_sub(STREAM_BYTES).max(middle)..];
            (shown(&bytes[..middle]), shown(skip_cut(tail)))
        }
    };
    let head = first_lines(&before, STREAM_BYTES / 2);
    let tail = last_lines(&after, STREAM_BYTES - shown_size(head));
    // An ellipsis stands for the rest of a line.
    let head = match head.is_empty() || head.ends_with('\n') {
        true => head.to_owned(),
        false => format!("{head}…\n"),
    };
    let begins_line = after[..after.len() - tail.len()].ends_with('\n');
    let rest = if begins_line || tail.is_empty() { "" } else { "…" };
    let text = format!("{head}[cut: read the rest with exec_poll {}]\n{rest}{tail}", exec.id);
    Shown { text, cut: true }
}

/// The size of a text in a result: control characters are escaped in JSON.
pub(super) fn shown_size(text: &str) -> usize {
    text.chars().map(shown_size_of).sum()
}

fn shown_size_of(character: char) -> usize {
    match character {
        '\n' | '\r' | '\t' => 1,
        control if control < ' ' => 6,
        other => other.len_utf8(),
    }
}

/// The beginning of a text, up to a size, and to the end of a line if there is one near.
fn first_lines(text: &str, most: usize) -> &str {
    let mut size = 0;
    let too_far = text.char_indices().find(|(_, character)| {
        size += shown_size_of(*character);
        size > most
    });
    let text = &text[..too_far.map_or(text.len(), |(at, _)| at)];
    match text.rfind('\n') {
        Some(newline) if newline >= text.len() / 2 => &text[..=newline],
        Some(_) | None => text,
    }
}

/// The end of a text, up to a size, and from the beginning of a line if there is one near.
fn last_lines(text: &str, most: usize) -> &str {
    let mut size = 0;
    let too_far = text.char_indices().rev().find(|(_, character)| {
        size += shown_size_of(*character);
        size > most
    });
    let text = &text[too_far.map_or(0, |(at, character)| at + character.len_utf8())..];
    match text.find('\n') {
        Some(newline) if newline < text.len() / 2 => &text[newline + 1..],
        Some(_) | None => text,
    }
}

/// A diff up to a size and the end of a line, with a note where it is cut.
pub(super) fn cut_diff(diff: &mut String, most: usize) {
    if shown_size(diff) <= most {
        return;
    }
    let shown = first_lines(diff, most).len();
    let note = format!(
        "[cut: {shown} of {} bytes of the diff are shown; see the file with fs_read]\n",
        diff.len()
    );
    diff.truncate(shown);
    end_line(diff);
    diff.push_str(&note);
}

/// Takes the rest of a line away from the front of last lines that filled their bound, if a whole line
/// comes after it.
pub(super) fn begin_with_a_line(records: &mut Vec<Record>, max_bytes: u64) -> LeftOut {
    let bytes: usize = records.iter().map(|record| record.bytes.len()).sum();
    if (bytes as u64) < max_bytes {
        return LeftOut::Nothing;
    }
    let newline = records.iter().flat_map(|record| &record.bytes).position(|byte| *byte == b'\n');
    if let Some(newline) = newline.filter(|newline| newline + 1 < bytes) {
        let mut left = newline + 1;
        for record in records.iter_mut() {
            let taken = left.min(record.bytes.len());
            record.bytes.drain(..taken);
            left -= taken;
        }
        records.retain(|record| !record.bytes.is_empty());
    }
    LeftOut::Beginning
}

/// How much an exec that has ended printed to some streams.
fn printed(exec: &Exec, wanted: &[Stream]) -> Option<u64> {
    let usage = exec.end.as_ref()?.usage;
    Some(match wanted.contains(&Stream::Stderr) {
        true => usage.stderr_bytes,
        false => usage.stdout_bytes,
    })
}

/// The bytes after what is left of a character that was cut.
fn skip_cut(bytes: &[u8]) -> &[u8] {
    let cut = bytes.iter().take(3).take_while(|byte| (0x80..0xC0).contains(*byte)).count();
    &bytes[cut..]
}

/// Valid text: invalid bytes are replaced, and a character that is cut at the end is left out.
fn valid(bytes: &[u8]) -> String {
    let whole = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        Ok(_) | Err(_) => bytes,
    };
    String::from_utf8_lossy(whole).into_owned()
}

/// Ends the last line of a text.
pub(super) fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// A path as it is shown: the tools take paths relative to the workspace.
pub(super) fn short_path(path: &str) -> &str {
    match path.strip_prefix("/workspace/") {
        Some("") | None => path,
        Some(relative) => relative,
    }
}

/// A name, path or command in one line: quoted if it has control characters.
pub(super) fn path_in_line(path: &str) -> Cow<'_, str> {
    match path.contains(char::is_control) {
        true => Cow::Owned(format!("{path:?}")),
        false => Cow::Borrowed(path),
    }
}

/// A path as a result's text shows it.
pub(super) fn shown_path(path: &str) -> Cow<'_, str> {
    path_in_line(short_path(path))
}

/// Lines up to the bound of a result, and how many were left out.
pub(super) fn bounded(mut lines: impl ExactSizeIterator<Item = String>) -> (String, usize) {
    let mut text = String::new();
    while let Some(line) = lines.next() {
        if text.len() + line.len() >= SHOWN_BYTES {
            return (text, 1 + lines.len());
        }
        text.push_str(&line);
        text.push('\n');
    }
    (text, 0)
}

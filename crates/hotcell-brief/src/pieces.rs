//! Pieces of texts that fit: on whole characters always, on whole lines where that does not cost too much.

use crate::parts::{Text, count_lines};
use crate::tokens::{MOST_BYTES_OF_A_TOKEN, Runs, estimate_tokens};

/// An end of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Head,
    Tail,
}

/// How much of the room goes to the end of a text; the beginning gets the rest.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TailShare {
    Half,
    Most,
}

/// Whether a text costs no more than this; long ones are not read to the end for it.
pub(crate) fn fits(text: &str, tokens: usize) -> bool {
    text.len() <= tokens.saturating_mul(MOST_BYTES_OF_A_TOKEN) && estimate_tokens(text) <= tokens
}

/// What a text costs, or one more than `limit`.
pub(crate) fn cost_up_to(text: &str, limit: usize) -> usize {
    if text.len() > limit.saturating_mul(MOST_BYTES_OF_A_TOKEN) {
        return limit + 1;
    }
    estimate_tokens(text).min(limit + 1)
}

/// The longest piece at one end that costs no more than this, give or take a few characters.
pub(crate) fn piece(text: &str, end: End, tokens: usize) -> &str {
    let mut room = tokens;
    loop {
        let found = match end {
            End::Head => head_within(text, room),
            End::Tail => tail_within(text, room),
        };
        // A run that is cut off from its neighbour may cost one more than beside it.
        if room == 0 || estimate_tokens(found) <= tokens {
            return found;
        }
        room -= 1;
    }
}

fn head_within(text: &str, tokens: usize) -> &str {
    let window = slice(text, End::Head, tokens.saturating_mul(MOST_BYTES_OF_A_TOKEN));
    let (mut at, mut left) = (0, tokens);
    for (bytes, cost) in Runs::of(window) {
        let Some(rest) = left.checked_sub(cost) else {
            return &text[..at + part_of_run(&text[at..at + bytes], End::Head, left).len()];
        };
        at += bytes;
        left = rest;
    }
    window
}

fn tail_within(text: &str, tokens: usize) -> &str {
    let most = tokens.saturating_mul(MOST_BYTES_OF_A_TOKEN).min(text.len());
    let mut bytes = tokens.saturating_mul(4).min(most);
    loop {
        let window = slice(text, End::Tail, bytes);
        let runs: Vec<(usize, usize)> = Runs::of(window).collect();
        let mut cost: usize = runs.iter().map(|(_, cost)| cost).sum();
        if cost <= tokens && bytes < most {
            bytes = (bytes * 2).min(most);
            continue;
        }
        let mut at = 0;
        for (bytes, less) in runs {
            if cost <= tokens {
                break;
            }
            cost -= less;
            at += bytes;
            if cost <= tokens {
                let part = part_of_run(&window[at - bytes..at], End::Tail, tokens - cost);
                return &window[at - part.len()..];
            }
        }
        return &window[at..];
    }
}

/// What fits of a run that does not fit as a whole.
fn part_of_run(run: &str, end: End, tokens: usize) -> &str {
    let (mut fitting, mut tried) = (0, run.len());
    while tried - fitting > 4 {
        let middle = fitting + (tried - fitting) / 2;
        if estimate_tokens(slice(run, end, middle)) <= tokens {
            fitting = middle;
        } else {
            tried = middle;
        }
    }
    slice(run, end, fitting)
}

/// At most this many bytes at one end, in whole characters.
fn slice(text: &str, end: End, bytes: usize) -> &str {
    match end {
        End::Head => &text[..text.floor_char_boundary(bytes)],
        End::Tail => &text[text.ceil_char_boundary(text.len() - bytes.min(text.len()))..],
    }
}

/// The longest piece that fits, in whole lines unless that would lose half of it.
pub(crate) fn piece_of_lines(text: &str, end: End, tokens: usize) -> &str {
    let found = piece(text, end, tokens);
    if found.len() == text.len() {
        return found;
    }
    match end {
        End::Head => match found.rfind('\n') {
            Some(at) if (at + 1) * 2 >= found.len() => &found[..=at],
            Some(_) | None => found,
        },
        End::Tail if text.as_bytes()[text.len() - found.len() - 1] == b'\n' => found,
        End::Tail => match found.find('\n') {
            Some(at) if (found.len() - at - 1) * 2 >= found.len() => &found[at + 1..],
            Some(_) | None => found,
        },
    }
}

/// Renders with less and less until it costs no more than `room`.
pub(crate) fn fit(room: usize, mut render: impl FnMut(usize) -> String) -> String {
    let mut asked = room;
    for _ in 0..6 {
        let text = render(asked);
        let cost = estimate_tokens(&text);
        if cost <= room {
            return text;
        }
        asked = asked.saturating_sub(cost - room + 1);
    }
    let text = render(asked);
    piece(&text, End::Head, room).to_owned()
}

/// The beginning and the end of a text, with a word on what is left out between them.
pub(crate) fn truncated(text: &Text<'_>, room: usize, share: TailShare) -> String {
    fit(room, |room| {
        let note = estimate_tokens(&left_out(text.total_lines, text.total_bytes)) + 2;
        let Some(room) = room.checked_sub(note) else {
            return piece(&text.head, End::Head, room).to_owned();
        };
        let for_tail = match share {
            TailShare::Half => room / 2,
            TailShare::Most => room - room / 4,
        };
        let end = if text.missing == 0 { &text.head } else { &text.tail };
        let tail = piece_of_lines(end, End::Tail, for_tail);
        let beginning = match text.missing {
            0 => &text.head[..text.head.len() - tail.len()],
            _ => &text.head,
        };
        let head = piece_of_lines(beginning, End::Head, room - estimate_tokens(tail));
        if text.missing == 0 && head.len() == beginning.len() {
            return text.head.clone().into_owned();
        }
        let bytes = text.total_bytes.saturating_sub((head.len() + tail.len()) as u64);
        let lines = text.total_lines.saturating_sub(count_lines(head) + count_lines(tail));
        match lines {
            0 => format!("{head}{}{tail}", left_out(0, bytes)),
            _ => {
                let gap = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
                format!("{head}{gap}{}\n{tail}", left_out(lines, bytes))
            }
        }
    })
}

fn left_out(lines: u64, bytes: u64) -> String {
    match lines {
        0 => format!("[… {bytes} bytes left out …]"),
        _ => format!("[… {lines} lines, {bytes} bytes left out …]"),
    }
}

/// The beginning of a text, with dots if that is not all of it.
pub(crate) fn beginning(text: &str, tokens: usize) -> String {
    if fits(text, tokens) {
        return text.to_owned();
    }
    format!("{}…", piece(text, End::Head, tokens.saturating_sub(1)))
}

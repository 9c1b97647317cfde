//! Lines, items and entries taken at even distances, with their numbers.

use serde_json::Value;

use crate::json::json_beginning;
use crate::parts::Text;
use crate::pieces::{beginning, fit};
use crate::tokens::estimate_tokens;

/// Lines that the cost of one is told by.
const TRIED: usize = 32;

pub(crate) fn lines(text: &Text<'_>, room: usize) -> String {
    let head = text.head.lines().count();
    let tail = text.tail.lines().count();
    let before_tail = usize::try_from(text.total_lines).unwrap_or(usize::MAX).saturating_sub(tail);
    let most = (room / 8).max(16);
    let picked = |count: usize| {
        let places = places(head + tail, count);
        let in_head = places.partition_point(|place| *place < head);
        let mut picked = taken(&text.head, &places[..in_head], 0, 1, most);
        picked.extend(taken(&text.tail, &places[in_head..], head, before_tail + 1, most));
        picked
    };
    let what = format!("{} of {} lines, evenly spaced:\n", "{count}", text.total_lines);
    rendered(&what, room, head + tail, picked)
}

/// The lines at these places, each with its number.
fn taken(
    text: &str,
    places: &[usize],
    first_place: usize,
    number: usize,
    most: usize,
) -> Vec<String> {
    let mut wanted = places.iter().copied().peekable();
    let mut taken = Vec::with_capacity(places.len());
    for (at, line) in text.lines().enumerate() {
        match wanted.peek() {
            None => break,
            Some(place) if *place != at + first_place => {}
            Some(_) => {
                wanted.next();
                taken.push(format!("{}: {}\n", at + number, beginning(line, most)));
            }
        }
    }
    taken
}

pub(crate) fn items(items: &[Value], room: usize) -> String {
    let most = (room / 4).max(16);
    let what = format!("{} of {} items, evenly spaced:\n", "{count}", items.len());
    rendered(&what, room, items.len(), |count| {
        let places = places(items.len(), count);
        places.iter().map(|at| format!("[{at}] {}\n", json_beginning(&items[*at], most))).collect()
    })
}

pub(crate) fn entries(entries: &serde_json::Map<String, Value>, room: usize) -> String {
    let most = (room / 8).max(16);
    let what = format!("{} of {} keys, evenly spaced:\n", "{count}", entries.len());
    rendered(&what, room, entries.len(), |count| {
        let places = places(entries.len(), count);
        let mut wanted = places.iter().copied().peekable();
        let picked = entries.iter().enumerate().filter(|(at, _)| wanted.next_if_eq(at).is_some());
        picked
            .map(|(_, (key, value))| {
                format!("{}: {}\n", beginning(key, most), json_beginning(value, most))
            })
            .collect()
    })
}

/// As many as fit of what `pick` gives.
fn rendered(what: &str, room: usize, all: usize, pick: impl Fn(usize) -> Vec<String>) -> String {
    let tried = pick(TRIED.min(all));
    let cost: usize = tried.iter().map(|line| estimate_tokens(line) + 1).sum();
    let each = cost.div_ceil(tried.len().max(1)).max(1);
    let fixed = estimate_tokens(what) + 4;
    fit(room, |asked| {
        let lines = pick((asked.saturating_sub(fixed) / each).clamp(1, all.max(1)));
        let what = what.replace("{count}", &lines.len().to_string());
        format!("{what}{}", lines.concat())
    })
}

/// Places at even distances, the first and the last among them.
fn places(all: usize, count: usize) -> Vec<usize> {
    let count = count.min(all);
    if count < 2 {
        return (0..count).collect();
    }
    let place = |at: usize| (at as u128 * (all - 1) as u128 / (count - 1) as u128) as usize;
    (0..count).map(place).collect()
}

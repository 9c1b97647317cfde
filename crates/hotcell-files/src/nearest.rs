//! Where a text that is not found comes nearest to being.

use std::time::Duration;

use similar::TextDiff;

/// Lines of a file that are looked at.
const MOST_LINES: usize = 20_000;
/// Lines of the wanted text that are looked for.
const MOST_WANTED: usize = 100;
/// Places that are compared letter by letter.
const MOST_COMPARED: usize = 50;
const COMPARE_WITHIN: Duration = Duration::from_millis(20);
const SHOWN_LINES: usize = 12;
const SHOWN_LETTERS: usize = 200;
/// Less alike than this is another text.
const LEAST_ALIKE: f32 = 0.5;

/// A hint that shows the place most like `wanted`.
pub(crate) fn nearest_place(text: &str, wanted: &str) -> String {
    const READ_AGAIN: &str = "read the file again: the old text must match exactly, also in spaces";
    let lines: Vec<&str> = text.lines().take(MOST_LINES).collect();
    let wanted: Vec<&str> = wanted.lines().take(MOST_WANTED).collect();
    let Some((first, alike)) = best_window(&lines, &wanted) else { return READ_AGAIN.to_owned() };
    if alike < LEAST_ALIKE {
        return READ_AGAIN.to_owned();
    }
    let end = (first + wanted.len()).min(lines.len());
    let mut hint = format!("the nearest place is at lines {} to {end}:\n", first + 1);
    for line in &lines[first..end.min(first + SHOWN_LINES)] {
        hint.extend(line.chars().take(SHOWN_LETTERS));
        hint.push('\n');
    }
    if end - first > SHOWN_LINES {
        hint.push_str("…\n");
    }
    hint.push_str(READ_AGAIN);
    hint
}

/// The first line of the window most like `wanted`, and how alike it is.
fn best_window(lines: &[&str], wanted: &[&str]) -> Option<(usize, f32)> {
    if lines.is_empty() || wanted.is_empty() {
        return None;
    }
    let last = lines.len().saturating_sub(wanted.len());
    let mut windows: Vec<(usize, usize)> = (0..=last)
        .map(|first| {
            let score = wanted.iter().zip(&lines[first..]).map(|(w, l)| rough(w, l)).sum();
            (first, score)
        })
        .collect();
    windows.sort_by_key(|(first, score)| (std::cmp::Reverse(*score), *first));
    let compared = windows.into_iter().take(MOST_COMPARED).map(|(first, _)| {
        let end = (first + wanted.len()).min(lines.len());
        (first, alike(&lines[first..end], wanted))
    });
    compared.fold(None, |best: Option<(usize, f32)>, candidate| match best {
        Some(best) if best.1 >= candidate.1 => Some(best),
        Some(_) | None => Some(candidate),
    })
}

/// A quick guess at how alike two lines are.
fn rough(one: &str, other: &str) -> usize {
    let (one, other) = (one.trim(), other.trim());
    if one == other {
        return 4 + one.len().min(40);
    }
    let shared = one.bytes().zip(other.bytes()).take(20).take_while(|(a, b)| a == b).count();
    let ends = one.bytes().rev().zip(other.bytes().rev()).take(20);
    let shared_end = ends.take_while(|(a, b)| a == b).count();
    shared.max(shared_end)
}

fn alike(lines: &[&str], wanted: &[&str]) -> f32 {
    let cut = |lines: &[&str]| -> String {
        lines
            .iter()
            .take(SHOWN_LINES)
            .flat_map(|line| line.trim().chars().take(SHOWN_LETTERS).chain(std::iter::once('\n')))
            .collect()
    };
    let (lines, wanted) = (cut(lines), cut(wanted));
    TextDiff::configure().timeout(COMPARE_WITHIN).diff_chars(&lines, &wanted).ratio()
}

//! Shows what an edit changes, as `diff -u` does.

use std::path::Path;

use similar::TextDiff;

/// Characters of a line that are shown; settings may lie on one line of a megabyte.
const WIDEST: usize = 300;

/// The difference between two texts of a file; control characters are shown, not sent.
pub(crate) fn unified_diff(path: &Path, before: &str, after: &str) -> String {
    let shown = path.display().to_string();
    let from = if before.is_empty() { "/dev/null" } else { &shown };
    let diff = TextDiff::from_lines(before, after);
    let text = diff.unified_diff().context_radius(3).header(from, &shown).to_string();
    text.lines().map(|line| format!("{}\n", harmless(line))).collect()
}

fn harmless(line: &str) -> String {
    let mut shown = String::new();
    for (at, char) in line.trim_end_matches('\r').chars().enumerate() {
        match char {
            _ if at == WIDEST => {
                shown.push('…');
                break;
            }
            '\t' => shown.push('\t'),
            other if other.is_control() => shown.extend(other.escape_unicode()),
            other => shown.push(other),
        }
    }
    shown
}

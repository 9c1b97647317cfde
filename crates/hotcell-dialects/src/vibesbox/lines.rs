//! The first lines of what a command printed, and how many there were more.

use hotcell_model::{Record, Stream};

use super::redacted::redacted;

/// Lines of each stream that are shown.
pub(super) const MOST_LINES: usize = 100;
/// The longest that what is shown of one stream may be: a line has no end of its own.
const MOST_BYTES: usize = 1 << 20;

/// One stream while it is read.
#[derive(Debug, Default)]
struct Beginning {
    bytes: Vec<u8>,
    lines: usize,
    more_lines: usize,
    /// Whether a line that is not shown was begun.
    is_open: bool,
    is_cut: bool,
}

/// Both streams while they are read.
#[derive(Debug, Default)]
pub(super) struct Beginnings {
    stdout: Beginning,
    stderr: Beginning,
}

/// One stream as it is shown.
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) is_cut: bool,
}

impl Beginnings {
    pub(super) fn take(&mut self, records: &[Record]) {
        for record in records {
            match record.stream {
                Stream::Stdout | Stream::Pty => self.stdout.take(&record.bytes),
                Stream::Stderr => self.stderr.take(&record.bytes),
            }
        }
    }

    /// Standard output, then standard error.
    pub(super) fn shown(self) -> (Shown, Shown) {
        (self.stdout.shown(), self.stderr.shown())
    }
}

impl Beginning {
    fn take(&mut self, bytes: &[u8]) {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let ends = line.ends_with(b"\n");
            if self.lines < MOST_LINES {
                let room = MOST_BYTES.saturating_sub(self.bytes.len()).min(line.len());
                self.bytes.extend_from_slice(&line[..room]);
                self.is_cut |= room < line.len();
                self.lines += usize::from(ends);
            } else {
                self.more_lines += usize::from(ends);
                self.is_open = !ends;
            }
        }
    }

    fn shown(mut self) -> Shown {
        let more = self.more_lines + usize::from(self.is_open);
        if more > 0 && self.bytes.ends_with(b"\n") {
            self.bytes.pop();
        }
        let mut text = redacted(&String::from_utf8_lossy(&self.bytes));
        if more > 0 {
            text.push_str(&format!("\n... [truncated {more} more lines]"));
        }
        Shown { text, is_cut: self.is_cut || more > 0 }
    }
}

#[cfg(test)]
mod tests {
    use hotcell_model::{Record, Stream, Timestamp};

    use super::Beginnings;

    fn shown(pieces: &[&str]) -> (String, bool) {
        let mut beginnings = Beginnings::default();
        for piece in pieces {
            let bytes = piece.as_bytes().to_vec();
            beginnings.take(&[Record { seq: 1, ts: Timestamp(0), stream: Stream::Stdout, bytes }]);
        }
        let shown = beginnings.shown().0;
        (shown.text, shown.is_cut)
    }

    #[test]
    fn a_hundred_lines_are_shown_and_the_rest_is_counted() {
        let lines = |count: usize| "x\n".repeat(count);
        assert_eq!(shown(&["a\n", "b"]), ("a\nb".to_owned(), false));
        assert_eq!(shown(&[&lines(100)]), (lines(100), false));
        let (text, is_cut) = shown(&[&lines(60), &lines(42), "y"]);
        assert!(is_cut && text.ends_with("x\n... [truncated 3 more lines]"), "{text}");
        assert_eq!(text.lines().count(), 101);
        let (text, _) = shown(&[&lines(100), "y"]);
        assert!(text.ends_with("... [truncated 1 more lines]"), "{text}");
    }
}

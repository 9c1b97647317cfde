//! The lines of one file that match, with those around them.

use std::collections::VecDeque;
use std::io;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};
use hotcell_model::FileMatch;

/// What is shown of a line.
const SHOWN_LETTERS: usize = 500;
/// What is shown of a long line before the match.
const LETTERS_BEFORE: usize = 100;

/// The matches of one file.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    matcher: &'a RegexMatcher,
    path: &'a str,
    context: usize,
    /// The last line that is not wanted any more.
    after: u64,
    most: usize,
    most_bytes: usize,
    before: VecDeque<String>,
    pub(crate) matches: Vec<FileMatch>,
    pub(crate) bytes: usize,
}

impl<'a> Lines<'a> {
    /// None yet. One more than `most` is looked for, to tell whether there are more.
    pub(crate) fn new(
        matcher: &'a RegexMatcher,
        path: &'a str,
        context: usize,
        (most, most_bytes): (usize, usize),
    ) -> Self {
        let (before, matches) = (VecDeque::new(), Vec::new());
        Self { matcher, path, context, after: 0, most, most_bytes, before, matches, bytes: 0 }
    }

    /// Only those after a line.
    pub(crate) fn after(self, after: u64) -> Self {
        Self { after, ..self }
    }

    /// Shows a line after the matches before it that still want one.
    fn follow(&mut self, line: &str) {
        let context = self.context;
        for found in self.matches.iter_mut().rev().take(context) {
            if found.after.len() < context {
                self.bytes += json_bytes(line);
                found.after.push(line.to_owned());
            }
        }
    }

    /// Keeps a line for the matches after it.
    fn precede(&mut self, line: String) {
        if self.context > 0 {
            if self.before.len() == self.context {
                self.before.pop_front();
            }
            self.before.push_back(line);
        }
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> io::Result<bool> {
        let bytes = without_end(line.bytes());
        let at = self.matcher.find(bytes).ok().flatten().map_or(0, |found| found.start());
        let text = shown(bytes, at);
        self.follow(&text);
        if line.line_number().is_some_and(|number| number <= self.after) {
            self.precede(text);
            return Ok(true);
        }
        let before: Vec<String> = self.before.iter().cloned().collect();
        self.bytes += match_bytes(self.path, &text, &before);
        self.precede(text.clone());
        self.matches.push(FileMatch {
            path: self.path.to_owned(),
            line: line.line_number(),
            text: Some(text),
            before,
            after: Vec::new(),
        });
        Ok(self.matches.len() <= self.most && self.bytes <= self.most_bytes)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        let text = shown(without_end(line.bytes()), 0);
        self.follow(&text);
        self.precede(text);
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.before.clear();
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        // A file that turns out to be no text has no lines.
        if end.binary_byte_offset().is_some() {
            self.matches.clear();
            self.bytes = 0;
        }
        Ok(())
    }
}

/// How long something found is on the wire, at most.
pub(crate) fn match_bytes(path: &str, text: &str, before: &[String]) -> usize {
    const NAMES: usize = 64;
    let before: usize = before.iter().map(|line| json_bytes(line)).sum();
    NAMES + json_bytes(path) + json_bytes(text) + before
}

/// How long a text is as JSON.
pub(crate) fn json_bytes(text: &str) -> usize {
    const QUOTES_AND_COMMA: usize = 3;
    let each = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    QUOTES_AND_COMMA + text.bytes().map(each).sum::<usize>()
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A line as text; of a long one, the part around a place.
fn shown(line: &[u8], at: usize) -> String {
    // A letter has four bytes at most.
    const BYTES: usize = 4;
    if line.len() <= SHOWN_LETTERS * BYTES {
        let whole = String::from_utf8_lossy(line);
        if whole.chars().count() <= SHOWN_LETTERS {
            return whole.into_owned();
        }
    }
    let mut from = at.saturating_sub(LETTERS_BEFORE * BYTES);
    while from < at && line[from] & 0xc0 == 0x80 {
        from += 1;
    }
    let to = line.len().min(at + (SHOWN_LETTERS + 1) * BYTES);
    let whole = String::from_utf8_lossy(&line[from..to]);
    let lead = String::from_utf8_lossy(&line[from..at]).chars().count();
    let (skipped, left) =
        if lead > LETTERS_BEFORE { (lead - LETTERS_BEFORE, true) } else { (0, from > 0) };
    let mut text = String::new();
    if left {
        text.push('…');
    }
    let mut letters = whole.chars().skip(skipped);
    text.extend(letters.by_ref().take(SHOWN_LETTERS));
    if letters.next().is_some() || to < line.len() {
        text.push('…');
    }
    text
}

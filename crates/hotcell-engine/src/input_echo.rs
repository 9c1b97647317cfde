//! Finds the echo of input in what a terminal prints after it, so that it does not count as output.
//!
//! The echo is searched for in the rendered line, because line editors redraw: it is wrapped at the
//! terminal's width, and keys may be drawn several times. Blanks and backslashes do not count, since
//! editors add them where they wrap lines.

use std::collections::VecDeque;

use hotcell_model::TerminalSize;

use crate::emulator::Emulator;
use crate::plain_text::PlainText;

/// How many rows are rendered: the longest line that terminals take fits.
const ROWS: u16 = 60;
/// How much output is searched for the echo.
const MOST_SEARCHED: usize = 1 << 20;
/// How many lines of input are searched for.
const MOST_LINES: usize = 1000;
/// How many of the next lines of input are looked for at once: an echo may be missing.
const LOOK_AHEAD: usize = 8;
/// So many lines without an echo mean that the program does not echo its input.
const LINES_WITHOUT_ECHO: usize = 3;
/// How much of the end of a long line of input is compared: as much as is rendered.
const COMPARED_CHARS: usize = 4500;
/// A shorter line of input is not searched for a second time.
const REPEATED_CHARS: usize = 4;
/// A shorter first line is searched for only where it was typed: output may well end with it.
const TELLING_CHARS: usize = 8;

/// Whether a program could read input when it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// It waited for input, or what it did is not known.
    Ready,
    /// It was busy. The terminal shows the input now, and a line editor that reads it later shows it
    /// again.
    Busy,
}

/// What was on the terminal when input was sent.
#[derive(Debug, Clone)]
pub(crate) struct TerminalBefore {
    pub(crate) size: TerminalSize,
    /// The output of the line that the cursor was in.
    pub(crate) line: Vec<u8>,
    pub(crate) reader: Reader,
}

/// What is printed to a terminal after input, as text.
#[derive(Default)]
pub(crate) struct AnswerText {
    plain: PlainText,
    text: Vec<u8>,
    search: Option<EchoSearch>,
}

/// The text so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// What is certainly output.
    pub(crate) output: Vec<u8>,
    /// What comes after it and may be the beginning of an echo.
    pub(crate) uncertain: Vec<u8>,
}

impl AnswerText {
    /// The text of output after `input` was sent.
    pub(crate) fn to_input(input: &[u8], before: &TerminalBefore) -> Self {
        let search = EchoSearch::new(input, before);
        Self { search: (!search.pending.is_empty()).then_some(search), ..Self::default() }
    }

    /// Takes more output, which may be split anywhere.
    pub(crate) fn feed(&mut self, output: &[u8]) {
        for piece in output.split_inclusive(|byte| *byte == b'\n') {
            let Some(search) = &mut self.search else {
                self.plain.append_to(&mut self.text, piece);
                continue;
            };
            self.plain.append_to(&mut search.line, piece);
            search.feed(piece, &mut self.text);
            if search.is_over() {
                self.text.append(&mut search.line);
                self.search = None;
            }
        }
    }

    /// Removes the text so far. An echo in it is still known.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        if let Some(search) = &mut self.search {
            search.line.clear();
        }
    }

    /// Keeps only the last bytes.
    pub(crate) fn keep_last(&mut self, bytes: usize) {
        let surplus = self.text.len().saturating_sub(bytes);
        self.text.drain(..surplus);
    }

    /// The text so far without the echo.
    pub(crate) fn answer(&self) -> Answer {
        let mut answer = Answer { output: self.text.clone(), uncertain: Vec::new() };
        let Some(search) = &self.search else { return answer };
        let shown = search.emulator.cursor_line();
        match search.find(&shown) {
            Some(found) => answer.output.extend_from_slice(found.rest(&shown).as_bytes()),
            None if search.may_begin(&shown) => answer.uncertain.clone_from(&search.line),
            None => answer.output.extend_from_slice(&search.line),
        }
        answer
    }
}

/// The search for the echo of each line of input.
struct EchoSearch {
    emulator: Emulator,
    /// What the first line of input is typed after.
    prompt: String,
    reader: Reader,
    /// The lines that were not echoed yet, without what is not compared.
    pending: VecDeque<String>,
    /// The lines that may be echoed again.
    repeated: VecDeque<String>,
    /// The text of the line that is being printed.
    line: Vec<u8>,
    has_echo: bool,
    lines_without: usize,
    searched: usize,
}

/// An echo in a rendered line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    line: Line,
    /// Where it ends in the rendered line.
    end: usize,
}

/// Which line of input is echoed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Pending(usize),
    Repeated(usize),
}

impl Found {
    fn rest(self, shown: &str) -> &str {
        shown[self.end..].trim_end()
    }
}

impl EchoSearch {
    fn new(input: &[u8], before: &TerminalBefore) -> Self {
        let mut emulator = Emulator::new(TerminalSize { rows: ROWS, cols: before.size.cols });
        // Programs that redraw a prompt of several lines go up first.
        emulator.feed(b"\n\n\n\n");
        let start = before.line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        emulator.feed(&before.line[start..]);
        let mut typed = Vec::new();
        PlainText::default().append_to(&mut typed, input);
        let typed = String::from_utf8_lossy(&typed).into_owned();
        let lines = typed.split(['\n', '\r']).map(compared).filter(|line| !line.is_empty());
        Self {
            prompt: compared(&emulator.cursor_line()),
            emulator,
            reader: before.reader,
            pending: lines.take(MOST_LINES).collect(),
            repeated: VecDeque::new(),
            line: Vec::new(),
            has_echo: false,
            lines_without: 0,
            searched: 0,
        }
    }

    fn is_over(&self) -> bool {
        let is_complete = self.pending.is_empty() && self.repeated.is_empty();
        is_complete || self.searched > MOST_SEARCHED
    }

    /// Takes output up to the end of a line. A line without an echo is added to `text`.
    fn feed(&mut self, piece: &[u8], text: &mut Vec<u8>) {
        self.searched += piece.len();
        let Some(printed) = piece.strip_suffix(b"\n") else {
            self.emulator.feed(piece);
            return;
        };
        self.emulator.feed(printed);
        let shown = self.emulator.cursor_line();
        self.emulator.feed(b"\n");
        if let Some(found) = self.find(&shown) {
            self.line.clear();
            self.take(found.line, text);
            let rest = found.rest(&shown);
            if !rest.is_empty() {
                text.extend_from_slice(rest.as_bytes());
                text.push(b'\n');
            }
            return;
        }
        if self.may_begin(&shown) {
            return;
        }
        text.append(&mut self.line);
        self.lines_without += usize::from(!shown.trim().is_empty());
        let is_silent = self.lines_without >= LINES_WITHOUT_ECHO && !self.has_echo;
        if is_silent && self.reader == Reader::Ready {
            self.pending.clear();
        }
    }

    fn take(&mut self, line: Line, text: &mut Vec<u8>) {
        match line {
            Line::Pending(place) => {
                if self.reader == Reader::Busy && !self.has_echo {
                    // What the program printed before it read the input is no answer to it.
                    text.clear();
                }
                let lines = self.pending.drain(..=place);
                if self.reader == Reader::Busy {
                    let is_long = |line: &String| line.chars().count() >= REPEATED_CHARS;
                    self.repeated.extend(lines.filter(is_long));
                }
            }
            Line::Repeated(place) => {
                if self.reader == Reader::Busy {
                    text.clear();
                }
                self.repeated.drain(..=place);
                // What it prints from now on comes after this line.
                self.reader = Reader::Ready;
            }
        }
        self.has_echo = true;
    }

    /// The echo in a rendered line: right after the prompt that was there before, or at the end.
    fn find(&self, shown: &str) -> Option<Found> {
        if let (false, Some(first)) = (self.has_echo, self.pending.front())
            && let Some(end) = end_of_prefix(shown, &[&self.prompt, first])
        {
            return Some(Found { line: Line::Pending(0), end });
        }
        let end = shown.len();
        let is_first = |place: usize| place == 0 && !self.has_echo && self.reader == Reader::Ready;
        let mut ahead = self.pending.iter().enumerate().take(LOOK_AHEAD);
        let is_echo = |(place, line): (usize, &String)| {
            let is_telling = !is_first(place) || line.chars().count() >= TELLING_CHARS;
            is_telling && is_typed_at_end(shown, line)
        };
        if let Some(place) = ahead.position(is_echo) {
            return Some(Found { line: Line::Pending(place), end });
        }
        // Only a line editor shows it again, after its prompt.
        let is_after_prompt = |line: &String| {
            is_typed_at_end(shown, line) && start_of_suffix(shown, line).is_some_and(|at| at > 0)
        };
        let place = self.repeated.iter().take(LOOK_AHEAD).position(is_after_prompt)?;
        Some(Found { line: Line::Repeated(place), end })
    }

    /// Whether a rendered line ends with the beginning of an echo.
    fn may_begin(&self, shown: &str) -> bool {
        let ahead = self.pending.iter().take(LOOK_AHEAD);
        let mut lines = ahead.chain(self.repeated.iter().take(LOOK_AHEAD));
        lines.any(|line| {
            let mut ends = line.char_indices().map(|(at, _)| at).skip(1);
            ends.any(|end| is_typed_at_end(shown, &line[..end]))
        })
    }
}

/// What counts of a line when it is compared: of a long one only the end.
fn compared(line: &str) -> String {
    let kept: Vec<char> = line.chars().filter(is_compared).collect();
    kept[kept.len().saturating_sub(COMPARED_CHARS)..].iter().collect()
}

fn is_compared(character: &char) -> bool {
    !character.is_whitespace() && !character.is_control() && *character != '\\'
}

/// Where these texts end, if a line starts with them.
fn end_of_prefix(line: &str, parts: &[&str]) -> Option<usize> {
    let mut characters = line.char_indices().filter(|(_, character)| is_compared(character));
    let mut end = 0;
    for wanted in parts.iter().flat_map(|part| part.chars()) {
        let (at, character) = characters.next()?;
        if character != wanted {
            return None;
        }
        end = at + character.len_utf8();
    }
    Some(end)
}

/// Where this text starts, if a line ends with it.
fn start_of_suffix(line: &str, wanted: &str) -> Option<usize> {
    let mut characters = line.char_indices().rev().filter(|(_, character)| is_compared(character));
    let mut start = line.len();
    for wanted in wanted.chars().rev() {
        let (at, character) = characters.next()?;
        if character != wanted {
            return None;
        }
        start = at;
    }
    Some(start)
}

/// Whether a line ends with this text and it may have been typed there: a prompt ends with a blank or
/// a sign, and a part of a word is no echo.
fn is_typed_at_end(line: &str, text: &str) -> bool {
    let Some(start) = start_of_suffix(line, text) else { return false };
    line[..start].chars().next_back().is_none_or(|last| !last.is_alphanumeric() && last != '_')
}

#[cfg(test)]
#[path = "input_echo_tests.rs"]
mod tests;

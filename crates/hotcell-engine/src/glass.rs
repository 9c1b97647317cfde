//! How the texts of one cell are shown: without the values of its secrets, and without what has the
//! form of one.

use std::ops::Range;
use std::sync::Arc;

use hotcell_masking::{Finder, Masker, Masks, Shapes, marker};
use hotcell_model::{Code, Command, FileMatch};

use crate::emulator::ScreenRow;

/// What stands in a search's answer where a long line was cut.
const CUT: char = '…';
/// A line of so many letters of base64 and nothing else may be one of a key.
const KEY_LINE: usize = 40;

/// How the texts of one cell are shown.
#[derive(Debug)]
pub(crate) struct Glass {
    shapes: Option<Arc<Shapes>>,
    values: Vec<Value>,
}

/// A secret that the cell is granted.
#[derive(Debug)]
pub(crate) struct Value {
    name: String,
    masks: Masks,
}

impl Value {
    pub(crate) fn new(name: &str, value: &[u8]) -> Self {
        // Of the same length, so that it shows where the value stands.
        let mut masks = Masks::of_same_length();
        masks.add(name, value);
        Self { name: name.to_owned(), masks }
    }

    fn find(&self, bytes: &[u8], hidden: &mut Vec<Hidden>) {
        let mut masker = Masker::default();
        let mut starred = masker.take(&self.masks, bytes);
        starred.extend(masker.release(&self.masks));
        let mut at = 0;
        while let Some(next) =
            (at..bytes.len()).find(|place| starred.get(*place) != bytes.get(*place))
        {
            let end = (next..bytes.len()).find(|place| starred[*place] != b'*');
            at = end.unwrap_or(bytes.len());
            hidden.push(Hidden { range: next..at, kind: self.name.clone() });
        }
    }
}

/// Bytes that are not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hidden {
    range: Range<usize>,
    kind: String,
}

impl Glass {
    pub(crate) fn new(shapes: Option<Arc<Shapes>>, values: Vec<Value>) -> Self {
        Self { shapes, values }
    }

    /// Whether everything is shown as it is.
    pub(crate) fn is_clear(&self) -> bool {
        self.shapes.is_none() && self.values.is_empty()
    }

    /// A text that stands by itself.
    pub(crate) fn text(&self, text: &str) -> String {
        let hidden = self.hidden(&[text.as_bytes()]);
        shown_text(text, 0, &hidden)
    }

    /// A part of something, with what stands before and after it.
    pub(crate) fn part(&self, before: &[u8], part: &[u8], after: &[u8]) -> Vec<u8> {
        let hidden = self.hidden(&[&[before, part, after].concat()]);
        shown(part, before.len(), &hidden)
    }

    /// A text that shows lines of files without all that stands around them.
    pub(crate) fn changes(&self, text: &str) -> String {
        let mut hidden = self.hidden(&[text.as_bytes()]);
        self.hide_key_lines(text, 0, &mut hidden);
        shown_text(text, 0, &merged(hidden))
    }

    /// Something that was found, with the lines around it.
    pub(crate) fn found(&self, found: &mut FileMatch) {
        let FileMatch { text, before, after, .. } = found;
        let lines = before.iter_mut().chain(text.as_mut()).chain(after.iter_mut());
        let mut lines: Vec<&mut String> = lines.collect();
        let ended: Vec<Vec<u8>> =
            lines.iter().map(|line| [line.as_bytes(), b"\n"].concat()).collect();
        let pieces: Vec<&[u8]> = ended.iter().map(Vec::as_slice).collect();
        let mut hidden = self.hidden(&pieces);
        let mut at = 0;
        for line in &lines {
            self.hide_key_lines(line, at, &mut hidden);
            at += line.len() + 1;
        }
        let hidden = merged(hidden);
        let mut at = 0;
        for line in &mut lines {
            let length = line.len();
            **line = shown_text(line, at, &hidden);
            at += length + 1;
        }
    }

    /// The rows of a screen.
    pub(crate) fn rows(&self, rows: &[ScreenRow]) -> Vec<String> {
        let ended: Vec<Vec<u8>> = rows
            .iter()
            .map(|row| [row.text.as_bytes(), if row.goes_on { &b""[..] } else { b"\n" }].concat())
            .collect();
        let pieces: Vec<&[u8]> = ended.iter().map(Vec::as_slice).collect();
        let hidden = self.hidden(&pieces);
        let mut at = 0;
        rows.iter()
            .zip(&ended)
            .map(|(row, whole)| {
                let text = shown_text(&row.text, at, &hidden);
                at += whole.len();
                text
            })
            .collect()
    }

    /// What a command was.
    pub(crate) fn command(&self, command: &mut Command) {
        match command {
            Command::Shell(text) | Command::Code(Code { text, .. }) => *text = self.text(text),
            Command::Argv(words) => {
                let mut flag = None;
                for word in words {
                    let is_flag = word.starts_with("--") && !word.contains(['=', ' ']);
                    let after = is_flag.then(|| word.clone());
                    *word = self.word(flag.take(), word);
                    flag = after;
                }
            }
        }
    }

    /// A word of a command. What it is may stand in the one before it: `--password`.
    fn word(&self, flag: Option<String>, word: &str) -> String {
        let before = flag.map(|flag| flag + " ").unwrap_or_default();
        let shown = self.part(before.as_bytes(), word.as_bytes(), b"");
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// What is not shown of pieces that follow one another. Of a line that was cut, what is there
    /// may be a part of a secret.
    fn hidden(&self, pieces: &[&[u8]]) -> Vec<Hidden> {
        let mut hidden = Vec::new();
        if !self.values.is_empty() {
            let whole = pieces.concat();
            self.values.iter().for_each(|value| value.find(&whole, &mut hidden));
        }
        if let Some(shapes) = &self.shapes {
            let mut cut = [0; 4];
            let cut = CUT.encode_utf8(&mut cut).as_bytes();
            let mut finder = Finder::default();
            for piece in pieces {
                let (lead, rest) =
                    piece.split_at(if piece.starts_with(cut) { cut.len() } else { 0 });
                finder.feed(shapes, lead);
                if !lead.is_empty() {
                    finder.gap(shapes);
                }
                let line = rest.strip_suffix(b"\n").unwrap_or(rest);
                match line.strip_suffix(cut) {
                    Some(line) if pieces.len() > 1 => {
                        finder.feed(shapes, line);
                        finder.gap(shapes);
                        finder.feed(shapes, &rest[line.len()..]);
                    }
                    Some(_) | None => finder.feed(shapes, rest),
                }
            }
            finder.finish(shapes);
            hidden.extend(finder.regions().map(|region| Hidden {
                range: place(region.start)..place(region.end),
                kind: region.kind.to_owned(),
            }));
        }
        merged(hidden)
    }

    /// Hides lines that may belong to a key of which neither end is there.
    fn hide_key_lines(&self, text: &str, start: usize, hidden: &mut Vec<Hidden>) {
        if self.shapes.is_none() {
            return;
        }
        let mut at = start;
        for line in text.split_inclusive('\n') {
            let bare = line.trim_start_matches([' ', '+', '-', '\t', '"', '\'']).trim_end();
            let bare = bare.trim_end_matches(['"', '\'', ',', '\\']);
            let has = |is: fn(&u8) -> bool| bare.as_bytes().iter().any(is);
            let is_base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
            if bare.len() >= KEY_LINE
                && bare.bytes().all(is_base64)
                && has(u8::is_ascii_digit)
                && has(u8::is_ascii_uppercase)
                && has(u8::is_ascii_lowercase)
            {
                let from = at + line.find(bare).unwrap_or(0);
                hidden.push(Hidden { range: from..from + bare.len(), kind: "cut".to_owned() });
            }
            at += line.len();
        }
    }
}

fn place(place: u64) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// In order; what overlaps is one, called after what begins first.
fn merged(mut hidden: Vec<Hidden>) -> Vec<Hidden> {
    hidden.sort_by_key(|hidden| hidden.range.start);
    let mut merged: Vec<Hidden> = Vec::new();
    for next in hidden {
        match merged.last_mut() {
            Some(last)
                if next.range.start < last.range.end || next.range.start == last.range.start =>
            {
                last.range.end = last.range.end.max(next.range.end);
            }
            Some(_) | None => merged.push(next),
        }
    }
    merged
}

/// What is shown of bytes that begin at a place.
fn shown(bytes: &[u8], start: usize, hidden: &[Hidden]) -> Vec<u8> {
    let end = start + bytes.len();
    let within = |place: usize| place.clamp(start, end) - start;
    let mut shown = Vec::with_capacity(bytes.len());
    let mut from = start;
    for Hidden { range, kind } in
        hidden.iter().filter(|h| h.range.end > start && h.range.start < end)
    {
        shown.extend_from_slice(&bytes[within(from)..within(range.start)]);
        // Where only its end is here, that it was there is still said: each part stands alone.
        marker::write(kind, &mut shown);
        from = range.end;
    }
    shown.extend_from_slice(&bytes[within(from)..]);
    shown
}

fn shown_text(text: &str, start: usize, hidden: &[Hidden]) -> String {
    String::from_utf8_lossy(&shown(text.as_bytes(), start, hidden)).into_owned()
}
